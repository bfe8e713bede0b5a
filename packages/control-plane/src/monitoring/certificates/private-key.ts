import { createDecipheriv, createPrivateKey, type KeyObject, pbkdf2, scrypt } from "node:crypto";
import { promisify } from "node:util";
import { AppError } from "@statusmesh/shared/errors";
import { Semaphore } from "@statusmesh/shared/semaphore";
import { derChildren, type DerValue, derNumber, oidOf, readDer } from "./der.ts";

/*
 * Private keys that members upload. Their parameters decide what OpenSSL computes, so they are read first: it computes
 * the public part of a DSA key of any size anew, and a passphrase of ten million rounds takes half a minute.
 */

/** Limits of key derivation: 0.3 s in a thread of the pool. OpenSSL writes 2,048 rounds of PBKDF2, or 2^14·8·1. */
const mostRounds = 100_000;
const mostScrypt = 2 ** 18;
/** Rounds of the schemes of PKCS #5 v1.5 and PKCS #12, which are not computed in the pool. */
const mostOldRounds = 10_000;
/** One derivation at a time: the pool also resolves names and reads files. */
const derivations = new Semaphore(1, {
  maxWaiting: 20,
  onFull: () => refusal("Too many keys with a passphrase are being read. Try again, or send it without one."),
});

const refusal = (message: string, field = "/private_key", cause?: unknown): AppError =>
  new AppError("INVALID_CERTIFICATE", message, { field, cause });

/** Algorithms of keys (RFC 8017, 5480, 8410). */
const keyAlgorithms = new Set([
  "1.2.840.113549.1.1.1",
  "1.2.840.113549.1.1.10",
  "1.2.840.10045.2.1",
  "1.3.101.112",
  "1.3.101.113",
]);
/** RFC 8018: PBES2, PBKDF2 and the other schemes; RFC 7914: scrypt. */
const pbes2 = "1.2.840.113549.1.5.13";
const pbkdf2Oid = "1.2.840.113549.1.5.12";
const scryptOid = "1.3.6.1.4.1.11591.4.11";
const oldSchemes = /^1\.2\.840\.113549\.1\.(?:5|12\.1)\.\d{1,2}$/;
const digests: Readonly<Record<string, string>> = {
  "1.2.840.113549.2.7": "sha1",
  "1.2.840.113549.2.8": "sha224",
  "1.2.840.113549.2.9": "sha256",
  "1.2.840.113549.2.10": "sha384",
  "1.2.840.113549.2.11": "sha512",
};
const ciphers: Readonly<Record<string, [name: string, keyBytes: number]>> = {
  "1.2.840.113549.3.7": ["des-ede3-cbc", 24],
  "2.16.840.1.101.3.4.1.2": ["aes-128-cbc", 16],
  "2.16.840.1.101.3.4.1.22": ["aes-192-cbc", 24],
  "2.16.840.1.101.3.4.1.42": ["aes-256-cbc", 32],
};

/**
 * The key of a PEM text (RFC 7468), decrypted where it has a passphrase. Throws INVALID_CERTIFICATE for text without a
 * key, another kind of key, a wrong passphrase, and a derivation that would cost too much.
 */
export async function readPrivateKey(text: string, password: string | null): Promise<KeyObject> {
  const { label, pem, body } = blockOf(text);
  const bytes = Buffer.from(body.replaceAll(/^[\w-]+:.*$/gm, ""), "base64");
  if (label === "ENCRYPTED PRIVATE KEY") return await decrypted(bytes, pem, needed(password));
  if (label === "PRIVATE KEY") return plainKey(bytes);
  // The two older forms say by their label what they are. Their encryption has one round of MD5.
  const isEncrypted = body.includes("ENCRYPTED");
  return made({ key: pem, ...(isEncrypted ? { passphrase: needed(password) } : {}) }, isEncrypted);
}

/** Labels of PEM; `OPENSSH PRIVATE KEY` and `DSA PRIVATE KEY` are no keys of TLS here. */
const labels = ["ENCRYPTED PRIVATE KEY", "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"];

function blockOf(text: string): { label: string; pem: string; body: string } {
  for (const label of labels) {
    const [begin, end] = [`-----BEGIN ${label}-----`, `-----END ${label}-----`];
    const from = text.indexOf(begin);
    const to = from < 0 ? -1 : text.indexOf(end, from);
    if (to >= 0)
      return { label, pem: `${text.slice(from, to + end.length)}\n`, body: text.slice(from + begin.length, to) };
  }
  if (text.includes("BEGIN OPENSSH PRIVATE KEY"))
    throw refusal("This is a key in the format of OpenSSH. Convert a copy: ssh-keygen -p -m PEM -f <copy>.");
  throw refusal('No private key is in the text: it must have "-----BEGIN PRIVATE KEY-----" (PEM), to its END line.');
}

function needed(password: string | null): string {
  if (password !== null && password !== "") return password;
  throw refusal("The private key has a passphrase. Send it in password; it is not stored.", "/password");
}

function made(input: Parameters<typeof createPrivateKey>[0], isEncrypted: boolean): KeyObject {
  try {
    return createPrivateKey(input);
  } catch (cause) {
    throw isEncrypted ? wrongPassphrase(cause) : damaged(cause);
  }
}

const damaged = (cause?: unknown): AppError => refusal("The private key is damaged.", "/private_key", cause);
const wrongPassphrase = (cause?: unknown): AppError =>
  refusal("The passphrase does not open the private key.", "/password", cause);

/** A key as PKCS #8 (RFC 5208): version, algorithm, key. */
function plainKey(bytes: Buffer, onDamage = damaged): KeyObject {
  let algorithm: string;
  try {
    algorithm = oidOf(derChildren(derChildren(readDer(bytes))[1])[0]);
  } catch (cause) {
    throw onDamage(cause);
  }
  if (!keyAlgorithms.has(algorithm))
    throw refusal("Keys are of RSA, ECDSA, Ed25519 or Ed448. This one is of another algorithm.");
  return made({ key: bytes, format: "der", type: "pkcs8" }, false);
}

/** EncryptedPrivateKeyInfo of RFC 5208: algorithm, data. */
async function decrypted(bytes: Buffer, pem: string, password: string): Promise<KeyObject> {
  let scheme: string, parameters: DerValue | undefined, data: DerValue | undefined;
  try {
    const [algorithm, content] = derChildren(readDer(bytes));
    [scheme, parameters, data] = [oidOf(derChildren(algorithm)[0]), derChildren(algorithm)[1], content];
    if (scheme !== pbes2) {
      const rounds = derNumber(derChildren(parameters)[1]);
      if (!oldSchemes.test(scheme) || rounds > mostOldRounds) throw unusable();
      return made({ key: pem, passphrase: password }, true);
    }
    const [kdf, cipher] = derChildren(parameters).map(derChildren);
    const [name, keyBytes] = ciphers[oidOf(cipher?.[0])] ?? [];
    const iv = cipher?.[1]?.content;
    if (name === undefined || keyBytes === undefined || iv === undefined || data === undefined) throw unusable();
    const derive = derivationOf(oidOf(kdf?.[0]), derChildren(kdf?.[1]), keyBytes);
    const key = await derivations.run("", () => derive(password));
    const opener = createDecipheriv(name, key, iv);
    return plainKey(Buffer.concat([opener.update(data.content), final(opener)]), wrongPassphrase);
  } catch (error) {
    throw error instanceof AppError ? error : damaged(error);
  }
}

function final(opener: ReturnType<typeof createDecipheriv>): Buffer {
  try {
    return opener.final();
  } catch (cause) {
    throw wrongPassphrase(cause);
  }
}

const unusable = (): AppError =>
  refusal(
    `The key is encrypted with something else than PBKDF2 of at most ${mostRounds.toLocaleString("en")} rounds or ` +
      "scrypt of at most N·r·p = 2^18, with AES. Encrypt a copy anew: openssl pkcs8 -topk8 -v2 aes-256-cbc.",
  );

/** The function that makes a key of a passphrase, within the limits. */
function derivationOf(oid: string, fields: DerValue[], keyBytes: number): (password: string) => Promise<Buffer> {
  const salt = fields[0]?.content;
  if (salt === undefined) throw damaged();
  if (oid === scryptOid) {
    const [N, r, p] = [1, 2, 3].map((at) => derNumber(fields[at])) as [number, number, number];
    if (N < 2 || r < 1 || p < 1 || N * r * p > mostScrypt) throw unusable();
    return (password) => scryptKey(password, salt, keyBytes, { N, r, p });
  }
  const rounds = derNumber(fields[1]);
  // The length of the key is optional, and so is the function (SHA-1).
  const prf = fields.slice(2).find(({ tag }) => tag === 0x30);
  const digest = prf === undefined ? "sha1" : digests[oidOf(derChildren(prf)[0])];
  if (oid !== pbkdf2Oid || digest === undefined || rounds < 1 || rounds > mostRounds) throw unusable();
  return (password) => promisify(pbkdf2)(password, salt, rounds, keyBytes, digest);
}

const scryptKey = (password: string, salt: Buffer, length: number, cost: { N: number; r: number; p: number }) =>
  new Promise<Buffer>((settle, reject) => {
    const maxmem = 256 * cost.r * (cost.N + cost.p) + 1_048_576;
    scrypt(password, salt, length, { ...cost, maxmem }, (error, key) => (error === null ? settle(key) : reject(error)));
  });
