import type { Command } from "commander";
import { jsonOption, keepSecretsOption, type ProjectOptions, readsFiles } from "../shell/options.ts";
import { counted, printJson, tell } from "../shell/output.ts";

export function define(command: Command): void {
  readsFiles(command)
    .description(
      "Check files without a server: syntax, the fields of every object, references between objects, variables, and " +
        "the rules of each kind of check. Every error is a line file:line:column: words.",
    )
    .addOption(jsonOption())
    .addOption(keepSecretsOption())
    .action(async (paths: string[], options: ProjectOptions) => {
      const { objectCount, readProject } = await import("../shell/project.ts");
      const { document, files } = readProject(paths, options);
      if (options.json === true) printJson([]);
      else tell(`${counted(files.length, "file")}, ${counted(objectCount(document), "object")}, no errors.`);
    });
}
