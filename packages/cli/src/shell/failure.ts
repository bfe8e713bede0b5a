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

/** Ends the command with a message for people. */
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
