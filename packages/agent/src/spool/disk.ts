import type { RunReply } from "@statusmesh/shared/protocol/agent-protocol";
import { messageOf } from "@statusmesh/shared/thrown";
import { Alarm, type Clock } from "../clock.ts";
import { type Log, Once } from "../telemetry/log.ts";
import { type Batch, freshWindow, type Lane, type Spool, type SpoolRecord } from "./spool.ts";
import { Durability, syncMs } from "./durability.ts";
import type { Files } from "./files.ts";
import { Ledger } from "./ledger.ts";
import { PendingFrames } from "./pending.ts";
import { Queue } from "./queue.ts";
import { type Entry, Reader } from "./reader.ts";
import { type Recovered, recover } from "./recover.ts";
import { Writer } from "./writer.ts";
import type { Segment } from "./format.ts";

/** Appended results are written after this time, ms: they survive the end of the process, not of the machine. */
const writeMs = 50;
/** Interval of writing the acknowledged numbers, ms. A killed process sends at most that much twice. */
const stateMs = 500;
/** Delay before a failed disk is tried again, ms. */
const retryMs = 2000;
/** Maximum number of on-demand replies. They expire within seconds, so they are never written. */
const maxRuns = 1000;
/** The size limit is divided into at least this many segments, because eviction drops whole segments. */
const minSegments = 16;
const maxSegmentBytes = 4_194_304;

export interface DiskSpoolOptions {
  files: Files;
  clock: Clock;
  log: Log;
  /** Size limit of all segments together, bytes. */
  maxBytes: number;
  /** Maximum number of results in memory while the disk fails. */
  memoryLimit?: number;
  /** Maximum number of results in the lane `fresh`. */
  window?: number;
}

/**
 * Opens the spool in a folder that this process has locked. Results of an earlier process are read once their region is
 * served.
 */
export async function openDiskSpool(options: DiskSpoolOptions): Promise<DiskSpool> {
  return new DiskSpool(options, await recover(options.files, options.log));
}

const bySeq = (one: Entry, other: Entry): number => one.seq - other.seq;

/**
 * A spool in segment files. Every result is a numbered frame. The ledger tracks which frames are done, and state frames
 * between the results record that. A waiting result is in `#recent`, or in a file at or after the reader's position.
 */
export class DiskSpool implements Spool {
  readonly #options: Required<DiskSpoolOptions>;
  readonly #condition: Once;
  readonly #segmentBytes: number;
  readonly #writer: Writer;
  readonly #reader: Reader;
  readonly #ledger: Ledger;
  /** Appended and not yet written. */
  readonly #pending = new PendingFrames();
  /** The newest results that are not in flight; unwritten ones are always here. */
  readonly #recent = new Queue<Entry>();
  #runs: RunReply[] = [];
  #region: string | null = null;
  #next: number;
  #waiting = 0;
  #stateAt = -Infinity;
  readonly #durability: Durability;
  readonly #alarm: Alarm;
  #writeError: string | null = null;
  #work: Promise<void> = Promise.resolve();
  #reading: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: DiskSpoolOptions, recovered: Recovered) {
    this.#options = { memoryLimit: 50_000, window: freshWindow, ...options };
    this.#condition = new Once(options.log);
    this.#segmentBytes = Math.min(maxSegmentBytes, Math.floor(options.maxBytes / minSegments));
    this.#ledger = new Ledger(recovered);
    this.#next = recovered.next;
    this.#durability = new Durability(recovered.next);
    this.#alarm = new Alarm(options.clock, () => void this.#run(false));
    this.#writer = new Writer({
      files: options.files,
      segmentBytes: this.#segmentBytes,
      header: () => ({ region: this.#region ?? "", state: this.#ledger.state }),
      opened: (segment) => this.#ledger.opened(segment),
    });
    this.#reader = new Reader({
      files: options.files,
      segments: () => this.#ledger.segments.filter(({ region }) => region === this.#region),
      skip: (seq) => this.#ledger.done.has(seq) || this.#ledger.inFlight.has(seq),
      skipAll: (from, to) => this.#ledger.done.countIn(from, to) === to - from,
      lost: (from, to, reason) => this.#lose(from, to, `results in the spool cannot be read and are lost: ${reason}`),
    });
  }

  get waiting(): number {
    return this.#waiting + this.#runs.length;
  }

  get backlog(): number {
    return this.#waiting - this.#recent.size;
  }

  get dropped(): number {
    return this.#ledger.dropped;
  }

  serve(region: string): void {
    if (region === this.#region) return;
    if (this.#region !== null) this.#forgetUnwritten();
    this.#region = region;
    this.#writer.leave();
    this.#waiting = 0;
    for (const segment of this.#ledger.segments)
      if (segment.region === region) this.#waiting += this.#ledger.openIn(segment.base, segment.end);
    this.#reader.rewind(0);
    const others = this.#ledger.segments.reduce(
      (sum, segment) => sum + (segment.region === region ? 0 : this.#ledger.openIn(segment.base, segment.end)),
      0,
    );
    if (this.#waiting > 0)
      this.#options.log("info", "results of an earlier run are in the spool and will be reported", {
        count: this.#waiting,
      });
    if (others > 0)
      this.#options.log(
        "warn",
        "the spool has results of another region, which are not reported with this agent's token",
        { count: others, region },
      );
  }

  append(record: SpoolRecord): void {
    if ("run" in record) {
      this.#runs.push(record.run);
      return this.#boundRuns();
    }
    if (this.#region === null) throw new Error("set the region of a spool before it takes results");
    const entry: Entry = { seq: this.#next++, result: record.result };
    this.#pending.push(entry);
    this.#recent.push(entry);
    this.#waiting++;
    this.#bound();
    this.#arm(this.#writeError === null ? writeMs : retryMs);
  }

  async take(max: number, lane: Lane): Promise<Batch | null> {
    if (lane === "fresh") {
      const runs = this.#runs.splice(0, max);
      const entries = this.#recent.take(max - runs.length);
      return this.#batch(entries, runs);
    }
    const entries: Entry[] = [];
    const reading = this.#reading.then(async () => {
      await this.#reader.read(
        () => this.#recent.first?.seq ?? this.#pending.firstSeq,
        (entry) => {
          this.#ledger.inFlight.add(entry.seq);
          return entries.push(entry) < max;
        },
      );
    });
    this.#reading = reading.catch(() => undefined);
    await reading;
    return this.#batch(entries, []);
  }

  async flush(): Promise<void> {
    const wanted = this.#next;
    await this.#run(true);
    if (this.#writeError !== null) throw new Error(`the spool cannot be written: ${this.#writeError}`);
    if (this.#durability.safe < wanted) throw new Error("the spool was not written");
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#alarm.cancel();
    await this.#run(true);
    await this.#writer.close().catch(() => undefined);
  }

  #batch(entries: readonly Entry[], runs: readonly RunReply[]): Batch | null {
    if (entries.length + runs.length === 0) return null;
    for (const { seq } of entries) this.#ledger.inFlight.add(seq);
    this.#waiting -= entries.length;
    return {
      records: [...entries.map(({ result }) => ({ result })), ...runs.map((run) => ({ run }))],
      ack: () => {
        for (const { seq } of entries) this.#ledger.inFlight.delete(seq);
        for (const { seq } of entries) this.#ledger.done.add(seq);
        this.#ledger.changed ||= entries.length > 0;
        this.#arm(stateMs);
        return Promise.resolve();
      },
      release: () => this.#release(entries, runs),
    };
  }

  #release(entries: readonly Entry[], runs: readonly RunReply[]): void {
    this.#runs.unshift(...runs);
    this.#boundRuns();
    const unwritten: Entry[] = [];
    const { firstSeq: firstPending } = this.#pending;
    let rewindTo = Infinity;
    for (const entry of entries) {
      const { seq } = entry;
      this.#ledger.inFlight.delete(seq);
      if (this.#ledger.done.has(seq)) this.#ledger.dropped++;
      else if (seq >= firstPending) unwritten.push(entry);
      else if (this.#ledger.segmentOf(seq)?.region === this.#region) {
        this.#waiting++;
        rewindTo = Math.min(rewindTo, seq);
      } else this.#ledger.giveUp(seq);
    }
    this.#waiting += unwritten.length;
    this.#recent.merge(unwritten, bySeq);
    if (rewindTo < Infinity) this.#reader.rewind(rewindTo);
    this.#bound();
  }

  #lose(from: number, to: number, why: string): void {
    const count = this.#ledger.lose(from, to);
    if (count === 0) return;
    if (this.#ledger.segmentOf(from)?.region === this.#region) this.#waiting -= count;
    this.#options.log("warn", why, { count });
  }

  /** While the disk fails results wait in memory, up to a limit; the oldest is dropped. */
  #bound(): void {
    while (this.#pending.size > this.#options.memoryLimit) {
      const { seq } = this.#pending.take(1)[0]!;
      // A result in flight is counted when it is released.
      if (this.#ledger.done.has(seq) || this.#ledger.inFlight.has(seq)) continue;
      // Older results are also in a file.
      while (this.#recent.first !== undefined && this.#recent.first.seq <= seq) this.#recent.take(1);
      this.#waiting--;
      this.#ledger.giveUp(seq);
      this.#condition.say(
        "error",
        `the disk accepts no results; the oldest in memory are dropped (${this.#writeError ?? "it is too slow"})`,
      );
    }
  }

  #boundRuns(): void {
    this.#ledger.dropped += this.#runs.splice(0, Math.max(0, this.#runs.length - maxRuns)).length;
  }

  #forgetUnwritten(): void {
    for (const { seq } of this.#pending.take(this.#pending.size))
      if (!this.#ledger.done.has(seq) && !this.#ledger.inFlight.has(seq)) this.#ledger.giveUp(seq);
    this.#recent.take(this.#recent.size);
  }

  #arm(ms: number): void {
    if (!this.#closed) this.#alarm.setWithin(ms);
  }

  #run(now: boolean): Promise<void> {
    this.#work = this.#work.then(() => this.#commit(now));
    return this.#work;
  }

  /** One cycle: write, sync, remove finished segments. Never rejects. */
  async #commit(now: boolean): Promise<void> {
    this.#makeRoom();
    const over = this.#ledger.segments.filter(
      (segment) => segment !== this.#writer.segment && this.#ledger.isOver(segment),
    );
    this.#writeDownState(now || over.length > 0);
    try {
      await this.#write();
      await this.#sync(now || over.length > 0);
      if (this.#writeError !== null) this.#options.log("info", "the disk accepts results again");
      this.#writeError = null;
      this.#condition.clear();
    } catch (error) {
      this.#writeError = messageOf(error);
      this.#condition.say("error", `the spool cannot be written, results wait in memory (${this.#writeError})`);
    }
    // The state that marks them done is synced; after a failure the freed space may be what the disk lacked.
    await this.#remove(over);
    while (this.#recent.size > this.#options.window && this.#recent.first!.seq < this.#pending.firstSeq)
      this.#recent.take(1);
    if (this.#writeError !== null) this.#arm(retryMs);
    else if (this.#pending.size > 0) this.#arm(writeMs);
    else if (this.#ledger.changed || this.#durability.safe < this.#next) this.#arm(syncMs);
  }

  /** Drops the oldest segments when another one would exceed the limit. */
  #makeRoom(): void {
    const most = this.#options.maxBytes - this.#segmentBytes;
    let size = this.#ledger.segments.reduce((sum, segment) => sum + segment.size, 0);
    for (const segment of this.#ledger.segments) {
      if (size <= most) return;
      if (segment === this.#writer.segment) return;
      this.#lose(segment.base, segment.end, "the spool is full; the oldest results are dropped");
      // Results in flight do not keep the segment; they are counted when they are released.
      for (const seq of this.#ledger.inFlight) if (seq >= segment.base && seq < segment.end) this.#ledger.done.add(seq);
      size -= segment.size;
    }
  }

  #writeDownState(now: boolean): void {
    const time = this.#options.clock.monotonic();
    if (!now && (!this.#ledger.changed || time - this.#stateAt < stateMs)) return;
    if (!this.#ledger.changed && this.#pending.size === 0) return;
    const seq = this.#next++;
    this.#ledger.done.add(seq);
    this.#pending.push({ seq, result: null });
    this.#ledger.changed = false;
    this.#stateAt = time;
  }

  async #write(): Promise<void> {
    const end = this.#next;
    if (this.#writer.segment === null) this.#pending.skipDone(this.#ledger.done);
    await this.#pending.writeTo(this.#writer, end, () => this.#ledger.state);
  }

  async #sync(now: boolean): Promise<void> {
    const written = this.#pending.first?.seq ?? this.#next;
    const time = this.#options.clock.monotonic();
    await this.#durability.check({ written, time, now, done: this.#ledger.done }, () => this.#writer.sync());
  }

  async #remove(over: readonly Segment[]): Promise<void> {
    if (over.length === 0) return;
    const gone: Segment[] = [];
    for (const segment of over) {
      await this.#options.files.remove(segment.name).then(
        () => gone.push(segment),
        (error: unknown) =>
          this.#condition.say("error", `a segment of the spool cannot be removed (${messageOf(error)})`),
      );
    }
    this.#ledger.removed(gone, this.#pending.first?.seq ?? this.#next);
  }
}
