import type { Clock } from "../clock.ts";
import type { Log } from "../telemetry/log.ts";

const lookMs = 1000;
/** Minimum time between garbage collections, ms: each stops the process for a time that grows with the heap. */
const collectMs = 10_000;
/** Hysteresis: runs start again when this share is free. */
const lowPart = 0.95;
/** After this time without recovery, ms, the memory is lost to this process. */
const patienceMs = 60_000;

export interface MemoryLimitOptions {
  limitBytes: number;
  clock: Clock;
  log: Log;
  /** Resident memory of the process, bytes. */
  rss: () => number;
  /** Collects all garbage. */
  collect: () => void;
  /** Stopping all runs did not help: the process should restart. Called once. */
  hopeless: () => void;
}

/**
 * Keeps the process under a memory limit: above it garbage is collected, then no run starts until memory is free
 * again. An external limit (of a container) would kill the process instead.
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
      log("warn", "over the memory limit: no check is started until memory is free again", fields);
    } else if (now - this.#overSince >= patienceMs && !this.#given) {
      this.#given = true;
      log(
        "error",
        "still over the memory limit after a minute without a check: the agent exits to be restarted",
        fields,
      );
      hopeless();
    }
  }

  #goOn(used: number): void {
    if (this.#overSince === null) return;
    this.#overSince = null;
    this.#options.log("info", "below the memory limit again: checks continue", { rss_mb: Math.round(used / 1e6) });
  }
}
