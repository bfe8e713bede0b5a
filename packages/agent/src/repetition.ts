import type { CheckStatus } from "@statusmesh/shared/result";

/**
 * Failing runs of one status in a row after which another one changes nothing: incidents open after 2 by default. Where a
 * target asks for more confirmations, the last of them may come a second later.
 */
const settled = 10;

/** Tells results that may change something from those that only go on as before. */
export class Repetition {
  readonly #last = new WeakMap<object, { status: CheckStatus; times: number }>();

  /**
   * Notes a result of `check` (the same object as long as the check is the same). True when it may wait: the run before
   * was up too, or the last {@link settled} runs failed in the same way.
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
