import type { Command } from "commander";
import { paint, tame, type Tone } from "@statusmesh/shared/shell/terminal";
import type { Json } from "@statusmesh/shared/json";
import { connectionOf, connects, type ConnectionOptions } from "../shell/connection.ts";
import { Failure, print, printJson, screen } from "../shell/output.ts";
import { jsonOption } from "../shell/options.ts";
import { selectMonitors } from "../shell/select.ts";

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

const tones: Readonly<Record<string, Tone>> = { up: "good", degraded: "warn", down: "bad", error: "bad" };

/** Prints what a run found as one line. */
export function printRun(name: string, result: Json): void {
  type Run = { status: string; error: string | null; total_ms: number | null; region: string | null };
  const { status, error, total_ms: ms, region } = result as Run;
  const words = [
    ms == null ? null : `${Math.round(ms)} ms`,
    region == null ? null : `from ${region}`,
    error == null || error === "" ? null : tame(error),
  ].filter((word) => word !== null);
  print(
    `${paint(status, tones[status] ?? "quiet", screen())}  ${tame(name)}  ${words.join(", ")}`.trimEnd().concat("\n"),
  );
}
