import { messageOf } from "@statusmesh/shared/thrown";
import type { Log } from "../telemetry/log.ts";
import type { Files } from "./files.ts";
import { decodeHeader, decodeState, frameAt, isSegmentName, type State, type Segment } from "./format.ts";
import { Ranges } from "./ranges.ts";

export interface Recovered {
  /** In order, including segments without waiting results. */
  segments: Segment[];
  done: Ranges;
  /** Results ever dropped, including those found lost now. */
  dropped: number;
  /** True when results were lost that no state has counted. */
  lost: boolean;
  /** Number of the next frame. */
  next: number;
}

/**
 * Reads the folder of an earlier process. File content never makes it fail: truncated, damaged, missing or foreign data
 * is logged, counted where results are certainly lost, and skipped.
 */
export async function recover(files: Files, log: Log): Promise<Recovered> {
  const names = (await files.list()).filter(isSegmentName).sort();
  const segments: Segment[] = [];
  const empty = new Ranges();
  const damaged: { name: string; at: number }[] = [];
  let state: State = { done: [], dropped: 0 };
  let lost = 0;
  for (const name of names) {
    const scanned = await scan(files, name, segments.at(-1)?.end ?? 0, log);
    if (scanned === null) continue;
    segments.push(scanned.segment);
    state = scanned.state;
    for (const [from, to] of scanned.empty.runs()) empty.add(from, to);
    damaged.push(...scanned.damaged);
  }
  const done = new Ranges([...state.done, ...empty.runs()]);
  for (const { name, at } of damaged) {
    // The state has the losses of earlier recoveries, and results acknowledged before they were damaged.
    if (done.has(at)) continue;
    done.add(at);
    lost++;
    log("error", "a result in the spool is damaged and lost", { file: name });
  }
  for (const [at, segment] of segments.entries()) {
    const before = segments[at - 1];
    if (before === undefined || before.end === segment.base) continue;
    const missing = segment.base - before.end - done.countIn(before.end, segment.base);
    done.add(before.end, segment.base);
    if (missing === 0) continue;
    lost += missing;
    log("error", "results are missing from the spool", { after: before.name, before: segment.name, count: missing });
  }
  const end = segments.at(-1)?.end ?? 0;
  const next = Math.max(1, done.end, end);
  // A truncated end was never acknowledged as durable.
  done.add(end, next);
  return { segments, done, dropped: state.dropped + lost, lost: lost > 0, next };
}

interface Scanned {
  segment: Segment;
  /** The newest state of the segment. */
  state: State;
  /** Frames without a result. */
  empty: Ranges;
  damaged: { name: string; at: number }[];
}

async function scan(files: Files, name: string, after: number, log: Log): Promise<Scanned | null> {
  let bytes: Buffer;
  try {
    bytes = await files.read(name, 0, await files.size(name));
  } catch (error) {
    await setAside(files, name, `it cannot be read: ${messageOf(error)}`, log);
    return null;
  }
  if (bytes.length === 0) {
    log("warn", "an empty segment of the spool is removed", { file: name });
    await files.remove(name).catch(() => undefined);
    return null;
  }
  const read = decodeHeader(bytes);
  if ("problem" in read) {
    await setAside(
      files,
      name,
      read.problem === "another version"
        ? "another version of sm-agent wrote it"
        : "it is no segment, or its header is damaged",
      log,
    );
    return null;
  }
  const { header, size } = read;
  if (header.base !== Number(name.slice(0, 16)) || header.base < after) {
    await setAside(files, name, "its content belongs to another place", log);
    return null;
  }
  const scanned: Scanned = {
    segment: { name, region: header.region, base: header.base, end: header.base, start: size, size },
    state: header.state,
    empty: new Ranges(),
    damaged: [],
  };
  readFrames(bytes, scanned);
  if (scanned.segment.size < bytes.length) {
    log("warn", "the end of a segment of the spool is cut off; what was being written there is lost", {
      file: name,
      bytes: bytes.length - scanned.segment.size,
    });
    await files.truncate(name, scanned.segment.size).catch(() => undefined);
  }
  return scanned;
}

function readFrames(bytes: Buffer, scanned: Scanned): void {
  const { segment } = scanned;
  for (let at = segment.start; at < bytes.length; at = segment.size) {
    const found = frameAt(bytes, at);
    if (found.is === "frame") {
      if (found.kind !== "r") {
        scanned.empty.add(segment.end);
        scanned.state = decodeState(bytes.toString("utf8", found.start, found.end)) ?? scanned.state;
      }
    } else if (found.is === "damaged" && frameAt(bytes, found.end).is === "frame") {
      // The length is right, because a whole frame follows: only this frame is lost.
      scanned.damaged.push({ name: segment.name, at: segment.end });
    } else return;
    segment.end++;
    segment.size = found.end;
  }
}

async function setAside(files: Files, name: string, why: string, log: Log): Promise<void> {
  log("error", "a file among the segments of the spool is set aside", { file: name, renamed: `${name}.bad`, why });
  await files.rename(name, `${name}.bad`).catch(() => undefined);
}
