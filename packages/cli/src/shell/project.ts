import { existsSync } from "node:fs";
import { type Command, Option } from "commander";
import { checkDocument } from "@statusmesh/shared/declared/check";
import { inOrder, mistakeAt, readFiles, readNamedFile } from "@statusmesh/shared/declared/files";
import { type Mistake, mistakeLine, type Position } from "@statusmesh/shared/declared/position";
import { fillVariables, withoutValues } from "@statusmesh/shared/declared/variables";
import { mask } from "@statusmesh/shared/secrets";
import { tame } from "@statusmesh/shared/terminal";
import type { Json } from "./api.ts";
import { Failure } from "./failure.ts";
import { counted, printJson } from "./print.ts";

/** The files of a project, read and checked. */
export interface Project {
  readonly name: string;
  readonly document: Json;
  readonly position: Position;
  readonly files: readonly string[];
  /** Text without values of variables. */
  readonly redact: (text: string) => string;
}

export interface ProjectOptions {
  json?: boolean;
  keepSecrets?: boolean;
}

/** Adds the argument of commands that read files. */
export const readsFiles = (command: Command): Command =>
  command.argument("[files...]", "files and folders; default: statusmesh.yaml or statusmesh/");

export const keepSecretsOption = (): Option =>
  new Option("--keep-secrets", "an unset variable in a secret of an existing object keeps the stored one");

/** Reads the files. Prints every mistake and throws Failure when there is one. */
export function readProject(paths: readonly string[], options: ProjectOptions): Project {
  const { document, position, mistakes, files } = readFiles(paths.length > 0 ? paths : [defaultPath()]);
  const source = {
    env: process.env,
    readFile: readNamedFile,
    ...(options.keepSecrets === true ? { unset: mask } : {}),
  };
  const filled = fillVariables(document, position, source);
  const all = [...mistakes, ...filled.mistakes];
  // What could not be read has no form to check, and a text without its variables would be refused a second time.
  const known = new Set(filled.mistakes.map(placeText));
  if (mistakes.length === 0)
    for (const { pointer, message, ofKey } of checkDocument(filled.value as Json)) {
      const mistake = mistakeAt(position, pointer, withoutValues(message, filled.used), ofKey);
      if (!known.has(placeText(mistake))) all.push(mistake);
    }
  refuse(all, options);
  const { project } = filled.value as { project: string };
  return {
    name: project,
    document: filled.value as Json,
    position,
    files,
    redact: (text) => withoutValues(text, filled.used),
  };
}

/** Prints mistakes in the order of the files and throws Failure; returns when there is none. */
export function refuse(mistakes: readonly Mistake[], { json }: { json?: boolean }): void {
  if (mistakes.length === 0) return;
  const listed = inOrder(mistakes);
  if (json === true) printJson(listed);
  else process.stderr.write(listed.map((mistake) => `${tame(mistakeLine(mistake))}\n`).join(""));
  throw new Failure(json === true ? "" : `${counted(listed.length, "error")}.`);
}

const placeText = ({ file, line, column }: Mistake): string => `${file}:${line}:${column}`;

function defaultPath(): string {
  for (const path of ["statusmesh.yaml", "statusmesh"]) if (existsSync(path)) return path;
  throw new Failure("there is neither statusmesh.yaml nor statusmesh/ here. Name the files.");
}
