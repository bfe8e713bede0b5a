import type { Command } from "commander";
import { defineManaging } from "./managing.ts";

export function define(command: Command): void {
  command.description("Let a project declare a stored object. Nothing of it changes until the next apply.");
  defineManaging(command, { route: "adopt", done: "declared by" });
}
