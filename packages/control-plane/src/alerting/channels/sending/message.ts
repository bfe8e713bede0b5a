import { errorInWords } from "@statusmesh/shared/checks";
import { diagnosisClass, diagnosisLine, diagnosisOf } from "@statusmesh/shared/protocol/diagnosis";
import { duration } from "../../../platform/html/format.ts";
import { minuteIn } from "../../../platform/zoned.ts";
import type { Content, Notice, Round, RoundLine } from "./content.ts";
import { maxCauseLength, maxNameLength, type MessageText, plain } from "./message-text.ts";

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

function noticeText(notice: Notice, zone: string): MessageText {
  const name = plain(notice.monitor_name, maxNameLength);
  const resolved = notice.reason === "resolved";
  const facts: MessageText["facts"] = [];
  if (notice.error_sample !== null)
    facts.push({ label: resolved ? "Was" : "Cause", value: plain(notice.error_sample, maxCauseLength) });
  const diagnosis = resolved
    ? null
    : diagnosisOf(
        notice.diagnosis,
        notice.regions_down.map((id) => notice.region_names?.[id] ?? id),
      );
  if (diagnosis !== null) facts.push({ label: "Diagnosis", value: plain(diagnosisLine(diagnosis), maxCauseLength) });
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
  const text = plain(kind === "error" ? (diagnosisClass(value) ?? value) : value, maxNameLength);
  return { host: `on ${text}`, tag: `with tag ${text}`, error: `with ${text}`, region: `in ${text}` }[kind];
}

/** `12 down, 11 new, since 14:02 UTC, connection refused: a, b, c and 9 more`, with the remedy of a diagnosis. */
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
  const diagnosis = fresh > 0 && line.cause.kind === "error" ? diagnosisOf(line.cause.value) : null;
  const remedy = diagnosis === null ? "" : `. ${capital(diagnosis.remedy)}`;
  return `${parts.join(", ")}: ${named(names, fresh + recovered)}${remedy}`;
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
    label:
      line.cause === null
        ? plain(line.names[0] ?? "", maxNameLength)
        : plain(diagnosisClass(line.cause.value) ?? line.cause.value, maxNameLength),
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
