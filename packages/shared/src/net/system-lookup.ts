import { codeOf } from "../thrown.ts";
import { DialError } from "./dial-error.ts";

/** Address families that a check connects over. */
export type IpVersion = "any" | "4" | "6";

/**
 * Addresses of a name, both families, in the order in which to try them. Rejects with a DialError of phase `dns`; where
 * one family is wanted, also when its query failed and the other was answered.
 */
export type Lookup = (name: string, owner?: string, wanted?: IpVersion) => Promise<string[]>;

/** A monotonic clock, ms. */
export interface LookupClock {
  now(): number;
  /** Calls back after `ms`; the returned function cancels. */
  after(ms: number, callback: () => void): () => void;
}

/** Error codes of "no such name" and "no DNS server here". */
export const absentCodes: ReadonlySet<string> = new Set(["ENOTFOUND", "ENODATA", "ECONNREFUSED"]);

/**
 * Concurrent calls of `getaddrinfo`, which shares four threads with the file system: names that it has found before,
 * and all others. An absent name may take it seconds, so those never take the places of names that exist.
 */
const slots = { found: 2, other: 1 };
/** The first answer for a name that DNS does not know may wait this long, ms; the next run has it. */
const maxWaitMs = 2000;
/** How long the operating system is not asked again for a name that it did not find, ms. */
const absentMs = 300_000;
/** Names remembered; the oldest is evicted. */
const maxNames = 10_000;

interface Pool {
  readonly slots: number;
  running: number;
  /** Waiting calls by owner; owners take turns. */
  readonly waiting: Map<string, (() => void)[]>;
}

const poolOf = (max: number): Pool => ({ slots: max, running: 0, waiting: new Map() });

/** The operating system's lookup, for names that DNS cannot know, with bounded use of its threads. */
export class SystemLookup {
  readonly #system: Lookup;
  readonly #clock: LookupClock;
  readonly #found = new Set<string>();
  readonly #absent = new Map<string, { until: number; error: unknown }>();
  readonly #flights = new Map<string, Promise<string[]>>();
  readonly #pools = { found: poolOf(slots.found), other: poolOf(slots.other) };

  constructor(system: Lookup, clock: LookupClock) {
    this.#system = system;
    this.#clock = clock;
  }

  /** Rejects with a local DialError while the first answer for a name has to wait: no evidence about the target. */
  lookup(name: string, owner: string): Promise<string[]> {
    const absent = this.#absent.get(name);
    if (absent !== undefined && absent.until > this.#clock.now()) return Promise.reject(absent.error as Error);
    const isKnown = this.#found.has(name);
    const flight = this.#flights.get(name) ?? this.#start(name, owner, isKnown ? this.#pools.found : this.#pools.other);
    if (isKnown) return flight;
    return new Promise((settle, reject) => {
      const cancel = this.#clock.after(maxWaitMs, () =>
        reject(new DialError("dns", "the agent's machine is still looking the name up", "ELOOKUPBUSY")),
      );
      flight.then(settle, reject).finally(cancel);
    });
  }

  #start(name: string, owner: string, pool: Pool): Promise<string[]> {
    const flight = this.#ask(name, owner, pool).finally(() => this.#flights.delete(name));
    this.#flights.set(name, flight);
    return flight;
  }

  async #ask(name: string, owner: string, pool: Pool): Promise<string[]> {
    await this.#enter(owner, pool);
    try {
      const addresses = await this.#system(name);
      keep(this.#found, name);
      this.#absent.delete(name);
      return addresses;
    } catch (error) {
      if (absentCodes.has(codeOf(error))) {
        this.#found.delete(name);
        this.#absent.delete(name);
        this.#absent.set(name, { until: this.#clock.now() + absentMs, error });
        if (this.#absent.size > maxNames) this.#absent.delete(this.#absent.keys().next().value!);
      }
      throw error;
    } finally {
      pool.running--;
      this.#admit(pool);
    }
  }

  #enter(owner: string, pool: Pool): Promise<void> {
    return new Promise((settle) => {
      const queue = pool.waiting.get(owner);
      if (queue === undefined) pool.waiting.set(owner, [settle]);
      else queue.push(settle);
      this.#admit(pool);
    });
  }

  #admit(pool: Pool): void {
    while (pool.running < pool.slots) {
      const next = pool.waiting.entries().next().value;
      if (next === undefined) return;
      const [owner, queue] = next;
      // To the end: the other owners come first.
      pool.waiting.delete(owner);
      const start = queue.shift();
      if (queue.length > 0) pool.waiting.set(owner, queue);
      pool.running++;
      start?.();
    }
  }
}

function keep(names: Set<string>, name: string): void {
  names.delete(name);
  names.add(name);
  if (names.size > maxNames) names.delete(names.keys().next().value!);
}
