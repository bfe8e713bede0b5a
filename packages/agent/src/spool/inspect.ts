import { codeOf } from "@statusmesh/shared/thrown";
import { type Files, folderFiles } from "./files.ts";
import { decodeResult, frameAt, isSegmentName, type Segment } from "./format.ts";
import { Ledger } from "./ledger.ts";
import { recover } from "./recover.ts";

export interface SegmentReport {
  file: string;
  region: string;
  bytes: number;
  /** Results that are not yet acknowledged. */
  waiting: number;
}

/** Content of a spool folder. Times are Unix ms: slots of the oldest and the newest waiting result. */
export interface SpoolReport {
  segments: SegmentReport[];
  bytes: number;
  waiting: number;
  oldest: number | null;
  newest: number | null;
  /** Results ever lost, including those in `damage`. */
  dropped: number;
  /** Damage by file, in words. */
  damage: { file: string; what: string }[];
  /** Files that an agent has renamed to `….bad`. */
  set_aside: string[];
}

/** Segments change under a running agent; an inspection that met a change is repeated. */
const looks = 3;

/**
 * Reads a spool folder without changing or locking it. With `every`, each waiting result is decoded as for a report.
 * `live`: an agent uses the folder, so the end of its newest file may be incomplete.
 */
export async function inspect(
  folder: string,
  { every, live }: { every: boolean; live: boolean },
): Promise<SpoolReport> {
  const files = folderFiles(folder);
  for (let look = 1; ; look++) {
    const before = (await files.list()).filter(isSegmentName).sort().join();
    try {
      const report = await lookAt(files, every, live);
      const after = (await files.list()).filter(isSegmentName).sort().join();
      if (before === after || look === looks) return report;
    } catch (error) {
      if (look === looks || codeOf(error) !== "ENOENT") throw error;
    }
  }
}

async function lookAt(files: Files, every: boolean, live: boolean): Promise<SpoolReport> {
  const names = await files.list();
  const damage: { file: string; what: string }[] = [];
  const note = (_level: string, msg: string, fields: object = {}): void => {
    const { file, after, why } = fields as { file?: string; after?: string; why?: string };
    damage.push({ file: file ?? after ?? "", what: why === undefined ? msg : `${msg}: ${why}` });
  };
  const recovered = await recover(readingOnly(files), note);
  const ledger = new Ledger(recovered);
  const newest = recovered.segments.at(-1)?.name;
  const report: SpoolReport = {
    segments: [],
    bytes: 0,
    waiting: 0,
    oldest: null,
    newest: null,
    dropped: recovered.dropped,
    damage: live ? damage.filter(({ file }) => file !== newest) : damage,
    set_aside: names.filter((name) => name.endsWith(".spool.bad")).sort(),
  };
  for (const segment of recovered.segments) {
    const waiting = ledger.openIn(segment.base, segment.end);
    report.segments.push({ file: segment.name, region: segment.region, bytes: segment.size, waiting });
    report.bytes += segment.size;
    report.waiting += waiting;
    if (waiting > 0) await readSegment(files, segment, ledger, every, report);
  }
  return report;
}

/** Adds the slots of the waiting results of a segment: the first and the last, or every one. */
async function readSegment(
  files: Files,
  segment: Segment,
  ledger: Ledger,
  every: boolean,
  report: SpoolReport,
): Promise<void> {
  const bytes = await files.read(segment.name, 0, segment.size);
  const texts: (() => string)[] = [];
  let at = segment.start;
  for (let seq = segment.base; seq < segment.end; seq++) {
    const found = frameAt(bytes, at, true);
    if (found.is !== "frame" && found.is !== "damaged") break;
    at = found.end;
    if (found.is === "frame" && found.kind === "r" && !ledger.done.has(seq))
      texts.push(() => bytes.toString("utf8", found.start, found.end));
  }
  const some = every ? texts : [texts[0], texts.at(-1)];
  for (const text of some) {
    const result = text === undefined ? null : decodeResult(text());
    if (result === null) {
      report.damage.push({ file: segment.name, what: "a result cannot be understood" });
      continue;
    }
    report.oldest = Math.min(report.oldest ?? Infinity, result.scheduled_at);
    report.newest = Math.max(report.newest ?? -Infinity, result.scheduled_at);
  }
}

/** The same folder, read-only. */
function readingOnly(files: Files): Files {
  const nothing = (): Promise<void> => Promise.resolve();
  return {
    ...files,
    rename: nothing,
    truncate: nothing,
    remove: nothing,
    create: () => Promise.reject(new Error("only read")),
  };
}
