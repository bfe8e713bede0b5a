import { existsSync } from "node:fs";
import { isProbedType } from "@statusmesh/shared/checks";
import { checkDocument, checkOf, secretPointers } from "@statusmesh/shared/declared/check";
import { folderOf, inOrder, sections } from "@statusmesh/shared/declared/files";
import { namedFiles, type OwnFile, refuseFiles } from "@statusmesh/shared/declared/named-files";
import { type Mistake, mistakeLine } from "@statusmesh/shared/declared/position";
import { mistakesOf, type ReadProject, readProjectFiles } from "@statusmesh/shared/declared/project";
import { refuseSettings } from "@statusmesh/shared/declared/variables";
import { variablesText } from "@statusmesh/shared/declared/withheld";
import type { Json } from "@statusmesh/shared/json";
import { mask, pointerSegment } from "@statusmesh/shared/secrets";
import { tame } from "@statusmesh/shared/shell/terminal";
import { requestBodies } from "../package.ts";
import { storePath } from "./connection.ts";
import { counted, Failure, printJson, type Refused } from "./output.ts";
import type { ProjectOptions } from "./options.ts";

/** The files of a project without mistakes. */
export interface Project extends ReadProject {
  readonly name: string;
}

/** Reads the files. Prints every mistake and throws Failure when there is one. */
export function readProject(paths: readonly string[], options: ProjectOptions): Project {
  const named = paths.length > 0 ? paths : [defaultPath()];
  const refused = ownFiles();
  const source = {
    env: process.env,
    refuse: refuseSettings("smctl"),
    refuseFile: refuseFiles(refused),
    readFile: namedFiles({
      folders: [...new Set(named.map(folderOf)), ...(options.allowFile ?? [])],
      hint: " Allow its folder with --allow-file.",
      refused,
    }),
    ...(options.keepSecrets === true ? { unset: mask } : {}),
  };
  const bodies = requestBodies();
  const project = readProjectFiles(
    named,
    source,
    (document) => checkDocument(document, bodies),
    (document) => secretPointers(document, bodies),
  );
  refuse(project.mistakes, options);
  return { ...project, name: (project.document as { project: string }).project };
}

/** The token of the next request is no text for files. */
function ownFiles(): OwnFile[] {
  const file = process.env["SM_TOKEN_FILE"];
  return [
    ...(file ? [{ path: file, why: "It has the token of smctl: SM_TOKEN_FILE names it." }] : []),
    { path: storePath(), why: "It has the token of smctl: smctl login wrote it." },
  ];
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

/**
 * What may be shown about a run of a monitor's check. A target or a message can quote what variables gave to fields
 * that are no secrets, so that texts are not shown where there are some.
 */
export function shownOf(project: Project, key: string) {
  const check = `/monitors/${pointerSegment(key)}/check`;
  const names = project.openFields().namesAt(check);
  const notShown = `not shown, because it may quote ${variablesText(names)}`;
  const shown = (name: string, value: unknown): unknown => {
    if (typeof value !== "object" || value === null)
      return typeof value === "string" && !["status", "region", "timestamp"].includes(name) ? notShown : value;
    return name === "result" ? mapped(value as Json) : null;
  };
  const mapped = (value: Json): Json =>
    Object.fromEntries(Object.entries(value).map(([name, item]) => [name, shown(name, item)]));
  return {
    reply: (reply: Json): Json => (names.length === 0 ? reply : mapped(reply)),
    refusal({ code, message, faults: [fault] }: Refused): string {
      if (fault?.field == null) return project.redact(message);
      const field = `/document${check}/${fault.field.replace(/^\//, "")}`;
      return mistakesOf([{ code, message, field }], project)[0]!.message;
    },
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

function defaultPath(): string {
  for (const path of ["statusmesh.yaml", "statusmesh"]) if (existsSync(path)) return path;
  throw new Failure("there is neither statusmesh.yaml nor statusmesh/ here. Name the files.");
}
