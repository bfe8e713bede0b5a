import { type KeyObject, X509Certificate } from "node:crypto";
import type { CertificateKind } from "@statusmesh/shared/checks/certificates";
import { AppError } from "@statusmesh/shared/errors";
import { clientContext, pemsIn } from "@statusmesh/shared/net/tls";
import { messageOf } from "@statusmesh/shared/thrown";
import { mapInTurns } from "../../platform/process/turns.ts";
import { readPrivateKey } from "./private-key.ts";

/** Certificates of one entry: agents parse them all for a connection, 1 ms each. */
const maxCertificates = 32;
/** Longer keys take seconds for one handshake. */
const maxRsaBits = 8192;

/** What a member uploaded, judged. */
export interface ReadMaterial {
  /** The certificates and nothing else, PEM; of a client its own first. */
  readonly certificate: string;
  /** PKCS #8, PEM, without a passphrase; null for an authority. */
  readonly private_key: string | null;
  readonly subject: string;
  /** When the first of the certificates ends. */
  readonly expires_at: Date;
}

const refusal = (message: string, field = "/certificate", cause?: unknown): AppError =>
  new AppError("INVALID_CERTIFICATE", message, { field, cause });

/**
 * Reads certificates and, for a client, their key. `key`: null for an authority; a KeyObject is one that is stored
 * already. Throws INVALID_CERTIFICATE, and CERTIFICATE_KEY_MISMATCH where the key is of another certificate.
 */
export async function readMaterial(
  kind: CertificateKind,
  text: string,
  key: { pem: string; password: string | null } | null,
): Promise<ReadMaterial> {
  const certificates = await certificatesIn(text);
  if (kind === "ca") {
    if (key !== null)
      throw refusal("An authority has no private key here: agents trust its certificate. Remove it.", "/private_key");
    return { ...described(certificates), private_key: null };
  }
  if (key === null) throw refusal("A client certificate needs its private key (PEM).", "/private_key");
  const privateKey = await readPrivateKey(key.pem, key.password);
  keyRule(privateKey, "The private key", "/private_key");
  const own = certificates.find((one) => one.checkPrivateKey(privateKey));
  if (own === undefined)
    throw new AppError(
      "CERTIFICATE_KEY_MISMATCH",
      `The private key does not belong to the certificate of ${subjectOf(certificates[0]!)}. Send the key that its ` +
        "request was made with.",
      { field: "/private_key" },
    );
  const ordered = [own, ...certificates.filter((one) => one !== own)];
  const pem = privateKey.export({ type: "pkcs8", format: "pem" }) as string;
  const material = { ...described(ordered), private_key: pem };
  try {
    clientContext(true, { client: material });
  } catch (error) {
    throw refusal(`OpenSSL does not use this certificate: ${messageOf(error)}.`, "/certificate", error);
  }
  return material;
}

async function certificatesIn(text: string): Promise<X509Certificate[]> {
  if (text.includes("PRIVATE KEY-----"))
    throw refusal("The text holds a private key. Send only certificates here, and the key in private_key.");
  const pems = pemsIn(text);
  if (pems.length === 0)
    throw refusal('No certificate is in the text: it must have "-----BEGIN CERTIFICATE-----" (PEM), to its END line.');
  if (pems.length > maxCertificates)
    throw refusal(`The text has ${pems.length} certificates; at most ${maxCertificates} are kept together.`);
  return await mapInTurns(pems, (pem, at) => {
    const name = pems.length === 1 ? "The certificate" : `Certificate ${at + 1}`;
    let one: X509Certificate;
    let key: KeyObject;
    try {
      one = new X509Certificate(pem);
      key = one.publicKey;
      if (Number.isNaN(Date.parse(one.validTo))) throw new RangeError("no end");
    } catch (cause) {
      throw refusal(`${name} is damaged.`, "/certificate", cause);
    }
    keyRule(key, name, "/certificate");
    return one;
  });
}

function keyRule(key: KeyObject, name: string, field: string): void {
  const { asymmetricKeyType: type = "unknown", asymmetricKeyDetails: details = {} } = key;
  const { modulusLength: bits = 0 } = details;
  if (!/^(?:rsa|rsa-pss|ec|ed25519|ed448)$/.test(type))
    throw refusal(`${name} has a key of the type ${type}. Use RSA, ECDSA, Ed25519 or Ed448.`, field);
  if (bits > maxRsaBits)
    throw refusal(`${name} has a key of ${bits} bits. RSA keys have at most ${maxRsaBits} here.`, field);
}

function described(certificates: readonly X509Certificate[]): Omit<ReadMaterial, "private_key"> {
  const ends = certificates.map((one) => Date.parse(one.validTo));
  return {
    certificate: certificates.map((one) => one.toString()).join(""),
    subject: subjectOf(certificates[0]!),
    // PostgreSQL and RFC 3339 end with the year 9999.
    expires_at: new Date(Math.min(...ends, Date.UTC(9999, 11, 31))),
  };
}

/** The subject in one line, as far as it is readable. */
const subjectOf = (one: X509Certificate): string =>
  (one.subject ?? "")
    .split("\n")
    .reverse()
    .join(", ")
    .replaceAll(/\p{Cc}/gu, " ")
    .slice(0, 500)
    .toWellFormed() || "(no subject)";
