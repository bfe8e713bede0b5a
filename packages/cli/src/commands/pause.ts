import type { Command } from "commander";
import { defineEnabling } from "./enabling.ts";

export function define(command: Command): void {
  command.description("Pause monitors: they are not checked, and open incidents end without a notification.");
  defineEnabling(command, { action: "disable", done: "paused" });
}
