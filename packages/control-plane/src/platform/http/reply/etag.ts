import { createHash } from "node:crypto";
import { AppError } from "@statusmesh/shared/errors";

/** Tags of bytes that several replies share. */
const tags = new WeakMap<Buffer, string>();

/** Entity tag of a representation, quoted (RFC 9110 section 8.8.3). */
export function etagOf(text: string | Buffer): string {
  const known = typeof text === "string" ? undefined : tags.get(text);
  if (known !== undefined) return known;
  const tag = `"${createHash("sha256").update(text).digest("base64url").slice(0, 22)}"`;
  if (typeof text !== "string") tags.set(text, tag);
  return tag;
}

/**
 * True where the list of a conditional header names the tag, or is `*`. Weak tags count: a proxy that compresses
 * replies makes tags weak.
 */
export const namesTag = (header: string, tag: string): boolean =>
  header !== "" && header.split(",").some((one) => one.trim() === "*" || one.trim().replace(/^W\//, "") === tag);

/** Throws PRECONDITION_FAILED where `ifMatch` (the header; empty for none) names none of the current tags. */
export function requireMatch(ifMatch: string, ...tags: readonly string[]): void {
  if (ifMatch === "" || tags.some((tag) => namesTag(ifMatch, tag))) return;
  throw new AppError(
    "PRECONDITION_FAILED",
    "It was changed since it was read, and nothing was saved. Load it again and repeat the change.",
  );
}
