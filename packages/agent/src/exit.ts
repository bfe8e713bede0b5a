import type { Command } from "commander";

/** How `sm-agent` ends, as far as `sysexits.h` has numbers for it. */
export const exits = {
  up: 0,
  down: 1,
  degraded: 2,
  /** Wrong usage, a check that cannot be run included. */
  usage: 64,
  /** The control plane cannot be reached. */
  unavailable: 69,
  /** It had better be started anew. */
  again: 75,
  /** The control plane does not take the token. */
  refused: 77,
  /** Something in the configuration is in the way. */
  config: 78,
} as const;

/** Ends the command with one line on standard error. */
export function fail(command: Command, exitCode: number, message: string): never {
  command.error(`sm-agent: ${message}`, { exitCode });
}
