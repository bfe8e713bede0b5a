import { existsSync } from "node:fs";
import { isProbedType } from "@statusmesh/shared/checks";
import { checkDocument, checkOf, secretPointers } from "@statusmesh/shared/declared/check";
import { inOrder, readNamedFile, sections } from "@statusmesh/shared/declared/files";
import { type Mistake, mistakeLine } from "@statusmesh/shared/declared/position";
import { type ReadProject, readProjectFiles } from "@statusmesh/shared/declared/project";
import { mask } from "@statusmesh/shared/secrets";
import { tame } from "@statusmesh/shared/terminal";
import { requestBodies } from "../package.ts";
import { counted, Failure, printJson } from "./output.ts";
import type { ProjectOptions } from "./options.ts";

/** The files of a project without mistakes. */
export interface Project extends ReadProject {
  readonly name: string;
}

/** Reads the files. Prints every mistake and throws Failure when there is one. */
export function readProject(paths: readonly string[], options: ProjectOptions): Project {
  const source = {
    env: process.env,
    readFile: readNamedFile,
    ...(options.keepSecrets === true ? { unset: mask } : {}),
  };
  const bodies = requestBodies();
  const project = readProjectFiles(
    paths.length > 0 ? paths : [defaultPath()],
    source,
    (document) => checkDocument(document, bodies),
    (document) => secretPointers(document, bodies),
  );
  refuse(project.mistakes, options);
  return { ...project, name: (project.document as { project: string }).project };
}

type Document = Project["document"];

/** Number of monitors, channels, status pages and windows. */
export const objectCount = (document: Document): number =>
  sections.reduce((sum, section) => sum + Object.keys(Object(document[section])).length, 0);

/**
 * Requests that run the checks of monitors once, by their keys; all without `wanted`, but heartbeats, which only their
 * jobs report. Throws Failure for an unknown key, and where no check can be run.
 */
export function runsOf(document: Document, wanted: readonly string[] | undefined): { key: string; body: object }[] {
  const monitors = (document["monitors"] ?? {}) as Record<string, { check: { type: string } }>;
  const keys = wanted ?? Object.keys(monitors);
  for (const key of keys) if (!Object.hasOwn(monitors, key)) throw new Failure(`the files have no monitor ${key}.`);
  const probed = keys.filter((key) => isProbedType(monitors[key]!.check.type));
  if (probed.length === 0) throw new Failure("the files have no check that can be run.");
  return probed.map((key) => ({ key, body: checkOf(document, key) }));
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
