import type { Found, Remark } from "./found.ts";

/** A source that cannot be read: nothing follows from it. */
export class SourceError extends Error {
  override readonly name = "SourceError";
}

/** What a source has. */
export interface Reading {
  readonly all: readonly Found[];
  /** Lists that were read whole and are not empty. */
  readonly seen: readonly string[];
  /** Lists that could not be read, beside others that could. */
  readonly remarks: readonly Remark[];
}

export interface Source {
  readonly project: string;
  /** `Docker, host nas` */
  readonly words: string;
  /** Rejects with {@link SourceError}. */
  read(signal: AbortSignal): Promise<Reading>;
  /** Calls `changed` when another reading may differ; ends, or rejects, with its connection. */
  watch(changed: () => void, signal: AbortSignal): Promise<void>;
}
