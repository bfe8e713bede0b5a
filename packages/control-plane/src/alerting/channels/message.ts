import { duration } from "../../platform/html/format.ts";
import type { Severity } from "../../platform/db/severity.ts";
import { minuteIn } from "../../platform/zoned.ts";

export const reasons = ["opened", "reminder", "unacknowledged", "escalated", "reopened", "resolved"] as const;
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
  /** While it flaps: since when, RFC 3339, and the number of changes. */
  flapping_since?: string;
  changes?: number;
}

/** Incidents that opened or closed together, in one message instead of one each. */
export interface Digest {
  reason: "opened" | "resolved" | "unacknowledged";
  /** Incidents in all groups. */
  total: number;
  /** Largest first. `cause` is the destination host or else the tag that the monitors share; null for none. */
  groups: readonly { cause: string | null; total: number; worst: Notice }[];
  /** The list of incidents in the console. */
  url: string;
}

/** What became of incidents outside the active hours of a channel, in one message when they begin. */
export interface HeldDigest {
  reason: "held";
  total: number;
  /** Those that are open still. */
  open: number;
  /** The first ones: those that are open, the worst first, then those that ended, the last first. */
  notices: readonly Notice[];
  /** The list of incidents in the console. */
  url: string;
}

/** Content of a message. `test` is a test message. */
export type Content = (
  | { kind: "notice"; notice: Notice }
  | { kind: "digest"; digest: Digest | HeldDigest }
  | { kind: "test"; notice: Notice }
) & {
  /** Time zone of the organisation, in which people read times; UTC when left out. */
  zone?: string;
};

/** Content about one incident. */
export type SingleContent = Exclude<Content, { kind: "digest" }>;

/** The content of a kind whose `digests` is false, so that none comes to it. */
export function single(content: Content): SingleContent {
  if (content.kind === "digest") throw new Error("this kind of channel takes no digest");
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
const maxGroups = 10;

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
  if (content.kind === "digest") return digestText(content.digest, zone);
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
    facts.push({ label: resolved ? "Regions affected" : "Regions down", value: regionList(notice.regions_down) });
  if (!resolved && notice.regions_up.length > 0)
    facts.push({ label: "Regions up", value: regionList(notice.regions_up) });
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

function heldText({ total, open, notices, url }: HeldDigest, zone: string): MessageText {
  const facts = notices.map((notice) => {
    const name = nameAndError(notice);
    const from = minuteIn(notice.started_at, zone);
    if (notice.ended_at === null) return { label: headline(notice, zone), value: `${name}, since ${from}` };
    const label = notice.reason === "resolved" ? "Recovered" : "Opened and closed";
    return { label, value: `${name}, ${from} to ${minuteIn(notice.ended_at, zone)}, ${lengthOf(notice)}` };
  });
  if (total > notices.length) facts.push({ label: "More", value: count(total - notices.length, "incident") });
  const shown = notices.filter(({ ended_at }) => ended_at === null);
  return {
    tone: open === 0 ? "up" : shown.some(({ severity }) => severity !== "minor") ? "down" : "degraded",
    urgent: shown.some(({ urgency }) => urgency === "high"),
    title: `${count(total, "incident")} outside the active hours, ${open === 0 ? "all closed" : `${open} still open`}`,
    facts,
    url,
    acknowledgeUrl: null,
    linkLabel: "View incidents",
  };
}

/** `Checkout API (connection refused)`. */
const nameAndError = ({ monitor_name: name, error_sample: error }: Notice): string =>
  plain(name, 80) + (error === null ? "" : ` (${plain(error, 120)})`);

const count = (number: number, one: string): string => `${number} ${one}${number === 1 ? "" : "s"}`;

function digestText(digest: Digest | HeldDigest, zone: string): MessageText {
  if (digest.reason === "held") return heldText(digest, zone);
  const { reason, total, groups, url } = digest;
  const resolved = reason === "resolved";
  const shown = groups.slice(0, maxGroups);
  const facts = shown.map(({ cause, total: size, worst }) => ({
    label: cause === null ? "Others" : plain(cause, maxNameLength),
    value: `${count(size, "monitor")}, for example ${nameAndError(worst)}`,
  }));
  const rest = groups.slice(maxGroups).reduce((sum, group) => sum + group.total, 0);
  if (rest > 0) facts.push({ label: "More", value: `${rest} monitors in other groups` });
  const worst = groups.some((group) => group.worst.severity !== "minor");
  return {
    tone: resolved ? "up" : worst ? "down" : "degraded",
    urgent: !resolved && groups.some((group) => group.worst.urgency === "high"),
    title: `${total} monitors ${resolved ? "recovered" : worst ? "are down" : "are degraded"}${
      reason === "unacknowledged" ? ", not acknowledged" : ""
    }`,
    facts,
    url,
    acknowledgeUrl: null,
    linkLabel: "View incidents",
  };
}

function regionList(regions: readonly string[]): string {
  const shown = regions.slice(0, 10).map((region) => plain(region, 80));
  return regions.length > 10 ? `${shown.join(", ")} and ${regions.length - 10} more` : shown.join(", ");
}

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);
