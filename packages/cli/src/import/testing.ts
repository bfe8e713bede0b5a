import { checkDocument } from "@statusmesh/shared/declared/check";
import { fillVariables } from "@statusmesh/shared/declared/variables";
import { requestBodies } from "../package.ts";
import type { Imported } from "./draft.ts";

type Json = Record<string, unknown>;

/** The faults of what was made, its variables filled in: none, always. */
export function faultsOf({ document, env }: Imported): unknown[] {
  const at = { file: "x", line: 1, column: 1 };
  const source = { env: Object.fromEntries(env), readFile: () => "" };
  const { value, mistakes } = fillVariables(document, { at, children: new Map() }, source);
  return [...mistakes, ...checkDocument(value as Json, requestBodies())];
}

/** Everything that the report lists, each once. */
export const countOf = ({ report: { counts } }: Imported): number =>
  counts.carried_over + counts.carried_over_differently + counts.not_carried_over;

/** Objects of a section by key. */
export const objectsOf = ({ document }: Imported, section: string): Record<string, Json> =>
  (document[section] ?? {}) as Record<string, Json>;

/** Reasons that the report gives for the names. */
export const reasonsOf = ({ report }: Imported, name: string): string[] =>
  [...report.not_carried_over, ...report.carried_over_differently]
    .filter(({ items }) => items.some((item) => item.name === name))
    .map(({ reason }) => reason);
