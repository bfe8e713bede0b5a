import type { Command } from "commander";
import { defineManaging } from "./managing.ts";

export function define(command: Command): void {
  command.description("Stop declaring an object: it stays as it is, and prune ignores it.");
  defineManaging(command, { route: "detach", done: "no longer declared by" });
}
