import type { Command } from "commander";
import { defineEnabling } from "./enabling.ts";

export function define(command: Command): void {
  command.description("Resume paused monitors.");
  defineEnabling(command, { action: "enable", done: "resumed" });
}
