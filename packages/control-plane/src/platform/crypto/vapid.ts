import { createPrivateKey, type KeyObject, sign } from "node:crypto";
import { hourMs } from "@statusmesh/shared/time";
import { newKeyPair } from "./push-message.ts";

/** The key pair by which an application server names itself to push services (RFC 8292), as base64url. */
export interface VapidKeys {
  /** The uncompressed point, as browsers take it for `applicationServerKey`. */
  publicKey: string;
  /** The private number. */
  privateKey: string;
}

/** RFC 8292 section 2: a token is valid for at most 24 hours. */
const lifetimeMs = 12 * hourMs;

export function newVapidKeys(): VapidKeys {
  const pair = newKeyPair();
  // A private key that begins with zeros is shorter.
  const padded = Buffer.concat([Buffer.alloc(32), pair.getPrivateKey()]).subarray(-32);
  return { publicKey: pair.getPublicKey("base64url"), privateKey: padded.toString("base64url") };
}

function keyObject({ publicKey, privateKey }: VapidKeys): KeyObject {
  const point = Buffer.from(publicKey, "base64url");
  const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((half) => half.toString("base64url"));
  return createPrivateKey({ key: { kty: "EC", crv: "P-256", x: x!, y: y!, d: privateKey }, format: "jwk" });
}

const encoded = (part: object): string => Buffer.from(JSON.stringify(part)).toString("base64url");

/**
 * The header Authorization for a push service (RFC 8292 section 3): a JWT for its origin, signed by ES256. `subject` is
 * the contact of the sender, mailto: or https:; `now` is Unix ms.
 */
export function vapidAuthorization(
  keys: VapidKeys,
  { endpoint, subject, now }: { endpoint: string; subject: string; now: number },
): string {
  const claims = { aud: new URL(endpoint).origin, exp: Math.floor((now + lifetimeMs) / 1000), sub: subject };
  const signed = `${encoded({ typ: "JWT", alg: "ES256" })}.${encoded(claims)}`;
  const signature = sign("sha256", Buffer.from(signed), { key: keyObject(keys), dsaEncoding: "ieee-p1363" });
  return `vapid t=${signed}.${signature.toString("base64url")}, k=${keys.publicKey}`;
}
