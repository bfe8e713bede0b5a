import { minuteMs } from "@statusmesh/shared/time";
import { highest, isBelow } from "@statusmesh/shared/severity";
import { isoOrNull } from "../../../platform/http/wire.ts";
import { byTag } from "../../channels/routes/service.ts";
import { isWithin } from "../../channels/service.ts";
import type { Standing } from "../../deliveries/engine.ts";
import type { ConcernedChannel, NoticePlan } from "./channel-states-queries.ts";
import { parentInWords, reasonWords } from "./words.ts";
import type { Hold } from "../holds/hold-queries.ts";
import type { ChannelState, Severity } from "../schema.ts";

/** What decides which channels an incident has notified, notifies next, or does not notify. */
export interface ChannelFacts {
  plan: NoticePlan;
  standings: readonly Standing[];
  holds: readonly Hold[];
  severity: Severity;
  isOpen: boolean;
}

type Told = Omit<ChannelState, "channel_id" | "channel_name" | "channel_type" | "route">;

const none = { at: null, until: null, message_id: null, round: null, reason: null };
const over = (reason: string): Told => ({ ...none, state: "over", reason });

/** A notice that a gate keeps back: that of the channel, or that of `what` where it is higher. */
function gatedBy(severity: Severity, channel: Severity, other: Severity | null | undefined, what: string): Told {
  const gate = highest(channel, other);
  const whose = gate === channel ? "the channel" : what;
  const incidents = gate === "major" ? "major and critical" : gate;
  return { ...none, state: "gated", reason: `${whose} is for ${incidents} incidents; this one is ${severity}` };
}

const heldBy = ({ by, reason, until }: Hold): Told => ({
  ...none,
  state: "held",
  until: isoOrNull(until),
  reason:
    by === "dependency"
      ? `dependency: ${parentInWords(reason)}`
      : by === "flapping"
        ? "flapping: changes wait until it is stable or stays down"
        : by === "recheck"
          ? `dependency: ${reason}`
          : [by, reason].filter((part) => part !== null && part !== "").join(": "),
});

const ranks: readonly ChannelState["state"][] = ["told", "waiting", "held", "gated", "over"];

/**
 * When each channel was notified of the incident, or why it was not: those that were in the order of time, then those
 * that are next.
 */
export function channelStates(facts: ChannelFacts): ChannelState[] {
  const standings = new Map(facts.standings.map((one) => [one.channel_id, one]));
  const states = facts.plan.channels.map((channel): ChannelState => {
    const { state, ...told } = stateOf(channel, standings.get(channel.id) ?? null, facts);
    const route = channel.tags.length === 0 ? null : byTag(channel.tags);
    return { channel_id: channel.id, channel_name: channel.name, channel_type: channel.kind, route, state, ...told };
  });
  const timeOf = ({ at, until }: ChannelState): number => Date.parse(at ?? until ?? "1970-01-01T00:00:00Z");
  return states.toSorted((a, b) => ranks.indexOf(a.state) - ranks.indexOf(b.state) || timeOf(a) - timeOf(b));
}

function stateOf(channel: ConcernedChannel, standing: Standing | null, facts: ChannelFacts): Told {
  if (standing === null) return channel.bound ? unwrittenOf(channel, facts) : levelOf(channel, facts);
  const { told_at: at, message_id, incidents, waits } = standing;
  const waiting = waits === null ? null : waitingOf(waits);
  if (at !== null) {
    const shared = incidents! > 1 ? `one message about ${incidents} incidents` : null;
    const next = waits?.state === "pending" ? { until: waiting!.until, round: waiting!.round } : {};
    const reason = [shared, waits?.state === "pending" ? waiting!.reason : null].filter(Boolean).join("; ");
    return { ...none, state: "told", at: at.toISOString(), message_id, ...next, reason: reason || null };
  }
  if (waiting !== null) return waiting;
  if (standing.last_state === "dead") return over(`failed: ${standing.last_error ?? "no answer"}`);
  if (standing.last_held_by === "hours") return over("outside its active hours");
  return over(
    standing.last_held_by === "failures"
      ? "the incident ended before the failing checks of the channel were reached"
      : "the incident ended before the message left",
  );
}

/** A notice that is written and waits. */
function waitingOf({
  state,
  reason,
  held_by,
  attempts,
  is_sending,
  until,
  round,
  is_paused,
}: NonNullable<Standing["waits"]>) {
  const time = until === null ? null : new Date(until).toISOString();
  const what = reasonWords[reason];
  if (state === "held")
    return {
      ...none,
      state: "held" as const,
      until: held_by === "hours" ? time : null,
      reason: held_by === "hours" ? "hours: outside its active hours" : "failures: until its number of failing checks",
    };
  const why = is_sending
    ? "is being sent"
    : is_paused
      ? "waits: the receiver has asked for a pause"
      : attempts > 0
        ? `waits for attempt ${attempts + 1}`
        : round === null || time === null
          ? "leaves now"
          : `waits for round ${round}`;
  return { ...none, state: "waiting" as const, until: time, round, reason: `the ${what} ${why}` };
}

/** A channel of the monitor without a notice. */
function unwrittenOf(channel: ConcernedChannel, { plan, holds, severity, isOpen }: ChannelFacts): Told {
  if (!channel.enabled) return over(disabled(channel));
  const { channel_gate: gate, binding_gate: binding } = channel;
  if (isBelow(severity, highest(binding, gate)))
    return gatedBy(severity, gate, binding, "its assignment to the monitor");
  if (!isOpen) return over("the incident ended before a notification was due");
  if (plan.is_held && holds[0] !== undefined) return heldBy(holds[0]);
  if (plan.escalation_from === null && plan.reminder_due_at === null) return over("opened without notifications");
  if (plan.acknowledged) return over("assigned after the opening, and the incident is acknowledged");
  if (plan.reminder_due_at === null) return over("assigned after the opening");
  return {
    ...none,
    state: "waiting",
    until: plan.reminder_due_at.toISOString(),
    reason: "assigned after the opening: the next reminder",
  };
}

const disabled = ({ disabled_reason: reason }: ConcernedChannel): string =>
  reason === null ? "the channel is disabled" : `the channel is disabled: ${reason}`;

/** A channel of the ladder alone, without a notice. */
function levelOf(channel: ConcernedChannel, { plan, holds, severity, isOpen }: ChannelFacts): Told {
  const levels = (plan.ladder ?? [])
    .map((level, at) => {
      const isGated = isBelow(severity, highest(channel.channel_gate, level.min_severity));
      return { ...level, name: `level ${at + 1} of the ladder`, isGated };
    })
    .filter(({ channel_ids: ids }) => ids.includes(channel.id));
  const ahead = levels.filter(({ after_minutes: minutes }) => minutes > plan.escalation_passed);
  const next = ahead.find(({ isGated }) => !isGated) ?? ahead[0] ?? levels.at(-1)!;
  if (!channel.enabled) return over(disabled(channel));
  if (!isOpen) return over(`the incident ended before ${next.name}`);
  if (plan.acknowledged) return over(`acknowledged before ${next.name}`);
  if (next.isGated) return gatedBy(severity, channel.channel_gate, next.min_severity, next.name);
  if (next.after_minutes <= plan.escalation_passed) return over(`${next.name} was passed outside its active hours`);
  if (holds[0] !== undefined) return heldBy(holds[0]);
  if (plan.escalation_from === null)
    return { ...none, state: "waiting", reason: `${next.name}, which begins with the first notification` };
  const due = plan.escalation_from.getTime() + next.after_minutes * minuteMs;
  const hours = isWithin(channel.active_hours, due) ? "" : ", outside its active hours";
  return { ...none, state: "waiting", until: new Date(due).toISOString(), reason: `${next.name}${hours}` };
}
