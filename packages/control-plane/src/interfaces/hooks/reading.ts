import type { IncomingMessage } from "node:http";
import { AppError } from "@statusmesh/shared/errors";
import { asObject, type Json, parsedJson } from "@statusmesh/shared/json";

export const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value.slice(0, 1000) : []);

/** A text, or a whole number as text; empty for anything else. */
export const textOf = (value: unknown): string =>
  typeof value === "string" ? value : Number.isSafeInteger(value) ? String(value) : "";

/** Bytes of a request that are read at most. */
export const maxBytes = 65_536;

export const tooLarge = () => new AppError("PAYLOAD_TOO_LARGE", "The body is larger than 64 KiB.");

/** The raw body, for the signature. Throws PAYLOAD_TOO_LARGE. */
export async function rawBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** The JSON object of a body; empty for anything else, because vendors retry refused requests. */
export const objectIn = (body: Buffer): Json => asObject(parsedJson(body.toString("utf8")));
