import { errorInWords } from "@statusmesh/shared/checks";
import { diagnosisLine, diagnosisOf } from "@statusmesh/shared/protocol/diagnosis";
import { getOrMake } from "../../../platform/caches.ts";
import type { IncidentRow } from "../queries.ts";
import type { Delivery } from "../../deliveries/schema.ts";
import type { Explanation } from "../schema.ts";

/** What a notice is about. */
export const reasonWords: Readonly<Record<Delivery["reason"], string>> = {
  opened: "opening",
  reminder: "reminder",
  unacknowledged: "escalation level",
  escalated: "escalation",
  reopened: "reopening",
  acknowledged: "acknowledgement",
  resolved: "recovery",
};

const closings = {
  engine: "Passing checks closed it",
  person: "A person closed it",
  pause: "Pausing the monitor closed it",
} as const;

/** What holds a dependent monitor: the report of a status page, or that the monitor of this name is down. */
export const parentInWords = (reason: string | null): string =>
  reason !== null && reason.includes(" reports: ") ? reason : `${reason} is down`;

const time = (text: string): string => `${text.slice(0, 19).replace("T", " ")} UTC`;
const count = (number: number, one: string): string => `${number} ${one}${number === 1 ? "" : "s"}`;

type Facts = Omit<Explanation, "in_words">;

/**
 * The explanation as sentences: the opening, the votes, the quorum, maintenance, every delivery, then the channels that
 * wait or are not notified. Times are UTC.
 */
export function inWords(facts: Facts, incident: IncidentRow, region: (id: string) => string): string[] {
  if (incident.imported) return ["Imported: the product that watched the monitor before recorded it."];
  const checks = count(facts.alert_confirmations, "consecutive failing check");
  return [
    `Opened at ${time(facts.opened_at)}: enough regions had ${checks}.`,
    ...facts.regions.map((vote) => voteInWords(vote, region(vote.region))),
    ...diagnosisInWords(incident, region),
    quorumInWords(facts),
    ...(incident.ended_at !== null && incident.closed_by !== null
      ? [`${closings[incident.closed_by]} at ${time(incident.ended_at.toISOString())}.`]
      : []),
    ...(facts.maintenance === null
      ? []
      : [`Notifications are held until ${time(facts.maintenance.ends_at)}: maintenance "${facts.maintenance.title}".`]),
    ...facts.held
      .filter(({ by }) => by !== "maintenance")
      .map(({ by, until, reason }) => {
        if (by === "dependency") return `The opening is held: ${parentInWords(reason)}, which this monitor depends on.`;
        if (by === "flapping")
          return "It flaps: changes, reminders and the ladder wait until it is stable or stays down.";
        if (by === "recheck") return `The opening is held: ${reason}.`;
        const why = reason === null ? "" : `: ${reason}`;
        return `Notifications are held until ${time(until!)} by a snooze${why}.`;
      }),
    ...(facts.deliveries.length === 0 ? ["No channel was notified."] : []),
    ...facts.deliveries.filter((one) => !isUntried(one)).map(deliveryInWords),
    ...channelsInWords(facts),
    ...routesInWords(facts),
  ];
}

/** What waits for its first attempt is said of its channel, with its round. */
const isUntried = ({ state, attempts, channel_id: id }: Delivery): boolean =>
  state === "pending" && attempts.length === 0 && id !== null;

/** What the deliveries do not say: which channels are next, and which are not notified. */
function channelsInWords({ channels, deliveries }: Facts): string[] {
  const said = new Set(deliveries.filter((one) => !isUntried(one)).map(({ channel_id: id }) => id));
  const verbs = {
    told: "is notified again",
    waiting: "waits",
    held: "is held",
    gated: "is not notified",
    over: "is not notified",
  };
  return channels
    .filter(({ channel_id: id, state, until }) => !said.has(id) || (state === "told" && until !== null))
    .map(({ channel_name: name, channel_type: kind, state, until, reason }) => {
      const when = until === null ? "" : state === "told" ? ` at ${time(until)}` : ` until ${time(until)}`;
      return `${name} (${kind}) ${verbs[state]}${when}${reason === null ? "" : `: ${reason}`}.`;
    });
}

/** The channels by tag: `2 channels by tag prod: Ops and Pager.` */
function routesInWords({ channels }: Facts): string[] {
  const routes = new Map<string, string[]>();
  for (const { route, channel_name: name } of channels)
    if (route !== null) getOrMake(routes, route, () => []).push(name);
  return [...routes].map(([route, names]) => `${count(names.length, "channel")} ${route}: ${names.join(", ")}.`);
}

function voteInWords(region: Facts["regions"][number], name: string): string {
  const vote = region.vote === "none" ? "has no vote yet" : `votes ${region.vote}`;
  const checks = count(region.consecutive, `${region.consecutive_kind} check`);
  const streak = `${checks} since ${time(region.consecutive_since)}`;
  const error = region.last_error === null ? "" : ` Last error: ${errorInWords(region.last_error)}.`;
  const silent = region.live ? "" : ` No data since ${time(region.last_slot)}: the vote does not count as live.`;
  return `${name} ${vote}: ${streak}.${silent}${error}`;
}

function diagnosisInWords({ diagnosis: code, regions_down: down }: IncidentRow, region: (id: string) => string) {
  const diagnosis = diagnosisOf(code, down.map(region));
  return diagnosis === null ? [] : [`Diagnosis: ${diagnosisLine(diagnosis)}.`];
}

function quorumInWords({
  region_policy: policy,
  regions_failing: failing,
  regions_live: live,
  ...facts
}: Facts): string {
  const rule = typeof policy === "string" ? policy : `count ${(policy as { count: number }).count}`;
  const verb = failing === 1 ? "fails" : "fail";
  return `${failing} of ${count(live, "live region")} ${verb}; the policy (${rule}) needs ${facts.regions_needed}.`;
}

function deliveryInWords(delivery: Delivery): string {
  const what = `${reasonWords[delivery.reason]} to ${delivery.channel_name} (${delivery.channel_type})`;
  const tried = count(delivery.attempts.length, "attempt");
  const last = delivery.attempts.at(-1)?.error ?? "no answer";
  if (delivery.state === "delivered")
    return `Delivered: ${what} at ${time(delivery.delivered_at ?? delivery.created_at)}, after ${tried}.`;
  if (delivery.state === "held")
    return delivery.held_by === "hours" && delivery.next_attempt_at !== null
      ? `Held until ${time(delivery.next_attempt_at)}: ${what}, which is outside its active hours.`
      : `Held: ${what}, until the failing checks reach after_failures of the channel.`;
  if (delivery.state === "dropped")
    return delivery.held_by === "hours"
      ? `Not sent: ${what}, which was outside its active hours.`
      : delivery.held_by === "over"
        ? `Not sent: ${what}: it was over before the message left.`
        : `Not sent: ${what}: the incident ended before it was due.`;
  if (delivery.state === "dead") return `Failed: ${what}, after ${tried}. Last error: ${last}.`;
  const next = delivery.next_attempt_at === null ? "" : ` Next attempt at ${time(delivery.next_attempt_at)}.`;
  return delivery.attempts.length === 0
    ? `Pending: ${what}.${next}`
    : `Pending: ${what}, after ${tried}. Last error: ${last}.${next}`;
}
