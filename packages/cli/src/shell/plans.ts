import { isObject } from "@statusmesh/shared/json";
import { pointerSegment } from "@statusmesh/shared/secrets";
import { paint, type Screen, tame, type Tone } from "@statusmesh/shared/shell/terminal";
import { counted } from "./output.ts";

/** The parts of a reply of `POST /config/plan` and `/config/apply` that are shown. */
export interface Plan {
  readonly plan_token: string;
  readonly summary: Readonly<Record<string, number>>;
  readonly changes: readonly Change[];
  readonly warnings: readonly string[];
}

interface Change {
  readonly kind: string;
  readonly key: string;
  readonly id: string | null;
  readonly action: string;
  readonly fields: readonly Field[];
  readonly drift: { readonly at: string; readonly by: { readonly type: string; readonly name: string | null } } | null;
}

interface Field {
  readonly path: string;
  readonly old: unknown;
  readonly new: unknown;
}

/** What an apply does; an orphan without prune is only listed. */
const actions: Readonly<Record<string, { sign: string; tone: Tone; done: string }>> = {
  create: { sign: "+", tone: "good", done: "created" },
  update: { sign: "~", tone: "warn", done: "updated" },
  move: { sign: ">", tone: "warn", done: "moved" },
  adopt: { sign: "&", tone: "warn", done: "adopted" },
  pause: { sign: "#", tone: "warn", done: "paused" },
  delete: { sign: "-", tone: "bad", done: "deleted" },
};

/** True when an apply would write something. */
export const hasDifferences = ({ summary }: Plan): boolean =>
  Object.keys(actions).some((action) => (summary[action] ?? 0) > 0);

/** A plan for a terminal, or for a log without colours. */
export function planText({ summary, changes, warnings }: Plan, screen: Screen): string {
  const lines = changes.flatMap((change) => {
    const { sign, tone } = actions[change.action] ?? { sign: "?", tone: "quiet" as const };
    const head = `${sign} ${change.action} ${change.kind} ${tame(change.key)}`;
    return [
      paint(head, tone, screen),
      ...change.fields
        .flatMap(leavesOf)
        .map(({ path, ...values }) => `    ${tame(path.slice(1))}: ${difference(change.action, values)}`),
      ...(change.drift === null ? [] : [paint(`    ${driftText(change.drift)}`, "warn", screen)]),
    ];
  });
  const notes = warnings.map((warning) => paint(`! ${tame(warning)}`, "warn", screen));
  return [...lines, ...notes, summaryText("Plan:", summary, (action) => `to ${action}`)]
    .map((line) => `${line}\n`)
    .join("");
}

/** `Applied: 1 created, 2 updated, 40 unchanged.` */
export const appliedText = ({ summary }: Plan): string =>
  `${summaryText("Applied:", summary, (action) => actions[action]!.done)}\n`;

function summaryText(start: string, summary: Plan["summary"], words: (action: string) => string): string {
  const parts = Object.keys(actions).flatMap((action) =>
    (summary[action] ?? 0) > 0 ? [`${summary[action]} ${words(action)}`] : [],
  );
  for (const rest of ["unchanged", "orphaned"]) if ((summary[rest] ?? 0) > 0) parts.push(`${summary[rest]} ${rest}`);
  return parts.length === 0 ? `${start} nothing.` : `${start} ${parts.join(", ")}.`;
}

/** A plan as Markdown, for the comment of a pull request. */
export function planMarkdown(plan: Plan): string {
  const { changes, warnings, summary } = plan;
  const rows = changes.map(
    ({ action, kind, key, fields, drift }) =>
      `| ${action} | ${kind} | ${cell(key)} | ${[
        ...fields
          .flatMap(leavesOf)
          .map(({ path, ...values }) => cell(`${path.slice(1)}: ${difference(action, values)}`)),
        ...(drift === null ? [] : [cell(driftText(drift))]),
      ].join("<br>")} |`,
  );
  const table = rows.length === 0 ? [] : ["", "| Action | Kind | Key | Fields |", "|---|---|---|---|", ...rows];
  const notes = warnings.length === 0 ? [] : ["", ...warnings.map((warning) => `- ${cell(warning)}`)];
  const title = hasDifferences(plan) ? counted(changes.length, "change") : "No changes";
  return ["### StatusMesh: ".concat(title), "", summaryText("Plan:", summary, (action) => `to ${action}`)]
    .concat(table, notes)
    .map((line) => `${line}\n`)
    .join("");
}

/** A new value as one line for each field of its maps; null fields are left out. */
function leavesOf(field: Field): Field[] {
  const { path, old, new: value } = field;
  if (old !== null || !isObject(value) || Object.keys(value).length === 0) return [field];
  return Object.entries(value).flatMap(([name, item]) =>
    item === null ? [] : leavesOf({ path: `${path}/${pointerSegment(name)}`, old, new: item }),
  );
}

function difference(action: string, { old, new: next }: { old: unknown; new: unknown }): string {
  return action === "create" ? shown(next) : `${shown(old)} -> ${shown(next)}`;
}

const shown = (value: unknown): string => {
  const text = tame(JSON.stringify(value) ?? "none");
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
};

const driftText = ({ at, by }: NonNullable<Change["drift"]>): string =>
  tame(`changed elsewhere at ${at} by ${by.name ?? by.type}`);

/** Text in a cell: names of customers are no markup. */
const cell = (text: string): string =>
  tame(text)
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(/[\\`*_{}[\]()#!|@~]/g, String.raw`\$&`);
