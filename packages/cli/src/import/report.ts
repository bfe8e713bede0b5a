import { type Item, type Weight, weights } from "@statusmesh/shared/foreign/item";

interface Listed {
  readonly kind: string;
  readonly name: string;
  readonly key?: string;
}

interface Group {
  readonly reason: string;
  readonly weight: Weight;
  readonly items: readonly Listed[];
}

/** What became of everything. An item with several reasons is in several groups and counts once. */
export interface Report {
  readonly source: string;
  readonly project: string;
  readonly counts: Readonly<Record<"carried_over" | "carried_over_differently" | "not_carried_over", number>>;
  readonly not_carried_over: readonly Group[];
  readonly carried_over_differently: readonly Group[];
  readonly carried_over: readonly Listed[];
}

export function reportOf(source: string, project: string, items: readonly Item[]): Report {
  const refused = items.filter((item) => item.isRefused);
  const different = items.filter((item) => !item.isRefused && item.notes.length > 0);
  const same = items.filter((item) => !item.isRefused && item.notes.length === 0);
  return {
    source,
    project,
    counts: {
      carried_over: same.length,
      carried_over_differently: different.length,
      not_carried_over: refused.length,
    },
    not_carried_over: groupsOf(refused),
    carried_over_differently: groupsOf(different),
    carried_over: same.map(listed),
  };
}

const listed = ({ kind, name, key }: Item): Listed => ({ kind, name, ...(key === null ? {} : { key }) });

/** By reason: the heaviest first, then the most frequent. */
function groupsOf(items: readonly Item[]): Group[] {
  const groups = new Map<string, { reason: string; weight: Weight; items: Listed[] }>();
  for (const item of items)
    for (const { reason, weight } of item.notes) {
      const group = groups.get(reason) ?? { reason, weight, items: [] };
      group.items.push(listed(item));
      groups.set(reason, group);
    }
  return [...groups.values()].sort(
    (a, b) =>
      weights.indexOf(a.weight) - weights.indexOf(b.weight) ||
      b.items.length - a.items.length ||
      (a.reason < b.reason ? -1 : 1),
  );
}

const titles = {
  not_carried_over: "Not carried over",
  carried_over_differently: "Carried over differently",
  carried_over: "Carried over",
} as const;

const headings: Readonly<Record<Weight, string>> = {
  silent: "Act on these first: nobody is alerted, or the apply is refused",
  behaviour: "Behaves differently",
  detail: "Details",
};

/** The report as Markdown, the most important first. */
export function reportMarkdown(report: Report): string {
  const { counts } = report;
  const parts = [`# Import from ${report.source}\n`, `${summaryOf(report)}\n`, `${projectOf(report)}\n`];
  for (const section of ["not_carried_over", "carried_over_differently"] as const) {
    parts.push(`## ${titles[section]}: ${counts[section]}\n`);
    for (const weight of weights) {
      const groups = report[section].filter((group) => group.weight === weight);
      if (groups.length === 0) continue;
      parts.push(`### ${headings[weight]}\n`);
      parts.push(
        groups.map(({ reason, items }) => `- **${escaped(reason)}** (${items.length}): ${namesOf(items)}\n`).join(""),
      );
    }
  }
  parts.push(`## ${titles.carried_over}: ${counts.carried_over}\n`);
  for (const kind of new Set(report.carried_over.map((item) => item.kind))) {
    const items = report.carried_over.filter((item) => item.kind === kind);
    parts.push(`- ${kind} (${items.length}): ${items.map(({ name }) => escaped(name)).join(", ")}`);
  }
  return `${parts.join("\n").trimEnd()}\n`;
}

/** `3 carried over, 1 differently, 2 not.` */
export function summaryOf({ counts }: Report): string {
  const { carried_over: same, carried_over_differently: different, not_carried_over: refused } = counts;
  return `${same} carried over, ${different} carried over differently, ${refused} not carried over.`;
}

/** Two files of one project overwrite and orphan each other's objects. */
export const projectOf = ({ source, project }: Report): string =>
  `The project is ${project}. Import a second installation of ${source} with another one: --project ${project}-2`;

const namesOf = (items: readonly Listed[]): string =>
  items.map(({ kind, name }) => `${escaped(name)}${kind === "monitor" ? "" : ` (${kind})`}`).join(", ");

/** Names come from another product: without markup and line breaks. */
const escaped = (text: string): string =>
  text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, " ").replaceAll(/[\\`*[\]<>#|&~]|_(?=\W|$)|(?<=^|\W)_/g, "\\$&");
