import { AppError } from "@statusmesh/shared/errors";
import {
  backslash,
  closeBrace,
  closeBracket,
  colon,
  comma,
  openBrace,
  openBracket,
  quote,
  withoutMark,
} from "./json.ts";
import type { Turns } from "../../process/turns.ts";

/*
 * The structure of a JSON body that is too large to parse in one step. Nothing is validated: the parts are parsed
 * afterwards.
 */

/**
 * Bytes parsed in one step: a hostile MiB takes 50 ms. Equals the body limit of one target, so that every valid target
 * also fits into a bulk request.
 */
export const maxPiece = 1_048_576;

/** Called at the structural characters outside of texts, with their offsets. */
export interface JsonVisitor {
  /** `{` or `[`; the depth is that inside, 1 for the outermost value. */
  open(at: number, depth: number, isList: boolean): void;
  /** `}` or `]`; the depth is that inside. */
  close(at: number, depth: number): void;
  comma(at: number, depth: number): void;
  /** `name` decodes the text before it: null for one that is too long to be the name of a field. */
  colon(at: number, depth: number, name: () => string | null): void;
}

/** Walks through a body in slices. */
export async function scanJson(bytes: Buffer, turns: Turns, visitor: JsonVisitor): Promise<void> {
  let depth = 0;
  let inText = false;
  let textFrom = 0;
  let textTo = 0;
  let lookAt = 0;
  const name = (): string | null => nameIn(bytes, textFrom, textTo);
  for (let at = 0; at < bytes.length; at++) {
    if (at >= lookAt) {
      lookAt = at + 65_536;
      if (turns.over()) await turns.next();
    }
    const byte = bytes[at];
    if (inText) {
      if (byte === backslash) at++;
      else if (byte === quote) {
        inText = false;
        textTo = at + 1;
      }
    } else if (byte === quote) {
      inText = true;
      textFrom = at;
    } else if (byte === openBrace || byte === openBracket) visitor.open(at, ++depth, byte === openBracket);
    else if (byte === closeBrace || byte === closeBracket) visitor.close(at, depth--);
    else if (byte === comma) visitor.comma(at, depth);
    else if (byte === colon) visitor.colon(at, depth, name);
  }
}

function nameIn(bytes: Buffer, from: number, to: number): string | null {
  if (to - from > 200) return null;
  try {
    return String(JSON.parse(bytes.toString("utf8", from, to)));
  } catch {
    return null;
  }
}

/** The body without the parts that are cut out of it. */
export class Skeleton {
  readonly #bytes: Buffer;
  readonly #what: string;
  readonly #kept: string[] = [];
  #from = 0;
  #size = 0;

  /** `what` names the body without its parts in the error. */
  constructor(bytes: Buffer, what: string) {
    this.#bytes = bytes;
    this.#what = what;
  }

  /** Keeps what follows the last cut. Throws PAYLOAD_TOO_LARGE above {@link maxPiece}. */
  keepTo(at: number): void {
    this.#size += at - this.#from;
    if (this.#size > maxPiece) throw tooLarge(this.#what, "");
    this.#kept.push(this.#bytes.toString("utf8", this.#from, at));
  }

  /** Leaves out what is before. */
  continueFrom(at: number): void {
    this.#from = at;
  }

  /** The text, once everything is kept. */
  end(): string {
    this.keepTo(this.#bytes.length);
    return withoutMark(this.#kept.join(""));
  }
}

export const tooLarge = (what: string, pointer: string): AppError =>
  new AppError("PAYLOAD_TOO_LARGE", `${what} is larger than ${maxPiece / 1_048_576} MiB.`, { field: pointer });
