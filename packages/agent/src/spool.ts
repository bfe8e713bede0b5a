import type { AgentResult, RunReply } from "@statusmesh/shared/agent-protocol";
import { Queue } from "./spool/queue.ts";

/** What waits to be reported. */
export type SpoolRecord = { result: AgentResult } | { run: RunReply };

/** Records that are being sent. Exactly one of `ack` and `release` is called, once. */
export interface Batch {
  readonly records: readonly SpoolRecord[];
  /** They have arrived, or never will: forget them. */
  ack(): Promise<void>;
  /** They have not: they are taken again before what is younger. */
  release(): void;
}

/**
 * Two ways out, so that news does not wait behind an hour of history: `fresh` has the newest records, up to
 * {@link freshWindow} of them, and `backlog` all that is older. Each is in order, the oldest first.
 */
export type Lane = "fresh" | "backlog";

export const freshWindow = 2000;

/** Results between the run and the control plane's acknowledgement. Bounded: when full, the oldest is dropped and counted. */
export interface Spool {
  /** The region that results are measured in from now on. Results of another region are not given out. */
  serve(region: string): void;
  append(record: SpoolRecord): void;
  /** The oldest records of the lane that nobody has taken; null when there are none. */
  take(max: number, lane: Lane): Promise<Batch | null>;
  /** Records that wait, without those in taken batches. */
  readonly waiting: number;
  /** Those of them that are in the lane `backlog`. */
  readonly backlog: number;
  /** Records that were dropped, ever: the spool was full, or they could not be read again. */
  readonly dropped: number;
  /** Resolves when what was appended would survive a crash, as far as this spool can promise that; rejects when it would not. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

const defaultCapacity = 100_000;

interface Numbered {
  seq: number;
  record: SpoolRecord;
}

const bySeq = (one: Numbered, other: Numbered): number => one.seq - other.seq;

/** A spool in memory. What is in it is lost with the process. */
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

  /** What another region's token brought cannot be reported with this one's, and is dropped. */
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
