import { createHash } from "node:crypto";
import type { Context } from "koa";
import { koaBody } from "koa-body";
import { AppError } from "@statusmesh/shared/errors";

const utf8 = new TextDecoder("utf-8", { fatal: true });
const maxDepth = 32;

/**
 * Reads the JSON body of a request, at most `limit` bytes of it after decompression, and refuses what the database
 * could not keep: invalid UTF-8, NUL, lone surrogates, numbers outside the safe range, nesting over 32 levels.
 * koa-body does the reading; it is asked for bytes (latin1), because it would turn invalid UTF-8 into U+FFFD silently.
 */
export async function readJson(http: Context, limit: number): Promise<unknown> {
  if (http.is("application/json") === false || http.is("application/json") === null) {
    throw new AppError(
      "UNSUPPORTED_MEDIA_TYPE",
      "Send the body as JSON, with the header Content-Type: application/json.",
    );
  }
  const text = decode(await readBytes(http, limit));
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new AppError("INVALID_JSON", `The body is not JSON: ${(cause as Error).message}.`, { cause });
  }
  if (suspicious.test(text) || isDeep(value, 0)) refuseUnstorable(value, "", 0);
  return value;
}

/** SHA-256 of the body that {@link readJson} has read from this request, byte for byte. */
export function bodyDigest(http: Context): string {
  return createHash("sha256")
    .update(typeof http.request.body === "string" ? http.request.body : "", "latin1")
    .digest("base64");
}

/** What a text must contain to hold something unstorable: an escape, a long or scaled number, the forbidden name. Most hold none, and need no second look. */
const suspicious = /\\u|[0-9]{16}|[0-9][eE]|__proto__/;

const isDeep = (value: unknown, depth: number): boolean =>
  typeof value === "object" &&
  value !== null &&
  (depth >= maxDepth || Object.values(value).some((child) => isDeep(child, depth + 1)));

const readers = new Map<number, ReturnType<typeof koaBody>>();

async function readBytes(http: Context, limit: number): Promise<Buffer> {
  let reader = readers.get(limit);
  if (reader === undefined) {
    reader = koaBody({
      json: false,
      urlencoded: false,
      multipart: false,
      text: true,
      textTypes: ["application/json"],
      encoding: "latin1",
      textLimit: limit,
      parsedMethods: ["POST", "PUT", "PATCH", "DELETE"] as never,
    });
    readers.set(limit, reader);
  }
  try {
    await reader(http as never, async () => {});
  } catch (cause) {
    const status = (cause as { status?: number }).status;
    if (status === 413)
      throw new AppError(
        "PAYLOAD_TOO_LARGE",
        `The body is larger than the ${limit / 1_048_576} MiB that this route takes.`,
        { cause },
      );
    throw new AppError("INVALID_BODY", "The body could not be read to its end.", { cause });
  }
  return Buffer.from(typeof http.request.body === "string" ? http.request.body : "", "latin1");
}

function decode(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw new AppError("INVALID_BODY", "The body is not valid UTF-8.", { cause });
  }
}

function refuseUnstorable(value: unknown, pointer: string, depth: number): void {
  if (typeof value === "string") {
    if (value.includes("\0"))
      throw new AppError("INVALID_BODY", "A text contains the character NUL, which cannot be stored.", {
        field: pointer,
      });
    if (!value.isWellFormed())
      throw new AppError("INVALID_BODY", "A text contains half of a surrogate pair, which cannot be stored.", {
        field: pointer,
      });
  } else if (typeof value === "number") {
    if (Math.abs(value) > Number.MAX_SAFE_INTEGER)
      throw new AppError("INVALID_BODY", "A number is too large to be kept exactly.", { field: pointer });
  } else if (typeof value === "object" && value !== null) {
    if (depth >= maxDepth)
      throw new AppError("INVALID_BODY", `The body is nested over ${maxDepth} levels deep.`, { field: pointer });
    for (const [key, child] of Object.entries(value)) {
      const at = `${pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
      if (key === "__proto__") throw new AppError("INVALID_BODY", "A field cannot be called __proto__.", { field: at });
      refuseUnstorable(key, pointer, depth);
      refuseUnstorable(child, at, depth + 1);
    }
  }
}
