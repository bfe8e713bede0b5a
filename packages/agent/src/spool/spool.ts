import type { AgentResult, RunReply } from "@statusmesh/shared/protocol/agent-protocol";
import { Queue } from "./queue.ts";

/** A record that waits to be reported. */
export type SpoolRecord = { result: AgentResult } | { run: RunReply };

/** Records in flight. Exactly one of `ack` and `release` is called, once. */
export interface Batch {
  readonly records: readonly SpoolRecord[];
  /** They were accepted, or never will be: remove them. */
  ack(): Promise<void>;
  /** They were not accepted: they are taken again before younger records. */
  release(): void;
}

/**
 * Two lanes, so that fresh results do not wait behind a backlog: `fresh` has the newest records, up to {@link
 * freshWindow}, `backlog` all older ones. Each is ordered, oldest first.
 */
export type Lane = "fresh" | "backlog";

export const freshWindow = 2000;

/**
 * Results between the run and the acknowledgement of the control plane. Bounded: when full, the oldest is dropped and
 * counted.
 */
export interface Spool {
  /** Sets the region of results from now on. Results of another region are not taken. */
  serve(region: string): void;
  append(record: SpoolRecord): void;
  /** The oldest records of the lane that are not in flight; null when there are none. */
  take(max: number, lane: Lane): Promise<Batch | null>;
  /** Number of waiting records, without those in flight. */
  readonly waiting: number;
  /** Waiting records in the lane `backlog`. */
  readonly backlog: number;
  /** Records ever dropped: the spool was full, or they could not be read. */
  readonly dropped: number;
  /** Resolves when appended records survive a crash, as far as this spool can promise; rejects otherwise. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

const defaultCapacity = 100_000;

interface Numbered {
  seq: number;
  record: SpoolRecord;
}

const bySeq = (one: Numbered, other: Numbered): number => one.seq - other.seq;

/** A spool in memory. Its content is lost with the process. */
export class MemorySpool implements Spool {
  readonly #capacity: number;
  readonly #window: number;
  readonly #fresh = new Queue<Numbered>();
  readonly #backlog = new Queue<Numbered>();
  #region: string | null = null;
  #next = 0;
  #dropped = 0;

  constructor(capacity = defaultCapacity, window = freshWindow) {
    this.#capacity = capacity;
    this.#window = window;
  }

  get waiting(): number {
    return this.#fresh.size + this.#backlog.size;
  }

  get backlog(): number {
    return this.#backlog.size;
  }

  get dropped(): number {
    return this.#dropped;
  }

  /** Results of another region cannot be reported with this token and are dropped. */
  serve(region: string): void {
    if (region === this.#region) return;
    if (this.#region !== null)
      this.#dropped += this.#fresh.take(this.#fresh.size).length + this.#backlog.take(this.#backlog.size).length;
    this.#region = region;
  }

  append(record: SpoolRecord): void {
    this.#fresh.push({ seq: this.#next++, record });
    this.#trim();
  }

  take(max: number, lane: Lane): Promise<Batch | null> {
    const queue = lane === "fresh" ? this.#fresh : this.#backlog;
    if (queue.size === 0) return Promise.resolve(null);
    const taken = queue.take(max);
    const region = this.#region;
    return Promise.resolve({
      records: taken.map(({ record }) => record),
      ack: () => Promise.resolve(),
      release: () => {
        if (region !== this.#region) {
          this.#dropped += taken.length;
          return;
        }
        queue.merge(taken, bySeq);
        this.#trim();
      },
    });
  }

  flush(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #trim(): void {
    const aged = this.#fresh.take(Math.max(0, this.#fresh.size - this.#window));
    const last = this.#backlog.last;
    if (last === undefined || aged[0] === undefined || last.seq < aged[0].seq)
      for (const one of aged) this.#backlog.push(one);
    else this.#backlog.merge(aged, bySeq);
    const excess = Math.max(0, this.waiting - this.#capacity);
    this.#dropped += excess;
    this.#fresh.take(excess - this.#backlog.take(excess).length);
  }
}
