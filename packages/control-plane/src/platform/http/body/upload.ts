import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";

/** A file that a route takes as multipart/form-data, as raw bytes, or as base64 in the JSON body. */
export interface Upload {
  /** Property of the JSON body that has the file. */
  readonly field: string;
  /** Bytes; larger files are refused before they are read to their end. */
  readonly limit: number;
}

/** Media types of raw bytes. The service looks at the bytes, not at what the client calls them. */
const rawTypes = ["image/*", "application/octet-stream"];
/** Boundaries and headers of the parts. */
const framing = 16_384;

/** True for a body that {@link readUpload} reads. */
export const isUpload = (http: Context): boolean => Boolean(http.is("multipart/form-data", ...rawTypes));

/** The JSON body that stands for an uploaded file. Of a form with several parts, the first file counts. */
export async function readUpload(http: Context, { field, limit }: Upload): Promise<Record<string, string>> {
  if (http.get("content-encoding") !== "")
    throw new AppError("UNSUPPORTED_MEDIA_TYPE", "Send the file without Content-Encoding.");
  const bytes = await readBytes(http, limit);
  return { [field]: (http.is("multipart/form-data") ? await fileOf(http, bytes) : bytes).toString("base64") };
}

async function readBytes(http: Context, limit: number): Promise<Buffer> {
  const most = limit + framing;
  const tooLarge = () =>
    new AppError("PAYLOAD_TOO_LARGE", `The file is larger than ${limit / 1_048_576} MiB, the limit of this route.`);
  if (Number(http.get("content-length") || 0) > most) throw tooLarge();
  if (http.get("expect").toLowerCase() === "100-continue") http.res.writeContinue();
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of http.req as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > most) throw tooLarge();
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw new AppError("INVALID_BODY", "The body ended before it was complete.", { cause: error });
  }
  const bytes = Buffer.concat(chunks);
  http.state["body"] = bytes;
  return bytes;
}

async function fileOf(http: Context, bytes: Buffer): Promise<Buffer> {
  const none = "The form has no file. Send one part with a file name.";
  let form: FormData;
  try {
    form = await new Response(new Uint8Array(bytes), {
      headers: { "Content-Type": http.get("content-type") },
    }).formData();
  } catch (cause) {
    throw new AppError("INVALID_BODY", none, { cause });
  }
  for (const value of form.values()) if (typeof value !== "string") return Buffer.from(await value.arrayBuffer());
  throw new AppError("INVALID_BODY", none);
}
