import { writeFileSync } from "node:fs";
import type { Command } from "commander";
import { codeOrMessage } from "@statusmesh/shared/thrown";
import type { Json } from "@statusmesh/shared/json";
import { connectionOf, connects, type ConnectionOptions } from "../shell/connection.ts";
import { Failure, print, tell, yamlOf } from "../shell/output.ts";
import { jsonOption } from "../shell/options.ts";

interface Options extends ConnectionOptions {
  project?: string;
  tag?: string;
  output?: string;
  json?: boolean;
}

export function define(command: Command): void {
  connects(command)
    .description(
      "Write stored objects as a file. What no project declares has adopt: the first apply takes it over. Secrets " +
        "are variables, which are listed; their values are not exported.",
    )
    .option("--project <project>", "objects of this project only")
    .option("--tag <tag>", "monitors with this tag, and the channels that they notify")
    .option("--output <file>", "write to a new file; default: standard output")
    .addOption(jsonOption())
    .action(async (options: Options) => {
      const query = new URLSearchParams();
      for (const name of ["project", "tag"] as const) if (options[name] !== undefined) query.set(name, options[name]);
      const { document, secrets } = (await (
        await connectionOf(options)
      ).get(`/api/v1/config/export?${query.toString()}`)) as {
        document: Json;
        secrets: { name: string }[];
      };
      const text = options.json === true ? `${JSON.stringify(document, null, 2)}\n` : await yamlOf(document);
      if (options.output === undefined) print(text);
      else
        try {
          // What is in git is not lost to an export.
          writeFileSync(options.output, text, { flag: "wx" });
        } catch (error) {
          throw new Failure(`${options.output} cannot be written (${codeOrMessage(error)}).`);
        }
      if (secrets.length > 0) tell(`smctl: set these variables: ${secrets.map(({ name }) => name).join(", ")}`);
    });
}
