import { createCipheriv, createECDH, type ECDH, hkdfSync, randomBytes } from "node:crypto";

/** Keys of a push subscription, as a browser gives them: base64url of a P-256 point and of 16 bytes. */
export interface SubscriptionKeys {
  p256dh: string;
  auth: string;
}

/** A new key pair of P-256. */
export function newKeyPair(): ECDH {
  const pair = createECDH("prime256v1");
  pair.generateKeys();
  return pair;
}

/** Bytes of an uncompressed point of P-256. */
const pointBytes = 65;
/** Content of a message at most, bytes: push services take 4,096 after encryption (RFC 8291 section 4). */
export const maxPushBytes = 3072;

const tagBytes = 16;

/** True for the base64url of a point on the curve. */
export function isPoint(text: string): boolean {
  const point = Buffer.from(text, "base64url");
  if (point.length !== pointBytes || point[0] !== 4) return false;
  try {
    newKeyPair().computeSecret(point);
    return true;
  } catch {
    return false;
  }
}

const derived = (secret: Buffer, salt: Buffer, info: Buffer, bytes: number): Buffer =>
  Buffer.from(hkdfSync("sha256", secret, salt, info, bytes));

/**
 * Encrypts a message for one subscription: `aes128gcm` (RFC 8188) in one record, with the key of RFC 8291. `sender` and
 * `salt` are new for each message; tests give those of the RFC.
 */
export function encryptPush(
  content: Buffer,
  { p256dh, auth }: SubscriptionKeys,
  { sender = newKeyPair(), salt = randomBytes(16) }: { sender?: ECDH; salt?: Buffer } = {},
): Buffer {
  const receiver = Buffer.from(p256dh, "base64url");
  const own = sender.getPublicKey();
  const info = Buffer.concat([Buffer.from("WebPush: info\0"), receiver, own]);
  const input = derived(sender.computeSecret(receiver), Buffer.from(auth, "base64url"), info, 32);
  const key = derived(input, salt, Buffer.from("Content-Encoding: aes128gcm\0"), 16);
  const nonce = derived(input, salt, Buffer.from("Content-Encoding: nonce\0"), 12);
  const cipher = createCipheriv("aes-128-gcm", key, nonce, { authTagLength: tagBytes });
  // The delimiter 2 ends the last record; nothing pads it.
  const record = Buffer.concat([cipher.update(content), cipher.update(Buffer.of(2)), cipher.final()]);
  const header = Buffer.alloc(21);
  salt.copy(header);
  header.writeUInt32BE(4096, 16);
  header.writeUInt8(own.length, 20);
  return Buffer.concat([header, own, record, cipher.getAuthTag()]);
}
