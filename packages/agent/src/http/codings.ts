import type { Transform } from "node:stream";
import { constants, createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from "node:zlib";

/* Content codings of a body (RFC 9110 section 8.4.1). What is read is bounded, so that a bomb ends at the bound. */

/** Bytes of coded data that are read beyond the bound of the text: the largest growth of data that do not compress. */
export const codeMargin = 64 * 1024;

/** A body that cannot be decoded, in words. */
export class CodingError extends Error {
  override readonly name = "CodingError";
}

function decoderOf(coding: string, bytes: Buffer, partial: boolean): Transform | null {
  const finishFlush = partial ? constants.Z_SYNC_FLUSH : constants.Z_FINISH;
  switch (coding) {
    case "gzip":
    case "x-gzip":
      return createGunzip({ finishFlush });
    case "br":
      return createBrotliDecompress({
        finishFlush: partial ? constants.BROTLI_OPERATION_FLUSH : constants.BROTLI_OPERATION_FINISH,
      });
    case "deflate": {
      // zlib data by RFC 1950; some servers send bare deflate data, and browsers read both.
      const isZlib = bytes.length >= 2 && (bytes[0]! & 0x0f) === 8 && bytes.readUInt16BE(0) % 31 === 0;
      return isZlib ? createInflate({ finishFlush }) : createInflateRaw({ finishFlush });
    }
    default:
      return null;
  }
}

export interface Decoded {
  bytes: Buffer;
  /** True when there is more than was decoded. */
  cut: boolean;
}

/**
 * Undoes the codings, the last one first. `max` bytes at most are returned. `partial`: the end of the body was not
 * read, so data that end early are no damage. Throws {@link CodingError}.
 */
export async function decoded(
  body: Buffer,
  codings: readonly string[],
  { max, partial }: { max: number; partial: boolean },
): Promise<Decoded> {
  let [bytes, cut] = [body, false];
  for (const [at, coding] of [...codings].reverse().entries()) {
    if (bytes.length === 0) break;
    const decoder = decoderOf(coding, bytes, partial || cut);
    if (decoder === null) throw new CodingError(`the body is sent as ${coding.slice(0, 40)}, which cannot be read`);
    const isLast = at === codings.length - 1;
    const step = await inflated(decoder, bytes, isLast ? max : max + codeMargin).catch((error: unknown) => {
      const words = `the body is sent as ${coding}, and its data are damaged`;
      throw new CodingError(words, { cause: error });
    });
    bytes = step.bytes;
    cut ||= step.cut;
  }
  return { bytes, cut };
}

function inflated(decoder: Transform, bytes: Buffer, max: number): Promise<Decoded> {
  return new Promise((settle, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    decoder.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size <= max) return;
      decoder.destroy();
      settle({ bytes: Buffer.concat(chunks, size).subarray(0, max), cut: true });
    });
    decoder.on("end", () => settle({ bytes: Buffer.concat(chunks, size), cut: false }));
    decoder.on("error", reject);
    decoder.end(bytes);
  });
}
