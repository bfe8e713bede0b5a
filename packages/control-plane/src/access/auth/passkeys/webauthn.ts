import { createHash, createPublicKey, type JsonWebKey, type KeyObject, verify } from "node:crypto";
import { decodePartialCBOR } from "@levischuck/tiny-cbor";

/** Where a passkey is used: the RP ID and the exact origin of the page. */
export interface RelyingParty {
  readonly rpId: string;
  readonly origin: string;
}

/** Why a response of an authenticator is refused, for the person who sent it. */
export class PasskeyProblem extends Error {
  override readonly name = "PasskeyProblem";
}

/** COSE algorithms in the order of preference (IANA COSE Algorithms): ES256, EdDSA, RS256. */
export const algorithms = [-7, -8, -257] as const;

/** Proven by any ceremony. */
interface Ceremony {
  /** As the browser returned it. The caller checks that it issued this challenge. */
  challenge: string;
  credentialId: Buffer;
  /** Signature counter; 0 where the authenticator has none. */
  counter: number;
}

export interface Registration extends Ceremony {
  /** SubjectPublicKeyInfo, DER. */
  publicKey: Buffer;
}

export interface Assertion extends Ceremony {
  /** Id of the account that the passkey was registered for. */
  userHandle: Buffer;
  /** Whether the holder of the private key has signed this response. */
  isSignedBy(publicKey: Buffer): boolean;
}

/** Parts of a `PublicKeyCredential` in JSON; binary fields are base64url. */
interface CredentialJson<R> {
  rawId: string;
  response: R & { clientDataJSON: string };
}

/**
 * Reads the response of `navigator.credentials.create` (WebAuthn Level 2, section 7.1). The options ask for no
 * attestation, so its statement is not read. Throws {@link PasskeyProblem}.
 */
export function readRegistration(
  { rawId, response }: CredentialJson<{ attestationObject: string }>,
  party: RelyingParty,
): Registration {
  const { challenge } = readClientData(bytesOf(response.clientDataJSON), "webauthn.create", party);
  const [attestation] = decoded(bytesOf(response.attestationObject), 0);
  const authData = attestation instanceof Map ? attestation.get("authData") : undefined;
  if (!(authData instanceof Uint8Array)) throw malformed("the attestation object has no authenticator data");
  const data = Buffer.from(authData);
  const { counter, flags } = readAuthenticatorData(data, party);
  if ((flags & flag.attested) === 0) throw malformed("the authenticator data has no credential");
  // AAGUID (16 bytes), length of the credential id (2), the id, the public key.
  const idAt = headerLength + 18;
  const keyAt = idAt + (data.length < idAt ? 0 : data.readUInt16BE(idAt - 2));
  const credentialId = data.subarray(idAt, keyAt);
  if (data.length <= keyAt || credentialId.length === 0 || credentialId.length > maxIdLength)
    throw malformed("the credential id is incomplete, or longer than 1,023 bytes");
  if (!credentialId.equals(bytesOf(rawId))) throw malformed("rawId is not the id of the credential");
  const [cose, length] = decoded(data, keyAt);
  if ((flags & flag.extensions) === 0 && keyAt + length !== data.length) throw malformed("bytes follow the public key");
  return { challenge, credentialId, counter, publicKey: keyOf(cose).export({ format: "der", type: "spki" }) };
}

/**
 * Reads the response of `navigator.credentials.get` (WebAuthn Level 2, section 7.2). The caller looks up the credential
 * and then checks its signature. Throws {@link PasskeyProblem}.
 */
export function readAssertion(
  {
    rawId,
    response,
  }: CredentialJson<{ authenticatorData: string; signature: string; userHandle?: string | null | undefined }>,
  party: RelyingParty,
): Assertion {
  const clientData = bytesOf(response.clientDataJSON);
  const { challenge } = readClientData(clientData, "webauthn.get", party);
  const data = bytesOf(response.authenticatorData);
  const { counter } = readAuthenticatorData(data, party);
  const signed = Buffer.concat([data, sha256(clientData)]);
  const signature = bytesOf(response.signature);
  return {
    challenge,
    counter,
    credentialId: bytesOf(rawId),
    userHandle: bytesOf(response.userHandle ?? ""),
    isSignedBy(publicKey) {
      const key = createPublicKey({ key: publicKey, format: "der", type: "spki" });
      try {
        return verify(key.asymmetricKeyType === "ed25519" ? null : "sha256", signed, key, signature);
      } catch {
        return false;
      }
    },
  };
}

const sha256 = (bytes: string | Buffer): Buffer => createHash("sha256").update(bytes).digest();
const bytesOf = (text: string): Buffer => Buffer.from(text, "base64url");
const malformed = (what: string) =>
  new PasskeyProblem(`The response of the passkey is malformed: ${what}. Send what the browser returned, as JSON.`);

/** Section 5.8.1: what the browser says about the page that called it. */
function readClientData(bytes: Buffer, type: string, { origin }: RelyingParty): { challenge: string } {
  let data: unknown;
  try {
    data = JSON.parse(bytes.toString());
  } catch {
    throw malformed("clientDataJSON is no JSON");
  }
  if (typeof data !== "object" || data === null) throw malformed("clientDataJSON is no object");
  const sent = data as Record<string, unknown>;
  if (sent["type"] !== type) throw malformed(`the type in clientDataJSON is not ${type}`);
  if (typeof sent["challenge"] !== "string") throw malformed("clientDataJSON has no challenge");
  if (sent["origin"] !== origin || sent["crossOrigin"] === true)
    throw new PasskeyProblem(`The passkey was used on a page of another address. Open ${origin} and try again.`);
  return { challenge: sent["challenge"] };
}

/** Section 6.1: SHA-256 of the RP ID (32 bytes), flags (1), signature counter (4). */
const headerLength = 37;
const flag = { present: 0x01, verified: 0x04, attested: 0x40, extensions: 0x80 } as const;
/** Section 4, "Credential ID". */
const maxIdLength = 1023;

function readAuthenticatorData(data: Buffer, { rpId }: RelyingParty): { counter: number; flags: number } {
  if (data.length < headerLength) throw malformed("the authenticator data is shorter than 37 bytes");
  if (!data.subarray(0, 32).equals(sha256(rpId)))
    throw new PasskeyProblem(`The passkey belongs to another host. Use one that was added at ${rpId}.`);
  const flags = data[32]!;
  if ((flags & flag.present) === 0 || (flags & flag.verified) === 0)
    throw new PasskeyProblem(
      "The device did not verify who you are. Set up a PIN, fingerprint or face recognition on it, then try again.",
    );
  return { counter: data.readUInt32BE(33), flags };
}

/** The value at this offset, and its length in bytes. The limit of the body bounds depth and length. */
function decoded(bytes: Buffer, at: number): [value: unknown, length: number] {
  try {
    // A copy: the decoder reads strings that are longer than the data from the memory behind them.
    const [value, length] = decodePartialCBOR(Uint8Array.from(bytes), at);
    if (at + length <= bytes.length) return [value, length];
  } catch {
    // Not well formed.
  }
  throw malformed("its CBOR is not well formed");
}

/** Bounds the time of a verification: 4,096 bits take 0.1 ms. */
const rsaBytes = { min: 256, max: 512, exponent: 4 } as const;

/** A public key in COSE (RFC 9053, section 7; RFC 8230, section 4). */
function keyOf(cose: unknown): KeyObject {
  const key = cose instanceof Map ? (cose as Map<unknown, unknown>) : new Map<unknown, unknown>();
  const bytes = (label: number): Buffer => {
    const value = key.get(label);
    if (!(value instanceof Uint8Array)) throw malformed("the public key is incomplete");
    return Buffer.from(value);
  };
  const text = (label: number): string => bytes(label).toString("base64url");
  const jwk = (): JsonWebKey => {
    switch (`${key.get(1)} ${key.get(3)} ${key.get(3) === -257 ? "" : key.get(-1)}`) {
      case "2 -7 1":
        return { kty: "EC", crv: "P-256", x: text(-2), y: text(-3) };
      case "1 -8 6":
        return { kty: "OKP", crv: "Ed25519", x: text(-2) };
      case "3 -257 ": {
        const [n, e] = [bytes(-1), bytes(-2)];
        if (n.length < rsaBytes.min || n.length > rsaBytes.max || e.length > rsaBytes.exponent)
          throw new PasskeyProblem("RSA keys of passkeys have 2,048 to 4,096 bits. Use another device.");
        return { kty: "RSA", n: text(-1), e: text(-2) };
      }
      default:
        throw new PasskeyProblem("The device uses a signature algorithm other than ES256, EdDSA and RS256.");
    }
  };
  const made = jwk();
  try {
    return createPublicKey({ key: made, format: "jwk" });
  } catch {
    throw malformed("the public key is not valid");
  }
}
