import type { Command } from "commander";
import type { Json } from "@statusmesh/shared/json";
import { connectionOf, connects, type ConnectionOptions } from "../shell/connection.ts";
import { Failure, printJson, Refused } from "../shell/output.ts";
import { collect, jsonOption, readsFiles } from "../shell/options.ts";
import { printRun } from "./check-now.ts";

interface Options extends ConnectionOptions {
  json?: boolean;
  monitor?: string[];
}

export function define(command: Command): void {
  connects(readsFiles(command))
    .description(
      "Run the checks of the files once from the server, before an apply. Nothing is stored. Exit code 1 when " +
        "one of them is not up.",
    )
    .option("--monitor <key>", "only this one; repeatable", collect)
    .addOption(jsonOption())
    .action(async (paths: string[], options: Options) => {
      const { readProject, runsOf, shownOf } = await import("../shell/project.ts");
      const project = readProject(paths, options);
      const runs = runsOf(project.document, options.monitor);
      const api = await connectionOf(options);
      const replies: Json[] = [];
      for (const { key, body } of runs) {
        const shown = shownOf(project, key);
        const reply = shown.reply(
          await api.post("/api/v1/targets/test", body).catch((error: unknown) => {
            throw error instanceof Refused ? new Failure(`${key}: ${shown.refusal(error)}`) : error;
          }),
        );
        replies.push({ key, ...reply });
        if (options.json !== true) printRun(key, reply["result"] as Json);
      }
      if (options.json === true) printJson(replies);
      const failed = replies.filter(({ result }) => (result as Json)["status"] !== "up").length;
      if (failed > 0) throw new Failure(`${failed} of ${runs.length} are not up.`);
    });
}
