import type { Command } from "commander";
import type { Json } from "../shell/api.ts";
import { connectionOf, connects, type ConnectionOptions } from "../shell/connection.ts";
import { Failure } from "../shell/failure.ts";
import { jsonOption, printJson } from "../shell/print.ts";
import { selectMonitors } from "../shell/select.ts";
import { printRun } from "./runs.ts";

export function define(command: Command): void {
  connects(command)
    .description("Run the check of monitors now; the results are stored. Exit code 1 when one of them is not up.")
    .argument("<monitors...>", "ids, keys or names")
    .addOption(jsonOption())
    .action(async (names: string[], options: ConnectionOptions & { json?: boolean }) => {
      const api = await connectionOf(options);
      const results: Json[] = [];
      for (const { id, name } of await selectMonitors(api, names)) {
        const result = await api.post(`/api/v1/targets/${id}/check-now`);
        results.push(result);
        if (options.json !== true) printRun(name, result);
      }
      if (options.json === true) printJson(results);
      const failed = results.filter(({ status }) => status !== "up").length;
      if (failed > 0) throw new Failure(`${failed} of ${results.length} are not up.`);
    });
}
