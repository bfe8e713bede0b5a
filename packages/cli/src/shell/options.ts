import { type Command, InvalidArgumentError, Option } from "commander";
import { durationIn } from "@statusmesh/shared/time";
import { connects, type ConnectionOptions } from "./connection.ts";

/* Options that several commands have, apart from what uses them: help needs neither YAML nor schemas. */

export const jsonOption = (): Option => new Option("--json", "print JSON");

/** A parser of an option that may be given several times. */
export const collect = (text: string, before: string[] | undefined): string[] => [...(before ?? []), text];

/** `90s`, `5m`, `4h` as ms; a parser of an option. */
export function durationMs(text: string): number {
  const ms = durationIn("ms", text);
  if (ms === null || ms === 0) throw new InvalidArgumentError("It must be a duration like 90s, 5m or 4h.");
  return ms;
}

export interface ProjectOptions {
  json?: boolean;
  keepSecrets?: boolean;
  allowFile?: string[];
}

export interface PlanOptions extends ConnectionOptions, ProjectOptions {
  prune?: boolean;
  maxDelete?: number;
  markdown?: boolean;
}

/** Adds the argument of commands that read files, and the option of what these may name. */
export const readsFiles = (command: Command): Command =>
  command
    .argument("[files...]", "files and folders; default: statusmesh.yaml or statusmesh/")
    .option("--allow-file <dir>", "folder whose files ${file:path} may also read; repeatable", collect);

export const keepSecretsOption = (): Option =>
  new Option("--keep-secrets", "an unset variable in a secret of an existing object keeps the stored one");

/** Adds files and options of `plan` and `apply`. */
export const plans = (command: Command): Command =>
  connects(readsFiles(command))
    .option("--prune", "delete objects that left the files, unless they say on_remove: keep or pause")
    .option("--max-delete <n>", "most deletions; default: 20 % of the project's objects, at least 10", (text) => {
      if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
      return Number(text);
    })
    .addOption(keepSecretsOption())
    .addOption(jsonOption().conflicts("markdown"))
    .addOption(new Option("--markdown", "print Markdown, for the comment of a pull request"));
