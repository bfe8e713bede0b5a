import { parentPort, workerData } from "node:worker_threads";
import { folderOf, inOrder, sections } from "@statusmesh/shared/declared/files";
import { namedFiles, type OwnFile, refuseFiles } from "@statusmesh/shared/declared/named-files";
import type { Mistake } from "@statusmesh/shared/declared/position";
import { type ApiFault, type CheckDocument, mistakesOf, readProjectFiles } from "@statusmesh/shared/declared/project";
import { refuseSettings } from "@statusmesh/shared/declared/variables";

/*
 * A thread that reads the files of declared.path: a large one would hold the event loop for seconds. It stays until
 * the apply is over, because it knows where each part of the document stands.
 */

export interface FileJob {
  readonly path: string;
  /** Of files that name none; else theirs has to be the same. */
  readonly project: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Files and folders of the server itself. */
  readonly refused: readonly OwnFile[];
}

/** What a thread sends first, and then for each list of faults that it gets. */
export interface FilesRead {
  readonly mistakes: readonly Mistake[];
  /** The body of a plan request as JSON, without mistakes. */
  readonly body: Uint8Array | null;
}

/** A folder of its own: `/run/secrets` has those of the server, and of Kubernetes. */
const secretsFolder = "/run/secrets/declared";
const { path, project, env, refused } = workerData as FileJob;

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

const source = {
  env,
  refuse: refuseSettings("the server"),
  refuseFile: refuseFiles(refused),
  readFile: namedFiles({ folders: [folderOf(path), secretsFolder], refused }),
};
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
    : new TextEncoder().encode(
        JSON.stringify({ project: document["project"] ?? project, document: read.fields.marked(document) }),
      ),
);
