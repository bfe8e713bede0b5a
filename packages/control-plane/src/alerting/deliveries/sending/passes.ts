const maxPauseMs = 5_000;
const minPauseMs = 10;

export interface PassSteps {
  /** One pass. Returns true when another one is to follow at once. */
  once(): Promise<boolean>;
  /** Time until the next pass without a wake-up, ms; at most 5 s are waited. */
  pauseMs(): Promise<number>;
  failed(error: unknown): void;
}

export interface Passes {
  /** Runs a pass; during a pass, one more after it. */
  wake(): void;
  /** The running pass; null when none is. */
  running(): Promise<void> | null;
  /** Starts no more passes. */
  stop(): void;
}

/** Runs passes one at a time: when woken, when the pause after the last one is over, and 5 s after one that failed. */
export function openPasses({ once, pauseMs, failed }: PassSteps): Passes {
  let running: Promise<void> | null = null;
  let again = false;
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;

  function wake(): void {
    if (stopped) return;
    if (running !== null) again = true;
    else
      running = pass().finally(() => {
        running = null;
        if (again) wake();
      });
  }

  async function pass(): Promise<void> {
    clearTimeout(timer);
    let pause = maxPauseMs;
    try {
      do {
        again = false;
        if (await once()) again = true;
      } while (again && !stopped);
      pause = Math.min(maxPauseMs, Math.max(minPauseMs, await pauseMs()));
    } catch (error) {
      failed(error);
    }
    if (!stopped) timer = setTimeout(wake, pause);
  }

  return {
    wake,
    running: () => running,
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
