import { crc32 } from "node:zlib";
import { Compile } from "typebox/compile";
import { AgentPing, AgentPingBody } from "@statusmesh/shared/protocol/agent-protocol";
import { asObject, parsedJson } from "@statusmesh/shared/json";
import { messageOf } from "@statusmesh/shared/thrown";
import type { Files, SegmentFile } from "../spool/files.ts";
import { type Log, Once } from "../telemetry/log.ts";

/** What waits to be delivered: a ping, or the body of one, which arrives later. */
export type PingRecord = { readonly ping: AgentPing } | { readonly body: AgentPingBody };

/** Records that are sent together. After they were accepted, or never will be, `done` removes them. */
export interface PingBatch {
  readonly records: readonly PingRecord[];
  /** True when records wait behind these that were there before. */
  readonly isFollowed: boolean;
  done(): Promise<void>;
}

/** The answer to a job is a promise, so a full journal refuses new pings where a spool of results drops old ones. */
export class JournalFull extends Error {}

const suffix = ".pings";
/** A file is as large as this at most, and one more record. It is read at once. */
const fileBytes = 1_048_576;
/** Text of one batch, about. */
const batchBytes = 1_048_576;

const validPing = Compile(AgentPing);
const validBody = Compile(AgentPingBody);

interface Waiting {
  line: Buffer;
  at: number | null;
  resolve(): void;
  reject(error: unknown): void;
}

/**
 * Pings between the answer to the job and the acknowledgement of the control plane, in files of lines in the order of
 * arrival. A record is on the disk before its promise resolves; those that arrive during a write share the next one.
 * After a kill whole files are delivered again, which changes nothing there.
 */
export class PingJournal {
  readonly #files: Files;
  readonly #maxBytes: number;
  readonly #condition: Once;
  readonly #log: Log;
  /** Names and sizes, the oldest first. */
  readonly #sizes: Map<string, number>;
  #next: number;
  #current: { name: string; file: SegmentFile; size: number } | null = null;
  #pending: Waiting[] = [];
  #writing: Waiting[] = [];
  #work: Promise<void> = Promise.resolve();
  #reading: { name: string; records: PingRecord[]; sizes: number[] } | null = null;
  /** Records that wait, as far as they are counted: those of an earlier process when their file is read. */
  waiting = 0;
  /** Called after records were written. */
  onAppend: () => void = () => undefined;

  private constructor(files: Files, maxBytes: number, log: Log, sizes: Map<string, number>) {
    this.#files = files;
    this.#maxBytes = maxBytes;
    this.#log = log;
    this.#condition = new Once(log);
    this.#sizes = sizes;
    this.#next = 1 + Math.max(0, ...[...sizes.keys()].map((name) => Number.parseInt(name, 10)));
  }

  /** Opens the journal in a folder that this process has locked. `maxBytes`: size limit of all files. */
  static async open(options: { files: Files; maxBytes: number; log: Log }): Promise<PingJournal> {
    const { files, maxBytes, log } = options;
    const names = (await files.list()).filter((name) => /^\d{16}\.pings$/.test(name)).sort();
    const sizes = new Map<string, number>();
    for (const name of names) sizes.set(name, await files.size(name));
    if (names.length > 0) log("info", "pings of an earlier run wait and will be delivered", { files: names.length });
    return new PingJournal(files, maxBytes, log, sizes);
  }

  get bytes(): number {
    return [...this.#sizes.values()].reduce((sum, size) => sum + size, 0);
  }

  /** True when the journal is more than half full. */
  get isFilling(): boolean {
    return this.bytes * 2 > this.#maxBytes;
  }

  /** Resolves when the record survives a crash. Rejects when it cannot be written: {@link JournalFull}, or a disk. */
  append(record: PingRecord): Promise<void> {
    if (this.bytes >= this.#maxBytes) return Promise.reject(new JournalFull());
    const text = JSON.stringify(record);
    const line = Buffer.from(`${crc32(text).toString(16).padStart(8, "0")} ${text}\n`);
    const at = "ping" in record ? record.ping.at : null;
    const written = new Promise<void>((resolve, reject) => this.#pending.push({ line, at, resolve, reject }));
    if (this.#pending.length === 1) this.#work = this.#work.then(() => this.#write());
    return written;
  }

  /** `now`, or the time of the oldest ping that is not written yet. Unix ms. */
  settledUntil(now: number): number {
    return Math.min(now, ...[...this.#writing, ...this.#pending].map(({ at }) => at ?? now));
  }

  /** The oldest records, at most `max`; null when none waits. One batch at a time. */
  async take(max: number): Promise<PingBatch | null> {
    const reading = (this.#reading ??= await this.#readOldest());
    if (reading === null) return null;
    let count = 0;
    for (let size = 0; count < Math.min(max, reading.records.length) && size < batchBytes; count++)
      size += reading.sizes[count]!;
    return {
      records: reading.records.slice(0, count),
      isFollowed: count < reading.records.length || this.#sizes.size > 1,
      done: async () => {
        reading.records.splice(0, count);
        reading.sizes.splice(0, count);
        this.waiting = Math.max(0, this.waiting - count);
        if (reading.records.length > 0) return;
        this.#reading = null;
        await this.#remove(reading.name);
      },
    };
  }

  async close(): Promise<void> {
    this.#work = this.#work.then(() => this.#leave());
    await this.#work;
  }

  async #write(): Promise<void> {
    const batch = (this.#writing = this.#pending);
    this.#pending = [];
    try {
      if (this.#current !== null && this.#current.size >= fileBytes) await this.#leave();
      const current = (this.#current ??= await this.#create());
      const bytes = Buffer.concat(batch.map(({ line }) => line));
      for (let from = 0; from < bytes.length;) {
        const count = await current.file.write(bytes.subarray(from), current.size);
        if (count === 0) throw new Error("the disk is full");
        from += count;
        current.size += count;
        this.#sizes.set(current.name, current.size);
      }
      await current.file.sync();
      this.waiting += batch.length;
      this.#condition.clear();
      for (const { resolve } of batch) resolve();
      this.onAppend();
    } catch (error) {
      this.#condition.say("error", `pings cannot be written and are refused (${messageOf(error)})`);
      // What was written of them ends the file: a part of a line is left out when it is read.
      await this.#leave();
      for (const { reject } of batch) reject(error);
    } finally {
      this.#writing = [];
    }
  }

  async #create(): Promise<{ name: string; file: SegmentFile; size: number }> {
    const name = `${String(this.#next++).padStart(16, "0")}${suffix}`;
    const file = await this.#files.create(name);
    this.#sizes.set(name, 0);
    return { name, file, size: 0 };
  }

  async #leave(): Promise<void> {
    const current = this.#current;
    this.#current = null;
    await current?.file.close().catch(() => undefined);
  }

  /** The records of the oldest file that has any. The one that is being written is closed first. */
  async #readOldest(): Promise<{ name: string; records: PingRecord[]; sizes: number[] } | null> {
    for (const name of this.#sizes.keys()) {
      const isOwn = (): boolean => this.#current?.name === name;
      if (isOwn()) this.#work = this.#work.then(() => (isOwn() ? this.#leave() : undefined));
      await this.#work;
      const bytes = await this.#files.read(name, 0, this.#sizes.get(name)!);
      const lines = bytes.toString("utf8").split("\n");
      // What follows the last line break was cut off before it was answered.
      lines.pop();
      const records = lines.map(readLine);
      const damaged = records.filter((record) => record === null).length;
      if (damaged > 0) this.#log("error", "pings in the spool are damaged and lost", { file: name, count: damaged });
      const whole = records.filter((record) => record !== null);
      if (whole.length > 0)
        return { name, records: whole, sizes: whole.map((record) => JSON.stringify(record).length) };
      await this.#remove(name);
    }
    return null;
  }

  async #remove(name: string): Promise<void> {
    await this.#files.remove(name);
    this.#sizes.delete(name);
  }
}

function readLine(line: string): PingRecord | null {
  const text = line.slice(9);
  if (crc32(text).toString(16).padStart(8, "0") !== line.slice(0, 8)) return null;
  const { ping, body } = asObject(parsedJson(text));
  if (validPing.Check(ping)) return { ping };
  return validBody.Check(body) ? { body } : null;
}
