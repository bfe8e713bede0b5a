import type { ScryptOptions } from "node:crypto";
import { Worker } from "node:worker_threads";
import { AppError } from "@statusmesh/shared/errors";

/** A key to derive from a password. */
export interface Derivation {
  readonly password: string;
  readonly salt: Uint8Array;
  readonly bytes: number;
  readonly options: ScryptOptions;
}

/** What a thread sends back. */
export type Derived = { readonly key: Uint8Array } | { readonly error: unknown };

export interface ScryptThreads {
  /** Derives a key. Throws RATE_LIMITED, for another try, when the thread ends meanwhile. */
  derive(job: Derivation): Promise<Buffer>;
  /** Ends all threads, also those that derive. */
  end(): Promise<void>;
}

const idleEndMs = 30_000;

/** Threads of low priority, as many as derivations at a time; each starts when needed and ends after `idleMs`. */
export function openScrypt(idleMs = idleEndMs): ScryptThreads {
  const threads = new Set<Worker>();
  /** With the timer that ends it. */
  const idle = new Map<Worker, NodeJS.Timeout>();

  function start(): Worker {
    // Neither the options nor the environment of the service, which has its secrets.
    const thread = new Worker(new URL("./scrypt-thread.js", import.meta.url), { execArgv: [], env: {} });
    threads.add(thread);
    thread.once("exit", () => {
      threads.delete(thread);
      clearTimeout(idle.get(thread));
      idle.delete(thread);
    });
    // Followed by exit.
    thread.on("error", () => {});
    return thread;
  }

  function take(): Worker {
    const [thread] = idle.keys();
    if (thread === undefined) return start();
    clearTimeout(idle.get(thread));
    idle.delete(thread);
    thread.ref();
    return thread;
  }

  function rest(thread: Worker): void {
    thread.unref();
    idle.set(thread, setTimeout(() => void thread.terminate(), idleMs).unref());
  }

  return {
    async derive(job) {
      const thread = take();
      const answer = await new Promise<Derived | null>((resolve) => {
        const settle = (made: Derived | null): void => {
          thread.off("message", settle).off("exit", lost);
          resolve(made);
        };
        const lost = (): void => settle(null);
        thread.on("message", settle).on("exit", lost);
        // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
        thread.postMessage(job);
      });
      if (answer === null) throw lostThread();
      rest(thread);
      if ("error" in answer) throw answer.error;
      return Buffer.from(answer.key);
    },
    async end() {
      await Promise.all([...threads].map((thread) => thread.terminate()));
    },
  };
}

const lostThread = (): AppError =>
  new AppError("RATE_LIMITED", "The password could not be judged. Try again in 1 s.", {
    retryAfterSecs: 1,
    details: { scope: "sign_in_capacity" },
  });
