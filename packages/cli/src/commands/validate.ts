import type { Command } from "commander";
import { sections } from "@statusmesh/shared/declared/files";
import { counted, jsonOption, printJson, tell } from "../shell/print.ts";
import { keepSecretsOption, type ProjectOptions, readProject, readsFiles } from "../shell/project.ts";

export function define(command: Command): void {
  readsFiles(command)
    .description(
      "Check files without a server: syntax, the fields of every object, references between objects, variables, and " +
        "the rules of each kind of check. Every error is a line file:line:column: words.",
    )
    .addOption(jsonOption())
    .addOption(keepSecretsOption())
    .action((paths: string[], options: ProjectOptions) => {
      const { document, files } = readProject(paths, options);
      const count = sections.reduce((sum, section) => sum + Object.keys(Object(document[section])).length, 0);
      if (options.json === true) printJson([]);
      else tell(`${counted(files.length, "file")}, ${counted(count, "object")}, no errors.`);
    });
}
