import type { AssignedCheck, PullReply } from "@statusmesh/shared/agent-protocol";
import { jitterMs, phaseMs, slotAtOrAfter } from "@statusmesh/shared/schedule";
import type { Clock } from "./clock.ts";
import { Heap } from "./heap.ts";
import type { Stats } from "./stats.ts";

/** A scheduled run. */
export interface Started {
  /** Resolves when the run has ended, with any outcome. */
  done: Promise<unknown>;
  abandon(): void;
}

interface Entry {
  check: AssignedCheck;
  /** Phase of its slots in the region, ms. */
  readonly phase: number;
  slot: number;
  startAt: number;
  running: Started | null;
  /** Replaced or dropped; its heap entry is discarded when it comes up. */
  gone: boolean;
}

/**
 * Maximum starts per timer turn. Bursts falsify latency: 1,000 starts/s in bursts of 20 ms measured 2.5 ms where
 * single starts measured 0.17. After a standstill the backlog is worked off at this pace.
 */
const maxStartsPerTurn = 4;
/** Maximum delay of the timer, ms, so that a corrected clock takes effect. */
const maxSleepMs = 10_000;

/** Schedules all checks, also while the control plane is away. */
export class Schedule {
  readonly #entries = new Map<string, Entry>();
  readonly #heap = new Heap<Entry>();
  readonly #clock: Clock;
  readonly #stats: Stats;
  readonly #start: (check: AssignedCheck, slot: number) => Started;
  #region = "";
  #jitterPct = 0;
  #cancel: () => void = () => undefined;
  #stopped = false;

  constructor(clock: Clock, stats: Stats, start: (check: AssignedCheck, slot: number) => Started) {
    this.#clock = clock;
    this.#stats = stats;
    this.#start = start;
  }

  /** Number of checks. */
  get size(): number {
    return this.#entries.size;
  }

  /** Applies a pull. A check of a higher version replaces the existing one, including its running run. */
  apply(reply: Pick<PullReply, "region" | "jitter_pct" | "full" | "checks" | "drop">): void {
    if (reply.region !== this.#region) {
      // Slots of the old region are on no grid of the new one.
      this.clear();
      this.#region = reply.region;
    }
    this.#jitterPct = reply.jitter_pct;
    if (reply.full) {
      const kept = new Set(reply.checks.map((check) => check.target_id));
      for (const id of this.#entries.keys()) if (!kept.has(id)) this.#drop(id);
    }
    for (const id of reply.drop) this.#drop(id);
    for (const check of reply.checks) {
      const held = this.#entries.get(check.target_id);
      if (held !== undefined && !isNewer(check.version, held.check.version)) continue;
      this.#drop(check.target_id);
      // The outcome of the old version would be reported as the new one's.
      held?.running?.abandon();
      const phase = this.#phaseOf(check);
      const slot = check.next_due_at;
      const entry: Entry = {
        check,
        phase,
        slot,
        startAt: this.#startOf(check, phase, slot),
        running: null,
        gone: false,
      };
      this.#entries.set(check.target_id, entry);
      this.#heap.push(entry.startAt, entry);
    }
    this.#arm();
  }

  /** Removes every check and abandons running ones, until the next {@link Schedule.apply}. */
  clear(): void {
    for (const [id, { running }] of this.#entries) {
      this.#drop(id);
      running?.abandon();
    }
  }

  /** Starts no more runs. Running ones continue. */
  stop(): void {
    this.#stopped = true;
    this.#cancel();
  }

  #drop(id: string): void {
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    entry.gone = true;
    this.#entries.delete(id);
  }

  #arm(): void {
    this.#cancel();
    if (this.#stopped || this.#heap.size === 0) return;
    const delay = this.#heap.nextKey - this.#clock.now();
    this.#cancel = this.#clock.after(Math.min(maxSleepMs, Math.max(1, Math.ceil(delay))), () => this.#turn());
  }

  #turn(): void {
    const now = this.#clock.now();
    for (let starts = 0; starts < maxStartsPerTurn && this.#heap.nextKey <= now;) {
      const entry = this.#heap.pop();
      if (entry === undefined || entry.gone) continue;
      this.#catchUp(entry, now);
      if (entry.running !== null) this.#stats.skipped++;
      else {
        starts++;
        this.#begin(entry, now);
      }
      this.#advance(entry);
    }
    this.#arm();
  }

  /** After a standstill only the newest of the missed slots is run. */
  #catchUp(entry: Entry, now: number): void {
    const interval = entry.check.interval_ms;
    if (now - entry.startAt < interval) return;
    const newest = slotAtOrAfter(Math.floor(now) - interval + 1, entry.phase, interval);
    this.#stats.missed += Math.max(1, Math.round((newest - entry.slot) / interval));
    entry.slot = newest;
    entry.startAt = now;
  }

  #begin(entry: Entry, now: number): void {
    this.#stats.started(now - entry.startAt);
    const running = this.#start(entry.check, entry.slot);
    entry.running = running;
    void running.done.then(() => {
      entry.running = null;
    });
  }

  /** The next slot on the grid, at least half an interval away: an off-grid first run is not repeated at once. */
  #advance(entry: Entry): void {
    const { check, phase } = entry;
    entry.slot = slotAtOrAfter(entry.slot + check.interval_ms / 2, phase, check.interval_ms);
    entry.startAt = this.#startOf(check, phase, entry.slot);
    this.#heap.push(entry.startAt, entry);
  }

  #phaseOf(check: AssignedCheck): number {
    return phaseMs(check.target_id, this.#region, check.interval_ms);
  }

  /** An off-grid slot is a first run, which is due at once and has no jitter. */
  #startOf(check: AssignedCheck, phase: number, slot: number): number {
    const interval = check.interval_ms;
    const onGrid = slotAtOrAfter(slot, phase, interval) === slot;
    return onGrid ? slot + jitterMs(check.target_id, slot, interval, this.#jitterPct) : slot;
  }
}

/** Versions are decimal numbers of up to 20 digits, more than a JS number holds. */
function isNewer(version: string, than: string): boolean {
  return BigInt(version) > BigInt(than);
}
