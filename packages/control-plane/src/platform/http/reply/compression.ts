import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { Context } from "koa";
import { getOrMake } from "../../caches.ts";
import { etagOf } from "./etag.ts";

/** Smaller replies fit into one packet anyway. */
const minBytes = 1000;

const packed = promisify(gzip);
/** Compressed forms of bytes that several replies share. */
const known = new WeakMap<Buffer, Promise<Buffer>>();

/** True where the reply is to be sent with gzip. Sets Vary. */
export function takesGzip(http: Context, body: string | Buffer): boolean {
  http.vary("Accept-Encoding");
  return Buffer.byteLength(body) >= minBytes && http.acceptsEncodings("gzip") === "gzip";
}

/** Sets Content-Encoding, and returns the compressed body. A buffer is compressed once for all its readers. */
export async function gzipped(http: Context, body: string | Buffer): Promise<Buffer> {
  http.set("Content-Encoding", "gzip");
  return typeof body === "string" ? await packed(body) : await getOrMake(known, body, () => packed(body));
}

/** The entity tag of a body in its coding: strong tags differ by coding (RFC 9110 section 8.8.3.3). */
export const codedTag = (body: string | Buffer, isGzip: boolean): string =>
  isGzip ? etagOf(body).replace(/"$/, '-gzip"') : etagOf(body);
