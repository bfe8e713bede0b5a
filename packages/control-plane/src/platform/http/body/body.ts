import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import type { Context } from "koa";
import type { koaBody } from "koa-body";
import type { TSchema } from "typebox";
import { AppError } from "@statusmesh/shared/errors";
import { validate } from "@statusmesh/shared/schema/validate";
import { parseJson, withoutMark } from "./json.ts";
import { mapsIn, readMaps } from "./json-maps.ts";
import { type OnInvalidBody, readPieces } from "./json-pieces.ts";
import { maxPiece } from "./json-scan.ts";
import { takeTurns } from "../../process/turns.ts";

/** Bytes; parsing and validating a smaller body takes under 5 ms. */
const smallBody = 65_536;

/** The body of a route. */
export interface BodyShape {
  readonly schema: TSchema;
  /** Bytes. */
  readonly limit: number;
  readonly onInvalidBody: OnInvalidBody | null;
}

/**
 * Reads and validates the JSON body of a request: content type, size, syntax, then shape. Refuses values that cannot be
 * stored: invalid UTF-8, NUL, lone surrogates, numbers outside the safe range, nesting over 32 levels. A large body is
 * parsed and validated in slices.
 */
export async function readBody(http: Context, { schema, limit, onInvalidBody }: BodyShape): Promise<unknown> {
  const bytes = await readUtf8(http, limit);
  if (bytes.length > maxPiece) {
    const maps = mapsIn(schema);
    return await (maps === null ? readPieces(bytes, schema, onInvalidBody) : readMaps(bytes, schema, maps));
  }
  const turns = bytes.length > smallBody ? await takeTurns() : null;
  const body = parseJson(withoutMark(bytes.toString("utf8")));
  await turns?.next();
  try {
    return validate(schema, body);
  } catch (error) {
    onInvalidBody?.(body, error);
    throw error;
  }
}

/** Reads the body of an HTML form; `limit` in bytes. Values are as sent: a bad escape becomes U+FFFD. */
export async function readForm(http: Context, limit: number): Promise<URLSearchParams> {
  const bytes = await readUtf8(http, limit, "application/x-www-form-urlencoded");
  return new URLSearchParams(bytes.toString("utf8"));
}

/** {@link readBody} for a body of up to 1 MiB whose shape the caller checks. */
export async function readJson(http: Context, limit: number): Promise<unknown> {
  const bytes = await readUtf8(http, limit);
  const turns = bytes.length > smallBody ? await takeTurns() : null;
  const body = parseJson(withoutMark(bytes.toString("utf8")));
  await turns?.next();
  return body;
}

async function readUtf8(http: Context, limit: number, type = jsonType): Promise<Buffer> {
  refuseOtherTypes(http, type);
  const bytes = await readBytes(http, limit, type);
  if (!isUtf8(bytes)) throw new AppError("INVALID_BODY", "The body is not valid UTF-8.");
  return bytes;
}

/** SHA-256 of the bytes that {@link readBody} has read, base64. */
export async function bodyDigest(http: Context): Promise<string> {
  const bytes = (http.state["body"] as Buffer | undefined) ?? Buffer.alloc(0);
  const hash = createHash("sha256");
  const turns = bytes.length > maxPiece ? await takeTurns() : null;
  for (let at = 0; at < bytes.length; at += maxPiece) {
    if (turns?.over() === true) await turns.next();
    hash.update(bytes.subarray(at, at + maxPiece));
  }
  return hash.digest("base64");
}

const jsonType = "application/json";

function refuseOtherTypes(http: Context, type = jsonType): void {
  const encoding = http.get("content-encoding");
  if (encoding !== "")
    throw new AppError(
      "UNSUPPORTED_MEDIA_TYPE",
      `Content-Encoding: ${encoding} is not supported. Send the body without compression.`,
    );
  // False for another type, null without a body.
  if (http.is(type) !== type)
    throw new AppError(
      "UNSUPPORTED_MEDIA_TYPE",
      `Send the body as ${type === jsonType ? "JSON" : "a form"}, with the header Content-Type: ${type}.`,
    );
}

const readers = new Map<string, ReturnType<typeof koaBody>>();

/**
 * Reads bytes: koa-body would silently replace invalid UTF-8 by U+FFFD. It is loaded with the first body: it brings
 * 1.7 MB of libraries, a tenth of the time of a start.
 */
async function readBytes(http: Context, limit: number, type = jsonType): Promise<Buffer> {
  const key = `${limit} ${type}`;
  let reader = readers.get(key);
  if (reader === undefined) {
    const { koaBody: make } = await import("koa-body");
    reader = make({
      json: false,
      urlencoded: false,
      multipart: false,
      text: true,
      textTypes: [type],
      // None: raw-body returns the bytes. Any other is decoded in JavaScript, byte by byte.
      encoding: "",
      textLimit: limit,
      parsedMethods: ["POST", "PUT", "PATCH", "DELETE"] as never,
    });
    readers.set(key, reader);
  }
  // Only now, so that the client sends no body of a refused request.
  if (http.get("expect").toLowerCase() === "100-continue") http.res.writeContinue();
  try {
    await reader(http as never, async () => {});
  } catch (cause) {
    if ((cause as { status?: number }).status === 413)
      throw new AppError("PAYLOAD_TOO_LARGE", `The body is larger than ${sizeOf(limit)}, the limit of this route.`, {
        cause,
      });
    throw new AppError("INVALID_BODY", "The body ended before it was complete.", { cause });
  }
  const bytes = Buffer.isBuffer(http.request.body) ? http.request.body : Buffer.alloc(0);
  // The bytes stay for the digest.
  http.request.body = "";
  http.state["body"] = bytes;
  return bytes;
}

const sizeOf = (bytes: number): string => (bytes < 1_048_576 ? `${bytes / 1024} KiB` : `${bytes / 1_048_576} MiB`);
