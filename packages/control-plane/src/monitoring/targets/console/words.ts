import { capSetting, circuitOpen, detailsOf, errorInWords, isGroup, kindOf } from "@statusmesh/shared/checks";
import type { SilentRegion } from "../../agents/service.ts";
import { commonError, causeName, namesOf } from "../../../alerting/causes/service.ts";
import { capital, list, number, plural } from "../../../platform/html/format.ts";
import type { Explanation } from "../../../alerting/incidents/schema.ts";
import type { RegionPolicy } from "../schema.ts";
import { ranks } from "../list/cause-queries.ts";
import { failingStates, type MonitorCause, type MonitorList, type MonitorRow, rankOf } from "../list/monitors.ts";

/** The states of a monitor in the console, worst first. */
export const shownStates = ["down", "error", "degraded", "unknown", "up", "paused"] as const;
export type ShownState = (typeof shownStates)[number];

/** How a monitor reads: paused hides whatever it was before. */
export const shownState = (row: Pick<MonitorRow, "paused" | "status">): ShownState =>
  row.paused ? "paused" : row.status;

/** True from its creation until its first result, unless nothing checks it. */
export const isWaiting = (
  row: Pick<MonitorRow, "target" | "paused" | "probed" | "status" | "last_result_at">,
): boolean =>
  !row.paused && row.probed && !isGroup(row.target.check) && row.status === "unknown" && row.last_result_at === null;

/** `in 2 of 3 regions`, or nothing for a monitor with one region. */
export function where(incident: { regions_down: readonly string[]; regions_up: readonly string[] } | null): string {
  if (incident === null) return "";
  const all = incident.regions_down.length + incident.regions_up.length;
  return all < 2 || incident.regions_down.length === 0 ? "" : `in ${incident.regions_down.length} of ${all} regions`;
}

/** The second line of a row: the error, else the subject of the check and its expiry, as of `now` (Unix ms). */
export function detail(row: MonitorRow, now: number): string {
  if (!row.paused && !row.probed) return "Not checked: the operator has disabled all of its regions";
  if (isGroup(row.target.check) && !row.paused) return groupDetail(row);
  const error = row.open_incident?.error_sample ?? row.last_error;
  if (row.paused || row.status === "up" || row.status === "unknown" || error === null) {
    const expiry = expiryWords(row, now);
    const summary = kindOf(row.target.check).summary(row.target.check);
    return expiry === null ? summary : `${summary} · ${expiry}`;
  }
  return capital([errorInWords(error), where(row.open_incident)].filter((part) => part !== "").join(" "));
}

/** `2 of 5 down: api-1, api-2`, or the members and the rule. */
function groupDetail({ target, members, status, last_error: error }: MonitorRow): string {
  if (error !== null && (status === "down" || status === "degraded")) return error;
  const summary = kindOf(target.check).summary(target.check);
  return members === null || members.down === 0 ? summary : `${members.down} of ${members.known} down · ${summary}`;
}

/** Why a monitor without data has none, when its runs are held back by the cap per host. */
export const throttledWords = (max: number): string =>
  `More checks of this host are due at once than ${capSetting} allows (${max}). Raise it, or choose longer intervals`;

/**
 * `Expires in 74 days, on 4 February 2027, issued by R11`, as of `now` (Unix ms); null for a monitor without details.
 */
export const expiryWords = (row: Pick<MonitorRow, "target" | "details">, now: number): string | null =>
  row.details === null ? null : (detailsOf(row.target.check.type)?.inWords(row.details, now) ?? null);

export type Counts = Record<ShownState, number>;

/** One sentence about all monitors, in the parts that a page marks up differently. */
export interface Overview {
  tone: ShownState;
  /** `Checkout API is down`. */
  lead: string;
  since: Date | null;
  /** ` in 2 of 3 regions: connection refused.` */
  rest: string;
  /** `1 monitor is degraded, 5 are up.`, or nothing. */
  others: string;
}

/** `db-1: 880 monitors are down`, `Tag payments: 44 of 67 monitors are down`: the members in the worst state. */
const causeLead = ({ cause, states, total, state }: MonitorCause): string => {
  const count = states[state];
  const share = total === null ? plural(count, "monitor") : `${number(count)} of ${plural(total, "monitor")}`;
  return `${causeName(cause)}: ${share} ${predicate(state, count)}`;
};

/** `, 1 is degraded`: the members of a cause in its other states; nothing where all are in the worst one. */
const causeOthers = ({ states, state }: MonitorCause): string =>
  failingStates
    .filter((other) => other !== state && states[other] > 0)
    .map((other) => `, ${number(states[other])} ${predicate(other, states[other])}`)
    .join("");

/** `1 down, 1 degraded`: the members of a cause by state, where they are in several; else null. */
export function statesInWords({ states }: MonitorCause): string | null {
  const found = failingStates.filter((state) => states[state] > 0);
  return found.length < 2 ? null : found.map((state) => `${number(states[state])} ${state}`).join(", ");
}

/** Input of the sentence on top: the first lines of the whole list, and the counts of all monitors. */
export type OverviewInput = Pick<MonitorList, "items" | "causes" | "grouped" | "counts">;

/** The sentence on top of the list: what fails and what does not, or that all are up. */
export function overview({ items, causes, grouped, counts }: OverviewInput): Overview {
  const total = shownStates.reduce((sum, state) => sum + counts[state], 0);
  const tone = shownStates.find((state) => counts[state] > 0) ?? "up";
  const [first] = items;
  const critical = first !== undefined && rankOf(first) === ranks.critical && (causes[0]?.rank ?? 1) > ranks.critical;
  if (critical) return criticalOverview(first, { items, causes, grouped, counts }, tone);
  if (causes.length > 0) return causesOverview({ items, causes, grouped, counts }, tone);
  if (tone === "paused")
    return {
      tone,
      lead: total === 1 ? "The only monitor is paused." : `All ${number(total)} monitors are paused.`,
      since: null,
      rest: "",
      others: "",
    };
  if (tone === "up") {
    const lead =
      counts.paused > 0
        ? `${plural(counts.up, "monitor")} ${counts.up === 1 ? "is" : "are"} up, ${number(counts.paused)} paused.`
        : total === 1
          ? "The only monitor is up."
          : `All ${number(total)} monitors are up.`;
    return { tone: "up", lead, since: null, rest: "", others: "" };
  }
  return namedOverview(items, counts, tone);
}

/** The sentence where a critical monitor that shares no cause is the first line: the others are counts. */
function criticalOverview(first: MonitorRow, { causes, grouped, counts }: OverviewInput, tone: ShownState): Overview {
  const place = where(first.open_incident);
  const failing = failingStates.reduce((sum, state) => sum + counts[state], 0);
  const shared = causes.slice(0, 3).map((cause) => `${causeLead(cause)}${causeOthers(cause)}.`);
  const alone = failing - grouped.monitors - 1;
  return {
    tone,
    lead: `${first.target.name} ${predicate(shownState(first), 1)} (critical)`,
    since: first.open_incident?.outage_since ?? first.status_since,
    rest: [
      `${place === "" ? "" : ` ${place}`}${causeWords(first.open_incident?.error_sample ?? null)}.`,
      ...shared,
    ].join(" "),
    others: [
      ...(alone > 0 ? [`${plural(alone, "other monitor")} ${alone === 1 ? "fails" : "fail"}.`] : []),
      othersOf(tone, { ...counts, down: 0, error: 0, degraded: 0 }),
    ]
      .filter((part) => part !== "")
      .join(" "),
  };
}

/** The sentence where the monitors in the worst state have nothing in common: the one, or the first names. */
function namedOverview(worst: readonly MonitorRow[], counts: Counts, tone: ShownState): Overview {
  const affected = worst.filter((row) => shownState(row) === tone);
  const [first] = affected;
  const others = othersOf(tone, counts);
  if (counts[tone] === 1 && first !== undefined) {
    if (isWaiting(first))
      return { tone, lead: `${first.target.name}: pending first check.`, since: null, rest: "", others };
    const error = tone === "unknown" ? null : (first.open_incident?.error_sample ?? first.last_error);
    const place = where(first.open_incident);
    return {
      tone,
      lead: `${first.target.name} ${predicate(tone, 1)}`,
      since: first.open_incident?.outage_since ?? first.status_since,
      rest: `${place === "" ? "" : ` ${place}`}${causeWords(error)}.`,
      others,
    };
  }
  const names = affected.length === 0 ? "" : firstNames(affected, counts[tone]);
  return {
    tone,
    lead: `${plural(counts[tone], "monitor")} ${predicate(tone, counts[tone])}`,
    since: null,
    rest: names === "" ? "." : `: ${names}.`,
    others,
  };
}

/** The first three names, and how many more there are of `total`. */
const firstNames = (rows: readonly MonitorRow[], total: number): string =>
  namesOf(
    rows.slice(0, 3).map((row) => row.target.name),
    total,
  );

/** `db-1.example.org: 880 monitors are down since 14:02: connection refused. 2 others fail: A and B. 118 are up.` */
function causesOverview({ items, causes, grouped, counts }: OverviewInput, tone: ShownState): Overview {
  const [first, ...next] = causes.slice(0, 3);
  const unnamed = grouped.causes - 1 - next.length;
  const rest = [
    `${causeOthers(first!)}${first!.error === null ? "" : `: ${commonError(first!)}`}.`,
    ...next.map((cause) => `${causeLead(cause)}${causeOthers(cause)}.`),
    ...(unnamed > 0 ? [`${plural(unnamed, "more cause")}.`] : []),
  ];
  const alone = failingStates.reduce((sum, state) => sum + counts[state], 0) - grouped.monitors;
  const failing = items.filter((row) => (failingStates as readonly string[]).includes(shownState(row)));
  const named = firstNames(failing, alone);
  const fine = othersOf(tone, { ...counts, down: 0, error: 0, degraded: 0 });
  return {
    tone,
    lead: causeLead(first!),
    since: first!.since,
    rest: rest.join(" "),
    others: [
      ...(alone > 0 ? [`${plural(alone, "other monitor")} ${alone === 1 ? "fails" : "fail"}: ${named}.`] : []),
      fine,
    ]
      .filter((part) => part !== "")
      .join(" "),
  };
}

/** `: connection refused`, without a full stop; nothing without an error. */
const causeWords = (error: string | null): string =>
  error === null ? "" : `: ${errorInWords(error).replace(/\.$/, "")}`;

/** A region without checks, in words; the time, if there is one, follows `lead`. */
export function silenceWords({ name, why }: Pick<SilentRegion, "name" | "why">): { lead: string; rest: string } {
  if (why === "network")
    return {
      lead: `The network of the agent in ${name} is down`,
      rest: ". Failed checks from there do not count until it is back.",
    };
  const lead = `No checks run from ${name}`;
  return why === "none"
    ? { lead, rest: ": no agent has joined it yet. Start one with sm-agent run." }
    : {
        lead,
        rest: ": its agent is offline. Check the machine that runs sm-agent and its connection to this control plane.",
      };
}

function predicate(state: ShownState, count: number): string {
  const is = count === 1 ? "is" : "are";
  const verbs: Record<ShownState, string> = {
    down: `${is} down`,
    degraded: `${is} degraded`,
    error: `cannot be checked`,
    unknown: count === 1 ? "has no data" : "have no data",
    up: `${is} up`,
    paused: `${is} paused`,
  };
  return verbs[state];
}

function othersOf(tone: ShownState, counts: Counts): string {
  const parts = shownStates
    .filter((state) => state !== tone && counts[state] > 0)
    .map(
      (state, at) =>
        `${at === 0 ? plural(counts[state], "monitor") : number(counts[state])} ${predicate(state, counts[state])}`,
    );
  return parts.length === 0 ? "" : `${parts.join(", ")}.`;
}

/** `majority (2 of 3)`: the policy, and what it comes to now. */
export function policyWords(
  policy: RegionPolicy,
  votes: Pick<Explanation, "regions_needed" | "regions_live"> | null,
): string {
  if (votes !== null && votes.regions_live > 1)
    return `Down when ${votes.regions_needed} of ${votes.regions_live} agree`;
  const name =
    typeof policy === "string"
      ? { any: "any region fails", majority: "most regions agree", all: "all regions agree" }[policy]
      : `${plural(policy.count, "region")} agree`;
  return `Down when ${name}`;
}

/** `Frankfurt and Virginia failed 2 consecutive checks: connection refused. Singapore still passes.` */
export function why(votes: Explanation, errorSample: string | null, nameOf: (region: string) => string): string {
  const failing = votes.regions.filter((region) => region.vote === "failing");
  const passing = votes.regions.filter((region) => region.vote === "passing" && region.live);
  const silent = votes.regions.filter((region) => !region.live);
  const names = (regions: { region: string }[]) => list(regions.map(({ region }) => nameOf(region)));
  const failed =
    failing.length === 0
      ? ""
      : `${names(failing)} failed ${plural(votes.alert_confirmations, "consecutive check")}${causeWords(errorSample)}.`;
  const still = failing.length === 0 ? "" : "still ";
  const passed = passing.length === 0 ? "" : `${names(passing)} ${still}${passing.length === 1 ? "passes" : "pass"}.`;
  const quiet = silent.length === 0 ? "" : `${names(silent)} ${silent.length === 1 ? "has" : "have"} no recent data.`;
  return [failed, passed, quiet].filter((part) => part !== "").join(" ");
}

/** A row of the list of results, or runs that an open circuit breaker refused one after the other. */
export interface ResultLine<R> {
  /** The newest run. */
  readonly one: R;
  /** The refused runs; null for a run that was made. */
  readonly refused: { readonly count: number; readonly since: string; readonly regions: readonly string[] } | null;
}

/**
 * Results, newest first, with the refused runs of one failure as one line: those of a region belong to it until the
 * region passes.
 */
export function resultLines<R extends { error: string | null; region: string; timestamp: string; status: string }>(
  results: readonly R[],
): ResultLine<R>[] {
  const lines: ResultLine<R>[] = [];
  let refused: { count: number; since: string; regions: string[] } | null = null;
  for (const one of results) {
    if (one.error !== circuitOpen) {
      lines.push({ one, refused: null });
      if (one.status === "up" && refused?.regions.includes(one.region)) refused = null;
    } else if (refused === null) {
      refused = { count: 1, since: one.timestamp, regions: [one.region] };
      lines.push({ one, refused });
    } else {
      refused.count++;
      refused.since = one.timestamp;
      if (!refused.regions.includes(one.region)) refused.regions.push(one.region);
    }
  }
  return lines;
}
