import type { Ranges } from "./ranges.ts";

/**
 * Unacknowledged results older than this are synced, ms. Longer than a routine result waits for its request
 * (report.ts), so that an agent whose control plane answers never syncs.
 */
const syncAfterMs = 1200;
/** Interval of the fsync check, ms. */
export const syncMs = 300;

/** Decides when the written frames are synced. */
export class Durability {
  /** Every frame below this number is synced or done. */
  safe: number;
  /** What was written at the last checks, oldest first: the first frame number that was not. */
  #checks: { seq: number; at: number }[] = [];
  #checkedAt = -Infinity;

  constructor(safe: number) {
    this.safe = safe;
  }

  /**
   * Syncs when frames have waited for their acknowledgement for too long, or `now`. Frames below `written` are written;
   * `time` is monotonic, ms.
   */
  async check(
    { written, time, now, done }: { written: number; time: number; now: boolean; done: Ranges },
    sync: () => Promise<void>,
  ): Promise<void> {
    if (!now && time - this.#checkedAt < syncMs) return;
    this.#checks.push({ seq: written, at: time });
    // Results acknowledged meanwhile skip the fsync: an agent whose control plane answers never syncs.
    const aged = this.#checks.findLast(({ at }) => at <= time - syncAfterMs)?.seq ?? this.safe;
    const settled = done.countIn(this.safe, aged) === aged - this.safe;
    if (now || !settled) {
      await sync();
      this.safe = written;
    } else this.safe = Math.max(this.safe, aged);
    this.#checks = this.#checks.filter(({ seq }) => seq > this.safe);
    this.#checkedAt = time;
  }
}
