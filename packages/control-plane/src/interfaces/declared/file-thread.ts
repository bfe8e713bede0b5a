import { statSync } from "node:fs";
import { dirname } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { inOrder, namedFilesBelow, sections } from "@statusmesh/shared/declared/files";
import type { Mistake } from "@statusmesh/shared/declared/position";
import { type ApiFault, type CheckDocument, mistakesOf, readProjectFiles } from "@statusmesh/shared/declared/project";

/*
 * A thread that reads the files of declared.path: a large one would hold the event loop for seconds. It stays until
 * the apply is over, because it knows where each part of the document stands.
 */

export interface FileJob {
  readonly path: string;
  /** Of files that name none; else theirs has to be the same. */
  readonly project: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** What a thread sends first, and then for each list of faults that it gets. */
export interface FilesRead {
  readonly mistakes: readonly Mistake[];
  /** The body of a plan request as JSON, without mistakes. */
  readonly body: Uint8Array | null;
}

const secretsFolder = "/run/secrets";
const { path, project, env } = workerData as FileJob;

const refuse = (name: string): string | null =>
  name.toUpperCase().startsWith("SM_")
    ? `\${${name.slice(0, 60)}} is a setting of the server, which files cannot read.`
    : null;

function folderOf(file: string): string {
  return statSync(file, { throwIfNoEntry: false })?.isDirectory() === true ? file : dirname(file);
}

/** Rules of the place; those of the document are the server's. */
const check: CheckDocument = (document) => {
  const named = document["project"] ?? project;
  if (named === "") return [{ pointer: "/project", message: "project is missing, and so is declared.project." }];
  if (project !== "" && named !== project)
    return [
      { pointer: "/project", message: `The server takes files of the project ${project} only (declared.project).` },
    ];
  if (sections.some((section) => Object.keys(Object(document[section])).length > 0)) return [];
  return [{ pointer: "", message: "No object is declared. Unset declared.path and delete them where that is meant." }];
};

const source = { env, refuse, readFile: namedFilesBelow([folderOf(path), secretsFolder]) };
const read = readProjectFiles([path], source, check);
const { document, mistakes } = read;

const send = (found: readonly Mistake[], body: Uint8Array | null = null): void =>
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort!.postMessage(
    { mistakes: inOrder(found), body } satisfies FilesRead,
    body === null ? [] : [body.buffer as ArrayBuffer],
  );

parentPort!.on("message", (faults: readonly ApiFault[]) => send(mistakesOf(faults, read)));
send(
  mistakes,
  mistakes.length > 0
    ? null
    : new TextEncoder().encode(JSON.stringify({ project: document["project"] ?? project, document })),
);
