import type { Command } from "commander";
import { isProbedType } from "@statusmesh/shared/checks";
import { checkOf } from "@statusmesh/shared/declared/check";
import type { Json } from "../shell/api.ts";
import { connectionOf, connects, type ConnectionOptions } from "../shell/connection.ts";
import { Failure } from "../shell/failure.ts";
import { jsonOption, printJson } from "../shell/print.ts";
import { readProject, readsFiles } from "../shell/project.ts";
import { printRun } from "./runs.ts";

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
    .option("--monitor <key>", "only this one; repeatable", (text, before: string[] | undefined) => [
      ...(before ?? []),
      text,
    ])
    .addOption(jsonOption())
    .action(async (paths: string[], options: Options) => {
      const { document, redact } = readProject(paths, options);
      const monitors = (document["monitors"] ?? {}) as Record<string, { check: { type: string } }>;
      const keys = options.monitor ?? Object.keys(monitors);
      for (const key of keys) if (!Object.hasOwn(monitors, key)) throw new Failure(`the files have no monitor ${key}.`);
      // A heartbeat is reported by its job: nobody can run it.
      const probed = keys.filter((key) => isProbedType(monitors[key]!.check.type));
      if (probed.length === 0) throw new Failure("the files have no check that can be run.");
      const api = connectionOf(options);
      const replies: Json[] = [];
      for (const key of probed) {
        const reply = await api.post("/api/v1/targets/test", checkOf(document, key)).catch((error: unknown) => {
          if (error instanceof Failure) error.message = redact(`${key}: ${error.message}`);
          throw error;
        });
        replies.push({ key, ...reply });
        if (options.json !== true) printRun(key, reply["result"] as Json);
      }
      if (options.json === true) printJson(replies);
      const failed = replies.filter(({ result }) => (result as Json)["status"] !== "up").length;
      if (failed > 0) throw new Failure(`${failed} of ${probed.length} are not up.`);
    });
}
