import { crc32 } from "node:zlib";
import Type from "typebox";
import { Compile } from "typebox/compile";
import { AgentResult } from "@statusmesh/shared/protocol/agent-protocol";
import { parsedJson } from "@statusmesh/shared/json";

/*
 * A segment is a header followed by frames; all numbers are big-endian:
 *
 *   header   magic (8) · version (4) · length (4) · CRC-32 (4) · JSON {base, region, state}
 *   frame    length (4) · CRC-32 (4) · kind (1) + text of `length` bytes
 *
 * The frames of a segment are numbered without gaps from its `base`, which is also its file name: missing frames are
 * visible.
 */

/** One file of the spool: frames `base` up to but not including `end`. */
export interface Segment {
  readonly name: string;
  readonly region: string;
  readonly base: number;
  end: number;
  /** Offset of the first frame, and end of the last valid frame. */
  readonly start: number;
  size: number;
}

const magic = Buffer.from("SMSPOOL\n", "latin1");
const version = 1;
const headerPrefix = 20;
const framePrefix = 8;
/** The longest frame is a result with an error of 2,000 characters, ten warnings and a snapshot. */
const maxPayload = 65_536;
/** Size that any frame fits into, bytes. */
export const maxFrame = framePrefix + maxPayload;
/** Maximum number of runs of numbers in a state. Runs left out are sent twice, which changes nothing. */
const maxRuns = 500;

const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });

/** Numbers of frames that are done, and the number of results ever lost. */
const State = Type.Object({ done: Type.Array(Type.Tuple([Count, Count])), dropped: Count });
export interface State {
  done: [number, number][];
  dropped: number;
}
const Header = Type.Object({ base: Count, region: Type.String(), state: State });

const validHeader = Compile(Header);
const validState = Compile(State);
const validResult = Compile(AgentResult);

export interface SegmentHeader {
  /** Number of the first frame. */
  base: number;
  /** Region of the results. */
  region: string;
  state: State;
}

export const segmentName = (base: number): string => `${String(base).padStart(16, "0")}.spool`;
export const isSegmentName = (name: string): boolean => /^\d{16}\.spool$/.test(name);

export function encodeHeader({ base, region, state }: SegmentHeader): Buffer {
  const text = Buffer.from(JSON.stringify({ base, region, state: shortened(state) }));
  const prefix = Buffer.alloc(headerPrefix);
  magic.copy(prefix);
  prefix.writeUInt32BE(version, 8);
  prefix.writeUInt32BE(text.length, 12);
  prefix.writeUInt32BE(crc32(text), 16);
  return Buffer.concat([prefix, text]);
}

/** The header and the offset of the first frame, or a description of the error. */
export function decodeHeader(
  bytes: Buffer,
): { header: SegmentHeader; size: number } | { problem: "no segment" | "another version" } {
  if (bytes.length < headerPrefix || !bytes.subarray(0, magic.length).equals(magic)) return { problem: "no segment" };
  if (bytes.readUInt32BE(8) !== version) return { problem: "another version" };
  const size = headerPrefix + bytes.readUInt32BE(12);
  const text = bytes.subarray(headerPrefix, size);
  if (text.length !== size - headerPrefix || crc32(text) !== bytes.readUInt32BE(16)) return { problem: "no segment" };
  const header = parsedJson(text.toString());
  return validHeader.Check(header) ? { header, size } : { problem: "no segment" };
}

/** Writes a frame into `into`, which has room for {@link maxFrame}; returns its end offset. */
function writeFrame(into: Buffer, at: number, kind: string, text: string): number {
  const start = at + framePrefix;
  const end = start + into.write(kind + text, start, maxPayload, "utf8");
  into.writeUInt32BE(end - start, at);
  into.writeUInt32BE(crc32(into.subarray(start, end)), at + 4);
  return end;
}

export function writeResult(into: Buffer, at: number, result: AgentResult): number {
  return writeFrame(into, at, "r", encodeResult(result));
}

export function writeState(into: Buffer, at: number, state: State): number {
  return writeFrame(into, at, "s", JSON.stringify(shortened(state)));
}

/** A frame, a frame with damaged content, a frame cut off by the end, or bytes that are no frame. */
export type Found =
  | { is: "frame"; kind: string; start: number; end: number }
  | { is: "damaged"; end: number }
  | { is: "cut" }
  | { is: "broken" };

/** Reads the frame at `at`; with `trusted` the checksum is not verified. */
export function frameAt(bytes: Buffer, at: number, trusted = false): Found {
  if (at + framePrefix > bytes.length) return { is: "cut" };
  const length = bytes.readUInt32BE(at);
  if (length < 1 || length > maxPayload) return { is: "broken" };
  const start = at + framePrefix;
  const end = start + length;
  if (end > bytes.length) return { is: "cut" };
  if (!trusted && crc32(bytes.subarray(start, end)) !== bytes.readUInt32BE(at + 4)) return { is: "damaged", end };
  return { is: "frame", kind: String.fromCharCode(bytes[start]!), start: start + 1, end };
}

/**
 * By position: half the size of the JSON that is sent, in a third of the time. Stored files have this order: fields are
 * added at the end only.
 */
function encodeResult(r: AgentResult): string {
  return JSON.stringify([
    r.target_id,
    r.scheduled_at,
    r.timestamp,
    r.skip ? 1 : 0,
    r.status,
    r.error,
    r.http_status,
    r.response_size,
    r.dns_ms,
    r.connect_ms,
    r.tls_ms,
    r.ttfb_ms,
    r.total_ms,
    ...optionalPlaces(r),
  ]);
}

type OptionalField = "version" | "details" | "cause" | "http" | "snapshot" | "warnings" | "diagnosis";

/** Optional fields, by position; null in place of an absent one before a present one. */
function optionalPlaces({ version, details, cause, http, snapshot, warnings, diagnosis }: AgentResult): unknown[] {
  const places = [version, details, cause, http, snapshot, warnings, diagnosis];
  while (places.length > 0 && places.at(-1) == null) places.pop();
  return places;
}

/** Null for text that is not a result of this version. */
export function decodeResult(text: string): AgentResult | null {
  const row = parsedJson(text);
  if (!Array.isArray(row)) return null;
  const [
    target_id,
    scheduled_at,
    timestamp,
    skip,
    status,
    error,
    http_status,
    response_size,
    dns_ms,
    connect_ms,
    tls_ms,
    ttfb_ms,
    total_ms,
    version,
    details,
    cause,
    http,
    snapshot,
    warnings,
    diagnosis,
  ] = row as unknown[];
  const result: Record<Exclude<keyof AgentResult, OptionalField>, unknown> & Partial<Record<OptionalField, unknown>> = {
    target_id,
    scheduled_at,
    timestamp,
    skip: skip === 1,
    status,
    error,
    http_status,
    response_size,
    dns_ms,
    connect_ms,
    tls_ms,
    ttfb_ms,
    total_ms,
    ...(version == null ? {} : { version }),
    ...(details == null ? {} : { details }),
    ...(cause == null ? {} : { cause }),
    ...(http == null ? {} : { http }),
    ...(snapshot == null ? {} : { snapshot }),
    ...(warnings == null ? {} : { warnings }),
    ...(diagnosis == null ? {} : { diagnosis }),
  };
  return validResult.Check(result) ? result : null;
}

export function decodeState(text: string): State | null {
  const state = parsedJson(text);
  return validState.Check(state) ? state : null;
}

const shortened = ({ done, dropped }: State): State => ({ done: done.slice(-maxRuns), dropped });
