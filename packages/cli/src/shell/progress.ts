import { tell } from "./print.ts";

/** What is read or sent, for people: a line every few seconds, on standard error. */
export interface Progress {
  step(what: string, done: number, of: number | null): void;
  end(): void;
}

const everyMs = 2000;

export function progressLines(verb: "reading" | "sending" = "reading"): Progress {
  let next = performance.now() + everyMs;
  return {
    step(what, done, of) {
      if (performance.now() < next) return;
      next = performance.now() + everyMs;
      tell(
        `smctl: ${verb} ${what}: ` +
          (of === null ? String(done) : `${Math.min(100, Math.floor((done / Math.max(1, of)) * 100))} %`),
      );
    },
    end() {
      next = performance.now() + everyMs;
    },
  };
}

export const noProgress: Progress = { step: () => {}, end: () => {} };
