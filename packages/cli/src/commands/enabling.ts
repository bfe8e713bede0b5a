import type { Command } from "commander";
import { tame } from "@statusmesh/shared/shell/terminal";
import { connectionOf, connects, type ConnectionOptions } from "../shell/connection.ts";
import { Failure, print, printJson } from "../shell/output.ts";
import { collect, jsonOption } from "../shell/options.ts";
import { selectMonitors } from "../shell/select.ts";

interface Options extends ConnectionOptions {
  json?: boolean;
  tag?: string[];
}

export function pause(command: Command): void {
  command.description("Pause monitors: they are not checked, and open incidents end without a notification.");
  defineEnabling(command, { action: "disable", done: "paused" });
}

export function resume(command: Command): void {
  command.description("Resume paused monitors.");
  defineEnabling(command, { action: "enable", done: "resumed" });
}

function defineEnabling(command: Command, { action, done }: { action: "enable" | "disable"; done: string }): void {
  connects(command)
    .argument("[monitors...]", "ids, keys or names")
    .option("--tag <tag>", "every monitor with this tag; repeatable", collect)
    .addOption(jsonOption())
    .action(async (names: string[], options: Options) => {
      const api = await connectionOf(options);
      const monitors = await selectMonitors(api, names, options.tag);
      const ids = monitors.map(({ id }) => id);
      const { succeeded, failed } = (await api.post("/api/v1/targets/bulk-action", {
        ids,
        action: { type: action },
      })) as { succeeded: string[]; failed: { id: string; message: string }[] };
      const nameOf = new Map(monitors.map(({ id, name }) => [id, name]));
      if (options.json === true) printJson({ succeeded, failed });
      else for (const id of succeeded) print(`${done}  ${tame(nameOf.get(id)!)}  ${id}\n`);
      if (failed.length > 0)
        throw new Failure(failed.map(({ id, message }) => `${nameOf.get(id) ?? id}: ${message}`).join("\n"));
    });
}
