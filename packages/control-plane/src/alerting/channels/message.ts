import { errorInWords } from "@statusmesh/shared/checks";
import { duration } from "../../platform/html/format.ts";
import type { Severity } from "@statusmesh/shared/severity";
import { minuteIn } from "../../platform/zoned.ts";

export const reasons = [
  "opened",
  "reminder",
  "unacknowledged",
  "escalated",
  "reopened",
  "acknowledged",
  "resolved",
] as const;
export type Reason = (typeof reasons)[number];

/** The content of a notification. Stored with the delivery as it was then; every channel kind renders from it. */
export interface Notice {
  incident_id: string;
  target_id: string;
  monitor_name: string;
  reason: Reason;
  severity: Severity;
  /** High for major and critical. */
  urgency: "high" | "low";
  /** RFC 3339. */
  started_at: string;
  ended_at: string | null;
  /** Start of the current outage, later than the start where it has reopened; null when closed. */
  outage_since: string | null;
  /** Seconds of outage, without the time between an end and a reopening; null while open. */
  duration_secs: number | null;
  /** In words, for people. */
  error_sample: string | null;
  regions_down: string[];
  regions_up: string[];
  /** The incident in the console. */
  url: string;
  /** Level of the escalation ladder, from 1; of reason unacknowledged. */
  level?: number;
  /** The page that acknowledges the incident for this channel. Set when it is sent, null for a recovery. */
  acknowledge_url?: string | null;
  /** Who has acknowledged the incident, in words, and when. Set when it is sent; null while nobody has. */
  acknowledged_by?: string | null;
  /** Monitors that depend on this one; of its openings. */
  affected?: number;
  /** Openings of those that are held; of reminders and recoveries. */
  held?: number;
  /** That the monitor flaps from now on, a change of it that other channels do not get, or how it ended. */
  flap?: "begins" | "held" | "down" | "stable";
  /** Names of its regions by id. Set when it is sent; a region without one has its id. */
  region_names?: Readonly<Record<string, string>>;
  /** While it flaps: since when, RFC 3339, and the number of changes. */
  flapping_since?: string;
  changes?: number;
}

/** What a message or a line of it says first. `brief`: opened and ended before the channel was told. */
export type Said = Exclude<Reason, "reopened" | "acknowledged"> | "brief";

/** Incidents of one cause, in one message. */
export interface RoundLine {
  /** Null for a single incident. A region by its name. */
  cause: { kind: "host" | "tag" | "error" | "region"; value: string } | null;
  severity: Severity;
  said: Said;
  /** Open incidents that the message is about, and all open ones of the cause that the channel was told of. */
  fresh: number;
  open: number;
  recovered: number;
  brief: number;
  /** Level of the escalation ladder, from 1. */
  level: number | null;
  /** Start of the oldest open outage, RFC 3339. */
  since: string | null;
  /** Start and end of those that are over. */
  began_at: string | null;
  ended_at: string | null;
  /** The most frequent error, and whether it is that of all. */
  error: string | null;
  same_error: boolean;
  /** At most five monitors of the message, the worst first; and of those that are brief. */
  names: readonly string[];
  brief_names: readonly string[];
}

/** Everything that a channel is told at one moment, in one message. */
export interface Round {
  said: Said;
  severity: Severity;
  fresh: number;
  recovered: number;
  brief: number;
  /** Lines, those that are not shown included. */
  causes: number;
  /** The most severe first, then the largest. */
  lines: readonly RoundLine[];
  /** The list of incidents in the console. */
  url: string;
  /** As in a {@link Notice}. */
  acknowledge_url?: string | null;
}

/** What a mail of a channel needs besides its text. */
export interface MailThread {
  /** Host of the control plane, for ids. */
  host: string;
  /** Ids of the earlier mails about its incidents, oldest first, without the host. */
  earlier: readonly string[];
}

/** What an alert at a pager does next. */
export type AlertEvent = "trigger" | "update" | "acknowledge" | "resolve";

/** The alert that the incidents of a message share at a pager. */
export interface Alert {
  key: string;
  events: readonly AlertEvent[];
}

/** Incidents of one cause, for receivers that group notices themselves. */
export interface Group {
  /** The id of the first incident. */
  key: string;
  /** Null while it has one incident. */
  cause: { kind: "host" | "tag"; value: string } | null;
  /** Open incidents of the group that the channel was told of. */
  open: number;
}

/** Content of a message. `test` is a test message, `reply` answers a message of a person. */
export type Content = (
  | { kind: "notice"; notice: Notice }
  | { kind: "round"; round: Round }
  | { kind: "test"; notice: Notice }
  | { kind: "reply"; text: string }
) & {
  /** Time zone of the organisation, in which people read times; UTC when left out. */
  zone?: string;
  /** For pagers. */
  alert?: Alert;
  /** For webhooks. */
  group?: Group;
};

/** Content about one incident. */
export type SingleContent = Exclude<Content, { kind: "round" } | { kind: "reply" }>;

/** The content of a kind that never has rounds. */
export function single(content: Content): SingleContent {
  if (content.kind === "round" || content.kind === "reply")
    throw new Error("this kind of channel takes one notice at a time");
  return content;
}

/** State that decides colours, icons and priorities. */
export type Tone = "down" | "degraded" | "up" | "test";

const toneIcon: Readonly<Record<Tone, string>> = { down: "🔴", degraded: "🟠", up: "🟢", test: "🔵" };

/** A message in words that every kind formats in its vendor's way. All texts are plain: see {@link plain}. */
export interface MessageText {
  tone: Tone;
  /** True for an opened, reopened or escalated incident of high urgency. */
  urgent: boolean;
  /** One line: `Down: Checkout API`. */
  title: string;
  /** `Cause`, `Since` and the like, in reading order. */
  facts: { label: string; value: string }[];
  url: string;
  /** The page that acknowledges; null where there is nothing to acknowledge. */
  acknowledgeUrl: string | null;
  /** Text of the link: `View incident`. */
  linkLabel: string;
}

export const maxNameLength = 200;
const maxCauseLength = 500;

/**
 * Text of customers on one line of at most `maxLength` characters: white space collapsed, without control, format and
 * bidirectional characters (Unicode category C). A kind then escapes the markup of its vendor.
 */
export function plain(text: string, maxLength: number): string {
  const line = text
    .toWellFormed()
    .replaceAll(/\s+/gu, " ")
    // U+200D joins emoji and is harmless between them.
    .replaceAll(/[^\P{C}\u200d]/gu, "")
    .trim();
  return shorten(line, maxLength);
}

/** The text, or its beginning with `…` at the end. Counts code points, and never splits one. */
function shorten(text: string, maxLength: number): string {
  const points = [...text];
  return points.length <= maxLength ? text : `${points.slice(0, maxLength - 1).join("")}…`;
}

export function messageText(content: Content): MessageText {
  const { zone = "UTC" } = content;
  if (content.kind === "round") return roundText(content.round, zone);
  if (content.kind === "reply")
    return { tone: "up", urgent: false, title: content.text, facts: [], url: "", acknowledgeUrl: null, linkLabel: "" };
  if (content.kind === "test")
    return {
      tone: "test",
      urgent: false,
      title: "Test message from StatusMesh",
      facts: [{ label: "Result", value: "This channel receives notifications." }],
      url: content.notice.url,
      acknowledgeUrl: null,
      linkLabel: "Open StatusMesh",
    };
  return noticeText(content.notice, zone);
}

/** Title and facts as lines, with a line break at the end: what a kind escapes before its {@link linkLines}. */
export const headLines = ({ title, facts }: MessageText): string => [title, ...facts.map(factLine), ""].join("\n");

/** The links as lines: the one that acknowledges, then the incident. `shown` writes a URL in the vendor's way. */
export function linkLines({ url, acknowledgeUrl }: MessageText, shown = (link: string): string => link): string {
  return [...(acknowledgeUrl === null ? [] : [`Acknowledge: ${shown(acknowledgeUrl)}`]), shown(url)].join("\n");
}

/** The message with the icon of its tone in front of the title. */
export const withIcon = (message: MessageText): MessageText => ({
  ...message,
  title: `${toneIcon[message.tone]} ${message.title}`,
});

/**
 * Renders title with icon, facts and links, for {@link fitted}. `escaped` escapes the markup of the vendor, `shown`
 * writes a URL in its way.
 */
export const chatText = (escaped: (text: string) => string, shown?: (link: string) => string) => (part: MessageText) =>
  `${toneIcon[part.tone]} ${escaped(headLines(part))}${linkLines(part, shown)}`;

/** The message as lines of text, for kinds without markup: title, facts, links. */
export const textLines = (message: MessageText): string => headLines(message) + linkLines(message);

/** The facts as lines of text, for kinds that show the title and the links apart. */
export const factLines = ({ facts }: MessageText): string => facts.map(factLine).join("\n");

export const factLine = ({ label, value }: MessageText["facts"][number]): string => `${label}: ${value}`;

/** The token of the link that acknowledges, for buttons; null without one. */
export const acknowledgeTokenIn = ({ acknowledgeUrl }: Pick<MessageText, "acknowledgeUrl">): string | null =>
  acknowledgeUrl?.split("/").at(-1) ?? null;

/** {@link factLines} and the link that acknowledges, for kinds that show the title and one link apart. */
export const factsAndAcknowledge = (message: MessageText): string =>
  message.acknowledgeUrl === null
    ? factLines(message)
    : `${factLines(message)}\nAcknowledge: ${message.acknowledgeUrl}`;

/** Lengths of fact values that {@link fitted} tries, in code points. */
const fittingLengths = [240, 120, 60, 30, 15];

/**
 * The rendered message, with values shortened until it is at most `most` long, in the last resort without facts.
 * Vendors count their limit after escaping, in the unit of `lengthOf`: UTF-16 units where it is left out.
 */
export function fitted(
  message: MessageText,
  render: (message: MessageText) => string,
  most: number,
  lengthOf: (rendered: string) => number = (rendered) => rendered.length,
): string {
  const whole = render(message);
  if (lengthOf(whole) <= most) return whole;
  for (const length of fittingLengths) {
    const facts = message.facts.map(({ label, value }) => ({
      label: shorten(label, 2 * length),
      value: shorten(value, length),
    }));
    const rendered = render({ ...message, title: shorten(message.title, Math.max(60, length)), facts });
    if (lengthOf(rendered) <= most) return rendered;
  }
  return render({ ...message, title: shorten(message.title, 60), facts: [] });
}

function noticeText(notice: Notice, zone: string): MessageText {
  const name = plain(notice.monitor_name, maxNameLength);
  const resolved = notice.reason === "resolved";
  const facts: MessageText["facts"] = [];
  if (notice.error_sample !== null)
    facts.push({ label: resolved ? "Was" : "Cause", value: plain(notice.error_sample, maxCauseLength) });
  facts.push({ label: "Since", value: minuteIn(notice.outage_since ?? notice.started_at, zone) });
  if (notice.flap === "begins")
    facts.push({
      label: "Flapping",
      value: `${notice.changes} changes, further ones are held until it is stable or stays down`,
    });
  if (resolved && notice.ended_at !== null)
    facts.push({ label: "Ended", value: `${minuteIn(notice.ended_at, zone)}, ${lengthOf(notice)}` });
  if (!resolved) facts.push({ label: "Severity", value: notice.severity });
  if (notice.affected !== undefined)
    facts.push({ label: "Affected", value: count(notice.affected, "dependent monitor") });
  if (notice.held !== undefined) facts.push({ label: "Held", value: `openings of ${count(notice.held, "monitor")}` });
  if (notice.level !== undefined) facts.push({ label: "Escalation", value: `level ${notice.level}` });
  if (notice.regions_down.length > 0)
    facts.push({
      label: resolved ? "Regions affected" : "Regions down",
      value: regionList(notice, notice.regions_down),
    });
  if (!resolved && notice.regions_up.length > 0)
    facts.push({ label: "Regions up", value: regionList(notice, notice.regions_up) });
  if (notice.acknowledged_by != null)
    facts.push({ label: "Acknowledged", value: plain(notice.acknowledged_by, maxNameLength) });
  return {
    tone: resolved ? "up" : notice.severity === "minor" ? "degraded" : "down",
    urgent: notice.urgency === "high" && !resolved && notice.reason !== "reminder",
    title: `${headline(notice, zone)}: ${name}`,
    facts,
    url: notice.url,
    acknowledgeUrl: notice.acknowledge_url ?? null,
    linkLabel: "View incident",
  };
}

/** Length of a resolved incident: the time between an end and a reopening was no outage. */
function lengthOf({ started_at, ended_at, duration_secs }: Notice): string {
  const span = Math.round((Date.parse(ended_at!) - Date.parse(started_at)) / 1000);
  const failed = duration_secs ?? span;
  return failed < span ? `${duration(failed)} of outage` : `after ${duration(failed)}`;
}

function headline({ reason, severity, ...notice }: Notice, zone: string): string {
  const state = severity === "minor" ? "degraded" : "down";
  if (notice.flap === "begins") return "Flapping";
  if (notice.flap === "stable") return "Stable: up";
  if (notice.flap === "down")
    return `${capital(state)} since ${minuteIn(notice.outage_since ?? notice.started_at, zone)}, was flapping`;
  if (reason === "resolved") return "Recovered";
  if (reason === "reminder") return `Still ${state}`;
  if (reason === "unacknowledged") return `${capital(state)}, not acknowledged`;
  if (reason === "reopened") return `${capital(state)} again`;
  if (reason === "escalated") return `Escalated to ${severity}`;
  return capital(state);
}

const count = (number: number, one: string): string => `${number} ${one}${number === 1 ? "" : "s"}`;

/** What a subject says first. */
function stateOf({ said, severity, level }: RoundLine): string {
  const down = severity === "minor" ? "degraded" : severity === "critical" ? "critical" : "down";
  if (said === "unacknowledged")
    return `${capital(down)}, not acknowledged${level === null ? "" : ` (level ${level})`}`;
  if (said === "reminder") return `Still ${down}`;
  if (said === "escalated") return `Escalated to ${severity}`;
  return said === "resolved" ? "Recovered" : said === "brief" ? "Opened and ended" : capital(down);
}

/** `12 monitors on gw-1.acme.internal`; of an error or a region also the worst one, because others may share it. */
function subjectOf({ cause, fresh, recovered, brief, names, brief_names }: RoundLine): string {
  const size = fresh || recovered || brief;
  const first = plain((fresh + recovered > 0 ? names : brief_names)[0] ?? "", maxNameLength);
  if (size === 1 || cause === null) return first;
  const isShared = cause.kind === "host" || cause.kind === "tag";
  return `${isShared ? `${size} monitors` : `${first} and ${size - 1} more`} ${causeWords(cause)}`;
}

function causeWords({ kind, value }: NonNullable<RoundLine["cause"]>): string {
  const text = plain(value, maxNameLength);
  return { host: `on ${text}`, tag: `with tag ${text}`, error: `with ${text}`, region: `in ${text}` }[kind];
}

/** `12 down, 11 new, since 14:02 UTC, connection refused: a, b, c and 9 more`. */
function lineText(line: RoundLine, zone: string): string {
  const { fresh, open, recovered, said, severity, since, error, names } = line;
  const state = severity === "minor" ? "degraded" : "down";
  const isNew = said === "opened" || said === "escalated";
  const over = recovered > 0 ? [`${recovered === 1 && open === 0 ? "" : `${recovered} `}recovered`] : [];
  const parts =
    open === 0
      ? over
      : [line.cause === null ? state : `${open} ${state}`, ...(isNew && fresh < open ? [`${fresh} new`] : []), ...over];
  if (open > 0 && since !== null) parts.push(`since ${minuteIn(since, zone)}`);
  if (open === 0 && line.ended_at !== null)
    parts.push(`${minuteIn(line.began_at!, zone)} to ${minuteIn(line.ended_at, zone)}`);
  if (fresh > 0 && error !== null) parts.push(`${line.same_error ? "" : "mostly "}${plain(errorInWords(error), 120)}`);
  if (line.cause === null) return parts.join(", ");
  return `${parts.join(", ")}: ${named(names, fresh + recovered)}`;
}

/** `a, b and 3 more` */
function named(names: readonly string[], total: number): string {
  const shown = names.map((name) => plain(name, 80)).join(", ");
  return total > names.length ? `${shown} and ${total - names.length} more` : shown;
}

function roundText(round: Round, zone: string): MessageText {
  const { lines, causes, brief, said, severity } = round;
  const shown = lines.filter(({ fresh, recovered }) => fresh + recovered > 0);
  const facts = shown.map((line) => ({
    label: line.cause === null ? plain(line.names[0] ?? "", maxNameLength) : plain(line.cause.value, maxNameLength),
    value: lineText(line, zone),
  }));
  const told = lines.reduce((sum, { fresh, recovered }) => sum + fresh + recovered, 0);
  const rest = round.fresh + round.recovered - told;
  if (rest > 0)
    facts.push({ label: "More", value: `${count(rest, "monitor")} of ${count(causes - lines.length, "other cause")}` });
  if (brief > 0) {
    const names = lines.flatMap(({ brief_names }) => brief_names).slice(0, 5);
    const times = lines.filter((line) => line.brief > 0 && line.ended_at !== null);
    const from = times.map(({ began_at }) => began_at!).toSorted()[0];
    const to = times
      .map(({ ended_at }) => ended_at!)
      .toSorted()
      .at(-1);
    const span = from === undefined ? "" : `, ${minuteIn(from, zone)} to ${minuteIn(to!, zone)}`;
    facts.push({ label: "Opened and ended", value: `${count(brief, "incident")}${span}: ${named(names, brief)}` });
  }
  const isOpen = round.fresh > 0;
  const [first] = lines;
  const more = shown.length === 0 ? 0 : causes - 1 - lines.filter((line) => line.fresh + line.recovered === 0).length;
  const title =
    first === undefined
      ? "Nothing is open"
      : shown.length === 0
        ? `Opened and ended: ${brief === 1 ? subjectOf(first) : count(brief, "incident")}`
        : `${stateOf(first)}: ${subjectOf(first)}${more > 0 ? `, ${count(more, "more cause")}` : ""}`;
  return {
    tone: !isOpen ? "up" : severity === "minor" ? "degraded" : "down",
    urgent: isOpen && severity !== "minor" && said !== "reminder",
    title,
    facts,
    url: round.url,
    acknowledgeUrl: isOpen ? (round.acknowledge_url ?? null) : null,
    linkLabel: "View incidents",
  };
}

function regionList({ region_names: names }: Notice, regions: readonly string[]): string {
  const shown = regions.slice(0, 10).map((region) => plain(names?.[region] ?? region, 80));
  return regions.length > 10 ? `${shown.join(", ")} and ${regions.length - 10} more` : shown.join(", ");
}

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);
