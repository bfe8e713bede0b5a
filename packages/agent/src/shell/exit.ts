import type { Command } from "commander";

/** Exit codes of `sm-agent`, from `sysexits.h` where it has one. */
export const exits = {
  up: 0,
  down: 1,
  degraded: 2,
  /** Wrong usage, including a check that cannot run. */
  usage: 64,
  /** The control plane cannot be reached. */
  unavailable: 69,
  /** A restart helps. */
  again: 75,
  /** The control plane refuses the token. */
  refused: 77,
  /** The configuration is invalid. */
  config: 78,
} as const;

/** Ends the command with one line on standard error. */
export function fail(command: Command, exitCode: number, message: string): never {
  command.error(`sm-agent: ${message}`, { exitCode });
}
