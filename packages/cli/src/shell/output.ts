import { inColumns, type Screen, screenOf, tame } from "@statusmesh/shared/shell/terminal";
import type { ApiFault } from "@statusmesh/shared/declared/project";

/** Exit codes of `smctl`. `maintenance run` ends with that of its command. */
export const exits = {
  done: 0,
  failed: 1,
  /** A plan has changes. */
  differences: 2,
  /** The plan is of an earlier state. */
  stale: 3,
} as const;

/** Ends the command; the message is for people. */
export class Failure extends Error {
  override readonly name = "Failure";
  readonly exitCode: number;

  constructor(message: string, exitCode: number = exits.failed) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** The server refuses. */
export class Refused extends Failure {
  readonly status: number;
  readonly code: string;
  readonly faults: readonly ApiFault[];

  constructor(status: number, code: string, message: string, faults: readonly ApiFault[]) {
    super(message);
    this.status = status;
    this.code = code;
    this.faults = faults;
  }
}

/** The server, or the proxy before it, does not answer. */
export class Unreachable extends Failure {}

/** The standard output as it is shown. */
export const screen = (): Screen => screenOf(process.stdout, process.env);

export const printJson = (value: unknown): void => print(`${JSON.stringify(value, null, 2)}\n`);

export const print = (text: string): void => void process.stdout.write(text);

/**
 * A value as YAML, long texts on one line. The library is loaded on first use: help needs none. In a bundle a CommonJS
 * module that is imported late has no names but `default`.
 */
export const yamlOf = async (value: unknown): Promise<string> =>
  (await import("yaml")).default.stringify(value, { lineWidth: 0 });

/** A line for people on standard error, where it is not in the way of output. */
export const tell = (text: string): void => void process.stderr.write(`${text}\n`);

/** Aligned columns under a head; foreign text is made harmless. */
export const columns = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  inColumns([head.map((name) => name.toUpperCase()), ...rows.map((row) => row.map(tame))])
    .map((line) => `${line}\n`)
    .join("");

/** `1 file`, `2 files`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** Progress of reading or sending: a line every 2 s on standard error. */
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
