import { createDecipheriv, createECDH, createHmac, createPublicKey, type ECDH, randomBytes, verify } from "node:crypto";
import type { Received } from "./sink.ts";

/** A browser that is subscribed at a push service of the test. */
export interface Browser {
  subscription: { endpoint: string; keys: { p256dh: string; auth: string } };
  pair: ECDH;
}

/** Subscribes a browser: its keys are made as RFC 8291 section 3.1 says. */
export function newBrowser(endpoint: string): Browser {
  const pair = createECDH("prime256v1");
  pair.generateKeys();
  const keys = { p256dh: pair.getPublicKey("base64url"), auth: randomBytes(16).toString("base64url") };
  return { subscription: { endpoint, keys }, pair };
}

// HKDF of RFC 5869 in its two steps, apart from the one of the sender.
const hmac = (key: Buffer, data: Buffer): Buffer => createHmac("sha256", key).update(data).digest();
const expand = (key: Buffer, info: string | Buffer, bytes: number): Buffer =>
  hmac(key, Buffer.concat([Buffer.from(info), Buffer.of(1)])).subarray(0, bytes);

/** Decrypts `aes128gcm` (RFC 8188 section 2); `keyOf` gives the input keying material for the key id. */
export function openEncoded(body: Buffer, keyOf: (keyId: Buffer) => Buffer): string {
  const [salt, size, idLength] = [body.subarray(0, 16), body.readUInt32BE(16), body[20]!];
  const secret = hmac(salt, keyOf(body.subarray(21, 21 + idLength)));
  const key = expand(secret, "Content-Encoding: aes128gcm\0", 16);
  const base = expand(secret, "Content-Encoding: nonce\0", 12);
  const records = body.subarray(21 + idLength);
  const parts: Buffer[] = [];
  for (let at = 0, number = 0; at < records.length; at += size, number++) {
    const record = records.subarray(at, at + size);
    const nonce = Buffer.from(base);
    nonce.writeUInt32BE((nonce.readUInt32BE(8) ^ number) >>> 0, 8);
    const decipher = createDecipheriv("aes-128-gcm", key, nonce, { authTagLength: 16 });
    decipher.setAuthTag(record.subarray(-16));
    const padded = Buffer.concat([decipher.update(record.subarray(0, -16)), decipher.final()]);
    const end = padded.findLastIndex((byte) => byte !== 0);
    const isLast = at + size >= records.length;
    if (padded[end] !== (isLast ? 2 : 1)) throw new Error("a record has a wrong delimiter");
    parts.push(padded.subarray(0, end));
  }
  return Buffer.concat(parts).toString();
}

/** Decrypts a push message as the browser does (RFC 8291 section 3.4). */
export const openPush = (body: Buffer, pair: ECDH, auth: string): string =>
  openEncoded(body, (sender) => {
    const secret = hmac(Buffer.from(auth, "base64url"), pair.computeSecret(sender));
    const info = Buffer.concat([Buffer.from("WebPush: info\0"), pair.getPublicKey(), sender]);
    return expand(secret, info, 32);
  });

/** The claims of a request's VAPID token (RFC 8292); throws for a signature that its key has not made. */
export function vapidClaims({ headers }: Pick<Received, "headers">, publicKey: string) {
  const [, token, key] = /^vapid t=([\w.-]+), k=([\w-]+)$/.exec(headers.authorization ?? "") ?? [];
  if (key !== publicKey) throw new Error("signed by another key");
  const [head, claims, signature] = token!.split(".");
  const point = Buffer.from(key, "base64url");
  const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((half) => half.toString("base64url"));
  const verified = verify(
    "sha256",
    Buffer.from(`${head}.${claims}`),
    {
      key: createPublicKey({ key: { kty: "EC", crv: "P-256", x: x!, y: y! }, format: "jwk" }),
      dsaEncoding: "ieee-p1363",
    },
    Buffer.from(signature!, "base64url"),
  );
  if (!verified) throw new Error("the signature is not that of the key");
  const parsed = [head, claims].map((part) => JSON.parse(Buffer.from(part!, "base64url").toString()) as object);
  return { head: parsed[0], claims: parsed[1] as { aud: string; exp: number; sub: string } };
}
