import { mailHtml, mailText, nameWithoutUrl } from "../../platform/email/layout.ts";
import * as format from "../../platform/html/format.ts";
import type { UptimeRow } from "./schema.ts";
import { gapsOf } from "./words.ts";

/** Rows of a report about the organisation that a mail lists. */
const shownRows = 20;

// Created on first use: it takes up to 50 ms at the start of the program.
let monthName: Intl.DateTimeFormat | null = null;

/** What a mail is about: the sums of a status page or tag, or the rows of the monitors. */
export interface ReportedMonth {
  /** Name of the status page, tag or organisation. */
  about: { kind: "page" | "tag" | "organisation"; name: string };
  /** One row for a page or tag, none for a tag that no monitor has; for the organisation one per monitor. */
  rows: readonly UptimeRow[];
  /** First day of the month, `2026-10-01`. */
  month: string;
  timezone: string;
  /** The report on the console. */
  url: string;
}

/** The mail of a month: subject, text and HTML. */
export function monthlyMail({ about, rows, month, timezone, url }: ReportedMonth) {
  monthName ??= new Intl.DateTimeFormat("en", { month: "long", year: "numeric", timeZone: "UTC" });
  const span = monthName.format(new Date(month));
  const { kind, name } = about;
  const title = { page: `the status page ${name}`, tag: `the tag ${name}`, organisation: name }[kind];
  const fallback = { page: "a status page", tag: "a tag", organisation: "your organisation" }[kind];
  const body = kind === "organisation" ? listOf(rows) : sumsOf(rows[0], timezone);
  const words = {
    tone: "plain" as const,
    title: `Uptime of ${title} in ${span}`,
    paragraphs: [
      ...body.paragraphs,
      `Days in ${timezone}. Maintenance is not downtime. A gap is a time without checks.` +
        (kind === "page" ? " Components without a monitor are not included." : ""),
    ],
    facts: body.facts,
    link: { label: "Open the report", url },
    footer: "StatusMesh sends this report every month because this address is one of its recipients.",
  };
  const inSubject = nameWithoutUrl(name, fallback);
  return {
    subject: `Uptime in ${span}: ${inSubject}`,
    text: mailText(words),
    html: mailHtml(words),
  };
}

const percentOf = ({ uptime_pct: pct }: UptimeRow): string => (pct === null ? "Not measured" : `${pct} %`);

function sumsOf(row: UptimeRow | undefined, timezone: string) {
  if (row === undefined) return { paragraphs: ["No monitor has this tag any more."], facts: [] };
  const gaps = gapsOf(row, timezone);
  const more = gaps.more === 0 ? [] : [`${format.number(gaps.more)} more`];
  return {
    paragraphs: [],
    facts: [
      { label: "Uptime", value: percentOf(row) },
      { label: "Downtime", value: row.downtime_secs === null ? "Not measured" : format.duration(row.downtime_secs) },
      { label: "Incidents", value: format.number(row.incidents) },
      ...(row.mttr_secs === null ? [] : [{ label: "Mean time to resolve", value: format.duration(row.mttr_secs) }]),
      { label: "Maintenance", value: format.duration(row.maintenance_secs) },
      { label: "Checks", value: format.number(row.checks) },
      { label: "Gaps", value: gaps.shown.length === 0 ? "None" : [...gaps.shown, ...more].join("; ") },
    ],
  };
}

/** The least available monitors first; those that were not measured last. */
const byUptime = (a: UptimeRow, b: UptimeRow): number => (a.uptime_pct ?? 101) - (b.uptime_pct ?? 101);

/** The monitors of an organisation: the least available ones, and how many more there are. */
function listOf(rows: readonly UptimeRow[]) {
  if (rows.length === 0) return { paragraphs: ["There are no monitors."], facts: [] };
  const shown = rows.toSorted(byUptime).slice(0, shownRows);
  const hidden = rows.length - shown.length;
  return {
    paragraphs: [
      hidden === 0
        ? `${format.plural(rows.length, "monitor")}, the lowest uptime first.`
        : `${format.plural(rows.length, "monitor")}; these ${shownRows} have the lowest uptime.`,
    ],
    facts: shown.map((row) => ({ label: percentOf(row), value: lineOf(row) })),
  };
}

/** `Shop: 10 min of downtime, 2 incidents, 3 h without checks` */
function lineOf({ name, downtime_secs: down, incidents, gaps }: UptimeRow): string {
  const unchecked = gaps.reduce((sum, { from, to }) => sum + Date.parse(to) - Date.parse(from), 0) / 1000;
  const facts = [
    ...(down === null || down === 0 ? [] : [`${format.duration(down)} of downtime`]),
    ...(incidents === 0 ? [] : [format.plural(incidents, "incident")]),
    ...(unchecked === 0 ? [] : [`${format.duration(unchecked)} without checks`]),
  ];
  return facts.length === 0 ? name : `${name}: ${facts.join(", ")}`;
}
