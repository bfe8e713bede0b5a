import type { CheckStatus } from "@statusmesh/shared/protocol/result";

/**
 * Consecutive failing runs of one status after which another one changes nothing: incidents open after 2 by default.
 * With more confirmations the last of them may arrive a second later.
 */
const settled = 10;
/** Time between snapshots of one streak, ms: an incident that opens late in a streak has one too. */
const recaptureMs = 600_000;

interface Last {
  status: CheckStatus;
  times: number;
  /** Slot of the last snapshot of the failing streak, Unix ms; null before the first. */
  capturedAt: number | null;
}

/** Distinguishes results that may change something from repetitions. */
export class Repetition {
  readonly #last = new WeakMap<object, Last>();

  /**
   * Records a result of `check` (the same object while the check is unchanged). Returns true when it may wait: the
   * previous run was up too, or the last {@link settled} runs failed in the same way.
   */
  notes(check: object, status: CheckStatus): boolean {
    const last = this.#last.get(check);
    if (last === undefined || last.status !== status) {
      const capturedAt = status === "up" ? null : (last?.capturedAt ?? null);
      this.#last.set(check, { status, times: 1, capturedAt });
      return false;
    }
    return ++last.times > (status === "up" ? 1 : settled);
  }

  /** True for the first response of a failing streak, and for one later than {@link recaptureMs}; recorded as sent. */
  captures(check: object, slot: number): boolean {
    const last = this.#last.get(check);
    if (last === undefined) return true;
    if (last.capturedAt !== null && slot < last.capturedAt + recaptureMs) return false;
    last.capturedAt = slot;
    return true;
  }
}
