import type { AgentResult, RunReply } from "@statusmesh/shared/agent-protocol";

/** What waits to be reported. */
export type SpoolRecord = { result: AgentResult } | { run: RunReply };

/** Records that are being sent. Exactly one of `ack` and `release` is called, once. */
export interface Batch {
  readonly records: readonly SpoolRecord[];
  /** They have arrived: forget them. */
  ack(): Promise<void>;
  /** They have not: they are the first to be taken again. */
  release(): void;
}

/** Results between the run and the control plane's acknowledgement. Bounded: when full, the oldest is dropped and counted. */
export interface Spool {
  append(record: SpoolRecord): void;
  /** The oldest records that nobody has taken; null when there are none. */
  take(max: number): Promise<Batch | null>;
  /** Records that wait, without those in taken batches. */
  readonly waiting: number;
  /** Records that were dropped because the spool was full, ever. */
  readonly dropped: number;
  /** Resolves when what was appended would survive a crash, as far as this spool can promise that. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

const defaultCapacity = 100_000;

/** A spool in memory. What is in it is lost with the process. */
export class MemorySpool implements Spool {
  readonly #capacity: number;
  #records: SpoolRecord[] = [];
  #head = 0;
  #dropped = 0;

  constructor(capacity = defaultCapacity) {
    this.#capacity = capacity;
  }

  get waiting(): number {
    return this.#records.length - this.#head;
  }

  get dropped(): number {
    return this.#dropped;
  }

  append(record: SpoolRecord): void {
    this.#records.push(record);
    this.#trim();
  }

  take(max: number): Promise<Batch | null> {
    if (this.waiting === 0) return Promise.resolve(null);
    const records = this.#records.slice(this.#head, this.#head + max);
    this.#head += records.length;
    this.#compact();
    return Promise.resolve({
      records,
      ack: () => Promise.resolve(),
      release: () => {
        this.#records = [...records, ...this.#records.slice(this.#head)];
        this.#head = 0;
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
    const excess = this.waiting - this.#capacity;
    if (excess <= 0) return;
    this.#head += excess;
    this.#dropped += excess;
    this.#compact();
  }

  /** Cutting the array at every batch would copy it at every batch. */
  #compact(): void {
    if (this.#head < 1024 || this.#head * 2 < this.#records.length) return;
    this.#records = this.#records.slice(this.#head);
    this.#head = 0;
  }
}
