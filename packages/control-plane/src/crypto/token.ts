import { createHash, randomBytes, timingSafeEqual } from "node:crypto";

/** A new secret: the prefix and 256 random bits in base64url. Shown once; only {@link hashToken} of it is stored. */
export function newToken(prefix: "sm_live_" | "sm_agent_" | ""): string {
  return prefix + randomBytes(32).toString("base64url");
}

/** SHA-256 of a token: what the database keeps and looks up by. 256 random bits need no slow hash. */
export function hashToken(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}

/** Compares two secrets in a time that does not depend on where they differ, nor on their lengths. */
export function sameSecret(a: string, b: string): boolean {
  return timingSafeEqual(hashToken(a), hashToken(b));
}
