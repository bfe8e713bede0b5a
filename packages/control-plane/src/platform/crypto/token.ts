import { createHash, randomBytes, timingSafeEqual } from "node:crypto";

/** A new token: the prefix and 256 random bits in base64url. Shown once; the database stores {@link hashToken}. */
export function newToken(prefix: "sm_live_" | "sm_agent_" | "sm_read_" | ""): string {
  return prefix + randomBytes(32).toString("base64url");
}

/** SHA-256 of a token, the stored lookup key. 256 random bits need no slow hash. */
export function hashToken(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}

/** Compares two secrets in constant time, whatever their lengths. */
export function sameSecret(a: string, b: string): boolean {
  return timingSafeEqual(hashToken(a), hashToken(b));
}
