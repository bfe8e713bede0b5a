/** Replaces a secret in every reply. */
export const mask = "***";

/** The server that receives the secrets of a check or of a channel. */
export interface SecretsDestination {
  /** Scheme, host and port in canonical form, and whatever else decides which server gets the request. */
  readonly origin: string;
  /** False where the certificate of the server is not verified. */
  readonly verified: boolean;
}

/** The top-level field that a pointer names or lies below: `/headers/X-Key` is in `headers`. */
export const fieldOf = (pointer: string): string => pointer.split("/", 2)[1] ?? "";

/** A key as a segment of a JSON pointer (RFC 6901 section 3). */
export const pointerSegment = (key: string): string => key.replaceAll("~", "~0").replaceAll("/", "~1");
