import type { Clock } from "./clock.ts";
import type { Log } from "./log.ts";

const lookMs = 1000;
/** Between two collections of garbage: each stops the process for as long as its heap is large. */
const collectMs = 10_000;
/** It is not over before this much is free again: else it would come and go at every run. */
const lowPart = 0.95;
/** Memory that does not come back without a single run is lost to this process. */
const patienceMs = 60_000;

export interface MemoryLimitOptions {
  limitBytes: number;
  clock: Clock;
  log: Log;
  /** Resident memory of the process, bytes. */
  rss: () => number;
  /** Collects all garbage. */
  collect: () => void;
  /** It does not help to run nothing: the process had better start anew. Called once. */
  hopeless: () => void;
}

/**
 * Keeps the process under a limit by its own means: above it garbage is collected, then no run is started until there
 * is room again. A limit from outside (a container's) kills the process instead, in the middle of everything.
 */
export class MemoryLimit {
  readonly #options: MemoryLimitOptions;
  #cancel: () => void;
  #collectedAt = -Infinity;
  #overSince: number | null = null;
  #given = false;

  constructor(options: MemoryLimitOptions) {
    this.#options = options;
    this.#cancel = options.clock.after(lookMs, () => this.#look());
  }

  /** True while no run may start. */
  get over(): boolean {
    return this.#overSince !== null;
  }

  stop(): void {
    this.#cancel();
  }

  #look(): void {
    const { clock, limitBytes, rss, collect } = this.#options;
    this.#cancel = clock.after(lookMs, () => this.#look());
    const now = clock.monotonic();
    const allowed = this.over ? limitBytes * lowPart : limitBytes;
    let used = rss();
    if (used > allowed && now - this.#collectedAt >= collectMs) {
      this.#collectedAt = now;
      collect();
      used = rss();
    }
    if (used > allowed) this.#stayOver(now, used);
    else this.#goOn(used);
  }

  #stayOver(now: number, used: number): void {
    const { log, limitBytes, hopeless } = this.#options;
    const fields = { rss_mb: Math.round(used / 1e6), limit_mb: Math.round(limitBytes / 1e6) };
    if (this.#overSince === null) {
      this.#overSince = now;
      log("warn", "over the memory limit: no check is started until there is room again", fields);
    } else if (now - this.#overSince >= patienceMs && !this.#given) {
      this.#given = true;
      log(
        "error",
        "still over the memory limit after a minute without a check: the agent ends, to be started anew",
        fields,
      );
      hopeless();
    }
  }

  #goOn(used: number): void {
    if (this.#overSince === null) return;
    this.#overSince = null;
    this.#options.log("info", "below the memory limit again: checks go on", { rss_mb: Math.round(used / 1e6) });
  }
}
