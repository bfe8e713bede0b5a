/**
 * When a check is due. Control plane and agent compute the same slots independently, so that scheduling costs no
 * database write: slot k of a target in a region is `phase + k × interval`, counted from the Unix epoch.
 */

/**
 * FNV-1a, 32 bit, with a final avalanche (the multiplier of Murmur3's finaliser): ids that differ in one digit must
 * land far apart.
 */
export function hash32(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) {
    hash ^= text.charCodeAt(i);
    hash = Math.imul(hash, 0x01000193);
  }
  hash ^= hash >>> 16;
  hash = Math.imul(hash, 0x85ebca6b);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0xc2b2ae35);
  hash ^= hash >>> 16;
  return hash >>> 0;
}

/**
 * Offset of a target's slots within its interval, in ms: spreads the targets of a region evenly, and the regions of a
 * target apart.
 */
export function phaseMs(targetId: string, region: string, intervalMs: number): number {
  return Math.floor((hash32(`${targetId}/${region}`) / 0x1_0000_0000) * intervalMs);
}

/** The first slot at or after `fromMs` (Unix ms). */
export function slotAtOrAfter(fromMs: number, phase: number, intervalMs: number): number {
  return Math.ceil((fromMs - phase) / intervalMs) * intervalMs + phase;
}

/**
 * The slot of the run that follows a throttled one in the same interval: the throttled run has the slot itself. Both
 * are known without a write.
 */
export const secondTry = (slotMs: number): number => slotMs + 1;

/** The slot whose {@link secondTry} this may be. */
export const firstTry = (slotMs: number): number => slotMs - 1;

/** Step of {@link jitterMs}: 2^32 divided by the golden ratio. Its multiples fill the range evenly. */
export const jitterStep = 0x9e37_79b1;

/**
 * How long after its slot a run starts, in ms: 0 to `jitterPct` percent of the interval, the same for the same slot on
 * every machine. The result keeps the slot as `scheduled_at`; only the start moves. Plain arithmetic, because packed
 * results leave the jitter out and the database computes it again (monitoring/results/packing/pack-queries.ts).
 */
export function jitterMs(targetId: string, slotMs: number, intervalMs: number, jitterPct: number): number {
  return jitterOfSeed(hash32(targetId), slotMs, intervalMs, jitterPct);
}

/** {@link jitterMs} of the target with the hash. */
export function jitterOfSeed(seed: number, slotMs: number, intervalMs: number, jitterPct: number): number {
  const share = (seed + Math.imul(Math.floor(slotMs / intervalMs), jitterStep)) >>> 0;
  return Math.floor((share / 0x1_0000_0000) * intervalMs * (jitterPct / 100));
}

/**
 * The first slot whose run has not started yet at `nowMs`. Not the first slot from now on: with an agent that takes a
 * target over between a slot and its jittered start, no agent would run that slot.
 */
export function nextSlot(
  targetId: string,
  region: string,
  intervalMs: number,
  jitterPct: number,
  nowMs: number,
): number {
  const phase = phaseMs(targetId, region, intervalMs);
  const slot = slotAtOrAfter(nowMs, phase, intervalMs);
  // A jitter of at most one interval: of the slots that have passed only the last can be yet to start.
  const last = slot - intervalMs;
  return last + jitterMs(targetId, last, intervalMs, jitterPct) >= nowMs ? last : slot;
}

/** How long a region's vote stays live after its last result, in ms. */
export function livenessMs(intervalMs: number, timeoutMs: number): number {
  return Math.max(2 * intervalMs + timeoutMs, 90_000);
}

/**
 * Time between rechecks, ms: a sixth of the interval, at least 10 s and at most a minute. `leastMs` is a longer minimum
 * of the kind.
 */
export function recheckMs(intervalMs: number, leastMs = 0): number {
  return Math.max(leastMs, Math.min(Math.max(Math.floor(intervalMs / 6), 10_000), 60_000));
}

/** The slots of a target in a region, and the grid of rechecks between them. Times in ms. */
export interface RecheckGrid {
  phase: number;
  intervalMs: number;
  recheckMs: number;
}

/**
 * The first recheck slot at or after `fromMs`: `slot + j × recheck`, j from 1, up to half a recheck before the next
 * slot
 * of the schedule. Null for an interval that is too short for one.
 */
export function nextRecheck({ phase, intervalMs, recheckMs: step }: RecheckGrid, fromMs: number): number | null {
  const last = intervalMs - step / 2;
  if (step > last) return null;
  const slot = Math.floor((fromMs - phase) / intervalMs) * intervalMs + phase;
  const after = Math.max(1, Math.ceil((fromMs - slot) / step)) * step;
  return after <= last ? slot + after : slot + intervalMs + step;
}

/** How far the clocks of the replicas and the agents of one instance may be apart, with room, ms. */
const clockSlackMs = 300_000;

/** What is known of a target's schedule in one region. */
export interface KnownSchedule {
  targetId: string;
  region: string;
  /** Unix ms. */
  createdAt: number;
  /** The present interval and those that the target had before, ms. */
  intervalsMs: readonly number[];
  /** Minimum time between rechecks of the kind, ms. */
  leastRecheckMs: number;
}

/**
 * The longest time from a slot to the start of its run, ms: the jitter, and a standstill after which the slot is still
 * run.
 */
export const longestDelayMs = (longestIntervalMs: number): number => 2 * longestIntervalMs;

/** True for a slot of the grid of one of the intervals. */
export function isOnGrid(
  schedule: Pick<KnownSchedule, "targetId" | "region" | "intervalsMs">,
  slotMs: number,
): boolean {
  return schedule.intervalsMs.some((intervalMs) => {
    const phase = phaseMs(schedule.targetId, schedule.region, intervalMs);
    return slotAtOrAfter(slotMs, phase, intervalMs) === slotMs;
  });
}

/** True for a recheck slot of one of the intervals. */
export function isOnRecheckGrid(schedule: Omit<KnownSchedule, "createdAt">, slotMs: number): boolean {
  return schedule.intervalsMs.some((intervalMs) => {
    const phase = phaseMs(schedule.targetId, schedule.region, intervalMs);
    const grid = { phase, intervalMs, recheckMs: recheckMs(intervalMs, schedule.leastRecheckMs) };
    return nextRecheck(grid, slotMs) === slotMs;
  });
}

/** Why a result cannot be the work of an agent that follows its assignment. */
export type ScheduleViolation = "before_creation" | "wrong_time" | "off_schedule";

/**
 * Why the result of a run cannot be: its slot lies before the target existed (`before_creation`), the run did not start
 * near its slot (`wrong_time`: more than 5 minutes before it, or more than two intervals and 5 minutes after it), or
 * the slot is none of the target (`off_schedule`). Null for a result that can be. `isSlot` says that it is one:
 * {@link isOnGrid}, {@link isOnRecheckGrid}, or one that the control plane has handed out, for a first run or one on
 * demand.
 */
export function scheduleViolation(
  schedule: Pick<KnownSchedule, "createdAt" | "intervalsMs">,
  { slotMs, startedMs }: { slotMs: number; startedMs: number },
  isSlot: boolean,
): ScheduleViolation | null {
  if (slotMs < schedule.createdAt) return "before_creation";
  const latest = slotMs + longestDelayMs(Math.max(...schedule.intervalsMs)) + clockSlackMs;
  if (startedMs < slotMs - clockSlackMs || startedMs > latest) return "wrong_time";
  return isSlot ? null : "off_schedule";
}
