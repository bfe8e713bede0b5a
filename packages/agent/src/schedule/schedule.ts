import type { AssignedCheck, PullReply } from "@statusmesh/shared/protocol/agent-protocol";
import { jitterMs, nextRecheck, phaseMs, slotAtOrAfter } from "@statusmesh/shared/schedule";
import type { Clock } from "../clock.ts";
import { Heap } from "./heap.ts";
import type { Stats } from "../telemetry/stats.ts";

export interface Started {
  /** Resolves when the run has ended, with any outcome. */
  done: Promise<unknown>;
  abandon(): void;
  /** Set while the run waits for its turn at its host; `moveTo` makes it the run of a later slot. */
  readonly turn?: { moveTo(slot: number): void } | null;
}

/** Starts a run. Null for a recheck that cannot run now and is to be tried again in its next slot. */
export type Start = (check: AssignedCheck, slot: number, isRecheck: boolean) => Started | null;

/** A check and its runs. */
class Entry {
  readonly check: AssignedCheck;
  /** Phase of its slots in the region, ms. */
  readonly phase: number;
  readonly next: Due;
  recheck: Due | null = null;
  /** Rechecks since the vote of the region was last settled. */
  rechecks = 0;
  running: { run: Started; isRecheck: boolean } | null = null;
  /** Start of the last run; -Infinity before the first. */
  startedAt = -Infinity;

  constructor(check: AssignedCheck, phase: number, startAt: number) {
    this.check = check;
    this.phase = phase;
    this.next = { entry: this, isRecheck: false, slot: check.next_due_at, startAt, gone: false };
  }
}

/** A run that is due at a time. */
interface Due {
  readonly entry: Entry;
  readonly isRecheck: boolean;
  slot: number;
  startAt: number;
  /** Replaced or dropped; discarded when it comes up. */
  gone: boolean;
}

/**
 * Maximum starts per timer turn. Bursts falsify latency: 1,000 starts/s in bursts of 20 ms measured 2.5 ms where
 * single starts measured 0.17. After a standstill the backlog is worked off at this pace.
 */
const maxStartsPerTurn = 4;
/**
 * Rechecks in a row at their usual distance; after them only every tenth slot is used. An outage or recovery takes at
 * most
 * 9 of them to confirm. More are needed only where runs are skipped, for as long as that lasts.
 */
const closeRechecks = 10;
/** Maximum delay of the timer, ms, so that a corrected clock takes effect. */
const maxSleepMs = 10_000;

/** Schedules all checks, also while the control plane is away. */
export class Schedule {
  readonly #entries = new Map<string, Entry>();
  readonly #heap = new Heap<Due>();
  readonly #clock: Clock;
  readonly #stats: Stats;
  readonly #start: Start;
  #region = "";
  #jitterPct = 0;
  #cancel: () => void = () => undefined;
  #stopped = false;

  constructor(clock: Clock, stats: Stats, start: Start) {
    this.#clock = clock;
    this.#stats = stats;
    this.#start = start;
  }

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
      held?.running?.run.abandon();
      this.#add(check);
    }
    this.#arm();
  }

  /**
   * Plans one recheck of a target, in the next slot of its recheck grid; nothing where its next run comes first. The
   * last
   * run contradicts the vote of the region, and one more confirms or refutes it.
   */
  recheck(targetId: string): void {
    const entry = this.#entries.get(targetId);
    if (entry === undefined || entry.recheck !== null) return;
    this.#planRecheck(entry, this.#clock.now());
    this.#arm();
  }

  /** Cancels the recheck of a target: the vote of the region is settled. */
  settled(targetId: string): void {
    const entry = this.#entries.get(targetId);
    if (entry === undefined) return;
    entry.rechecks = 0;
    cancelRecheck(entry);
  }

  /** Removes every check and abandons running ones, until the next {@link Schedule.apply}. */
  clear(): void {
    for (const [id, { running }] of this.#entries) {
      this.#drop(id);
      running?.run.abandon();
    }
  }

  /** Starts no more runs. Running ones continue; those that wait for their turn are abandoned. */
  stop(): void {
    this.#stopped = true;
    this.#cancel();
    for (const entry of this.#entries.values()) abandonWaiting(entry);
  }

  #add(check: AssignedCheck): void {
    const phase = phaseMs(check.target_id, this.#region, check.interval_ms);
    const startAt = this.#startOf(check, phase, check.next_due_at);
    const entry = new Entry(check, phase, startAt);
    this.#entries.set(check.target_id, entry);
    this.#heap.push(startAt, entry.next);
  }

  #drop(id: string): void {
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    entry.next.gone = true;
    cancelRecheck(entry);
    abandonWaiting(entry);
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
      const due = this.#heap.pop();
      if (due === undefined || due.gone) continue;
      if (due.isRecheck ? this.#beginRecheck(due, now) : this.#beginNext(due, now)) starts++;
    }
    this.#arm();
  }

  /** Starts the run of a slot, and plans the next one. Returns false when it is skipped. */
  #beginNext(due: Due, now: number): boolean {
    const { entry } = due;
    this.#catchUp(due, now);
    // A recheck does not cost a run of the schedule: those count.
    if (entry.running?.isRecheck === true) this.#endRun(entry);
    const turn = entry.running?.run.turn ?? null;
    const begins = entry.running === null || turn !== null;
    if (turn !== null) turn.moveTo(due.slot);
    else if (begins) this.#begin(due, now);
    else this.#stats.skipped++;
    this.#advance(due);
    return begins;
  }

  /** Starts a recheck. Returns false where none is needed any more, or where it waits for its next slot. */
  #beginRecheck(due: Due, now: number): boolean {
    const { entry } = due;
    entry.recheck = null;
    // The reply to the run in flight decides.
    if (entry.running !== null) return false;
    entry.rechecks++;
    const late = now - due.startAt > entry.check.recheck_ms / 2;
    if (!late && this.#begin(due, now)) return true;
    this.#planRecheck(entry, late ? now : due.slot + 1);
    return false;
  }

  /** After a standstill only the newest of the missed slots is run. */
  #catchUp(due: Due, now: number): void {
    const { check, phase } = due.entry;
    const interval = check.interval_ms;
    if (now - due.startAt < interval) return;
    const newest = slotAtOrAfter(now - interval + 1, phase, interval);
    this.#stats.missed += Math.max(1, Math.round((newest - due.slot) / interval));
    due.slot = newest;
    due.startAt = now;
  }

  #begin({ entry, slot, startAt, isRecheck }: Due, now: number): boolean {
    const run = this.#start(entry.check, slot, isRecheck);
    if (run === null) return false;
    this.#stats.started(now - startAt);
    const running = { run, isRecheck };
    entry.running = running;
    entry.startedAt = now;
    void run.done.then(() => {
      if (entry.running === running) entry.running = null;
    });
    return true;
  }

  #endRun(entry: Entry): void {
    entry.running?.run.abandon();
    entry.running = null;
  }

  /** The next slot on the grid, at least half an interval away: an off-grid first run is not repeated at once. */
  #advance(due: Due): void {
    const { check, phase } = due.entry;
    due.slot = slotAtOrAfter(due.slot + check.interval_ms / 2, phase, check.interval_ms);
    due.startAt = this.#startOf(check, phase, due.slot);
    this.#heap.push(due.startAt, due);
  }

  /** Plans the next recheck from `fromMs` on, at least a third of their distance after the start of the last run. */
  #planRecheck(entry: Entry, fromMs: number): void {
    const { check, phase, next, startedAt, rechecks } = entry;
    const { target_id: id, interval_ms: intervalMs, recheck_ms: usual } = check;
    const recheckMs = rechecks < closeRechecks ? usual : closeRechecks * usual;
    const slot = nextRecheck({ phase, intervalMs, recheckMs }, Math.max(fromMs, startedAt + usual / 3));
    if (slot === null) return;
    const startAt = slot + jitterMs(id, slot, usual, this.#jitterPct);
    if (startAt >= next.startAt) return;
    entry.recheck = { entry, isRecheck: true, slot, startAt, gone: false };
    this.#heap.push(startAt, entry.recheck);
  }

  /** An off-grid slot is a first run, which is due at once and has no jitter. */
  #startOf(check: AssignedCheck, phase: number, slot: number): number {
    const interval = check.interval_ms;
    const onGrid = slotAtOrAfter(slot, phase, interval) === slot;
    return onGrid ? slot + jitterMs(check.target_id, slot, interval, this.#jitterPct) : slot;
  }
}

function abandonWaiting({ running }: Entry): void {
  if (running?.run.turn != null) running.run.abandon();
}

function cancelRecheck(entry: Entry): void {
  if (entry.recheck !== null) entry.recheck.gone = true;
  entry.recheck = null;
}

/** Versions are decimal numbers of up to 20 digits, more than a JS number holds. */
function isNewer(version: string, than: string): boolean {
  return BigInt(version) > BigInt(than);
}
