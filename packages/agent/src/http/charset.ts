import { isUtf8 } from "node:buffer";
import { createRequire } from "node:module";
import type * as library from "@exodus/bytes/encoding.js";

/*
 * Text of bodies as browsers read it (Encoding Standard). Not Node's TextDecoder: Node 20 differs for windows-1252,
 * -874, -1253 and -1255, KOI8-U, ISO-8859-16, GBK, Big5 and EUC-KR.
 */

/** Bytes in which a document names its charset (HTML Standard, "prescan a byte stream"). */
const prescanned = 1024;

// Loaded on first use: it takes 30 ms and 20 MB, and nearly all bodies are UTF-8.
let loaded: typeof library | undefined;
const encodings = (): typeof library =>
  (loaded ??= createRequire(import.meta.url)("@exodus/bytes/encoding.js") as typeof library);

const utf8Labels: ReadonlySet<string> = new Set(["utf-8", "utf8", "unicode-1-1-utf-8"]);

/** The label in a Content-Type, in lower case; null without one. */
export function charsetLabel(contentType: string): string | null {
  // Also 'utf-8', "utf-8 and utf-8, text/html: of servers that quote wrongly or send the field twice.
  const [, label = ""] = /;\s*charset\s*=\s*["']?\s*([^"',;\s]*)/i.exec(contentType) ?? [];
  return label === "" ? null : label.toLowerCase();
}

export const isUtf8Label = (label: string | null): boolean => label !== null && utf8Labels.has(label);

/** The encoding of a label; null for an unknown one and for those that browsers do not decode. */
export function encodingOf(label: string): string | null {
  if (utf8Labels.has(label)) return "utf-8";
  const name = encodings().normalizeEncoding(label);
  return name === "replacement" ? null : name;
}

/** True for media types whose documents name their charset. */
export const isMarkup = (contentType: string): boolean =>
  /^\s*(?:$|text\/html\b|(?:text|application)\/(?:[\w.-]+\+)?xml\b)/i.test(contentType);

function markOf(bytes: Buffer): string | null {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return "utf-8";
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return "utf-16le";
  return bytes[0] === 0xfe && bytes[1] === 0xff ? "utf-16be" : null;
}

export interface BodyHints {
  /** The charset of Content-Type, in lower case. */
  label: string | null;
  /** True for a document that may name its charset. */
  markup: boolean;
  /** True where the bytes may end within a character. */
  cut: boolean;
}

/**
 * The encoding of a body: by its byte order mark, the label of Content-Type, the document itself, UTF-8 where it is
 * valid, else windows-1252.
 */
export function encodingFor(bytes: Buffer, { label, markup, cut }: BodyHints): string {
  return (
    markOf(bytes) ??
    (label === null ? null : encodingOf(label)) ??
    (markup ? encodingInside(bytes.subarray(0, prescanned)) : null) ??
    (isUtf8(cut ? withoutCutCharacter(bytes) : bytes) ? "utf-8" : "windows-1252")
  );
}

/** The text of a body in its encoding, without the byte order mark. */
export function textOf(bytes: Buffer, hints: BodyHints): string {
  const encoding = encodingFor(bytes, hints);
  if (encoding !== "utf-8") return new (encodings().TextDecoder)(encoding).decode(bytes, { stream: hints.cut });
  return (hints.cut ? withoutCutCharacter(bytes) : bytes).toString("utf8", markOf(bytes) === "utf-8" ? 3 : 0);
}

/** A JSON text: UTF-8, -16 or -32 by its byte order mark (RFC 8259 section 8.1 knows UTF-8 only). */
export function jsonTextOf(bytes: Buffer): string {
  const isLittle = bytes[0] === 0xff && bytes[1] === 0xfe && bytes[2] === 0 && bytes[3] === 0;
  const isBig = bytes[0] === 0 && bytes[1] === 0 && bytes[2] === 0xfe && bytes[3] === 0xff;
  if (isLittle || isBig) return utf32Of(bytes, isLittle);
  const mark = markOf(bytes);
  if (mark === null || mark === "utf-8") return bytes.toString("utf8", mark === null ? 0 : 3);
  return new (encodings().TextDecoder)(mark).decode(bytes);
}

function utf32Of(bytes: Buffer, isLittle: boolean): string {
  const parts: string[] = [];
  for (let at = 4; at + 4 <= bytes.length; at += 4) {
    const point = isLittle ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at);
    parts.push(point > 0x10ffff ? "\ufffd" : String.fromCodePoint(point));
  }
  return parts.join("");
}

/** Without the bytes of a UTF-8 character that the end cuts off. */
function withoutCutCharacter(bytes: Buffer): Buffer {
  for (let back = 1; back <= 3 && back <= bytes.length; back++) {
    const byte = bytes[bytes.length - back]!;
    if (byte < 0x80) break;
    if (byte >= 0xc0) return bytes.subarray(0, bytes.length - back);
  }
  return bytes;
}

/** The encoding that a document names: of its XML declaration, or of a `<meta>` (HTML Standard, 13.2.3.2). */
function encodingInside(bytes: Buffer): string | null {
  const text = bytes.toString("latin1");
  const declaration = text.startsWith("<?xml") ? text.slice(0, text.indexOf("?>") + 1) : "";
  const [, declared] = /\sencoding\s{0,20}=\s{0,20}["']([\w.:-]{1,40})["']/i.exec(declaration) ?? [];
  if (declared !== undefined) return namedInside(declared);
  for (const [whole] of text.matchAll(
    /<!--(?:(?=>)|(?=->)|[^]*?(?:-->|$))|<meta[\s/][^>]*>|<\/?[a-z][^>]*>|<[!/?][^>]*>/gi,
  )) {
    if (!/^<meta[\s/]/i.test(whole)) continue;
    const named = metaCharset(whole);
    const encoding = named === null ? null : namedInside(named);
    if (encoding !== null) return encoding;
  }
  return null;
}

/** A document that a single-byte reader could read is not UTF-16. */
function namedInside(label: string): string | null {
  const encoding = encodingOf(label.trim().toLowerCase());
  if (encoding === "utf-16le" || encoding === "utf-16be") return "utf-8";
  return encoding === "x-user-defined" ? "windows-1252" : encoding;
}

function metaCharset(tag: string): string | null {
  const attributes = new Map<string, string>();
  const inside = tag.slice(5).replace(/>$/, "");
  for (const [, name = "", double, single, plain] of inside.matchAll(
    /([^\s/=>][^\s/=>]*)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>][^\s>]*)))?/g,
  )) {
    const key = name.toLowerCase();
    if (!attributes.has(key)) attributes.set(key, double ?? single ?? plain ?? "");
  }
  const own = attributes.get("charset");
  if (own !== undefined) return own;
  if (attributes.get("http-equiv")?.toLowerCase() !== "content-type") return null;
  const [, , quoted, plain] =
    /charset\s*=\s*(?:(["'])(.*?)\1|([^\s;"']+))/i.exec(attributes.get("content") ?? "") ?? [];
  return quoted ?? plain ?? null;
}
