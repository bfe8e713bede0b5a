import { existsSync } from "node:fs";
import { type Command, Option } from "commander";
import { checkDocument } from "@statusmesh/shared/declared/check";
import { inOrder, readNamedFile } from "@statusmesh/shared/declared/files";
import { type Mistake, mistakeLine } from "@statusmesh/shared/declared/position";
import { type ReadProject, readProjectFiles } from "@statusmesh/shared/declared/project";
import { mask } from "@statusmesh/shared/secrets";
import { tame } from "@statusmesh/shared/terminal";
import { requestBodies } from "../bodies.ts";
import { Failure } from "./failure.ts";
import { counted, printJson } from "./print.ts";

/** The files of a project without mistakes. */
export interface Project extends ReadProject {
  readonly name: string;
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
  const source = {
    env: process.env,
    readFile: readNamedFile,
    ...(options.keepSecrets === true ? { unset: mask } : {}),
  };
  const bodies = requestBodies();
  const project = readProjectFiles(paths.length > 0 ? paths : [defaultPath()], source, (document) =>
    checkDocument(document, bodies),
  );
  refuse(project.mistakes, options);
  return { ...project, name: (project.document as { project: string }).project };
}

/** Prints mistakes in the order of the files and throws Failure; returns when there is none. */
export function refuse(mistakes: readonly Mistake[], { json }: { json?: boolean }): void {
  if (mistakes.length === 0) return;
  const listed = inOrder(mistakes);
  if (json === true) printJson(listed);
  else process.stderr.write(listed.map((mistake) => `${tame(mistakeLine(mistake))}\n`).join(""));
  throw new Failure(json === true ? "" : `${counted(listed.length, "error")}.`);
}

function defaultPath(): string {
  for (const path of ["statusmesh.yaml", "statusmesh"]) if (existsSync(path)) return path;
  throw new Failure("there is neither statusmesh.yaml nor statusmesh/ here. Name the files.");
}
