import type { CheckStatus } from "@statusmesh/shared/result";

/**
 * Consecutive failing runs of one status after which another one changes nothing: incidents open after 2 by default.
 * With more confirmations the last of them may arrive a second later.
 */
const settled = 10;

/** Distinguishes results that may change something from repetitions. */
export class Repetition {
  readonly #last = new WeakMap<object, { status: CheckStatus; times: number }>();

  /**
   * Records a result of `check` (the same object while the check is unchanged). Returns true when it may wait: the
   * previous run was up too, or the last {@link settled} runs failed in the same way.
   */
  notes(check: object, status: CheckStatus): boolean {
    const last = this.#last.get(check);
    if (last === undefined || last.status !== status) {
      this.#last.set(check, { status, times: 1 });
      return false;
    }
    return ++last.times > (status === "up" ? 1 : settled);
  }
}
