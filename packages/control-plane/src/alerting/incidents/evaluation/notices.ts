import { errorInWords } from "@statusmesh/shared/checks";
import { copyIncident, type EngineSeverity, type IncidentState, type Transition } from "./machine.ts";
import type { Flapping } from "./flaps.ts";
import { type OutageTimes, outageSecs } from "../reports/outages.ts";
import type { Notice, Reason } from "../../channels/schema.ts";
import type { OutboxNotice } from "../../deliveries/engine.ts";
import type { IncidentRow } from "../queries.ts";

/** The last notice of an incident, and the number of notices. */
export interface Notified {
  state: "open" | "closed";
  severity: EngineSeverity;
  reopened: number;
  escalated: number;
  resolved: number;
  /** Present while a notice has said that it flaps: changes are held. */
  flapping?: true;
}

/**
 * What a notice says of flapping: that it begins, a change that is held, or how it ended. Held changes go to channels
 * that get every change.
 */
export type Flap = "begins" | "held" | "down" | "stable";

/** A notice to write into the outbox. */
export interface NoticeToSend {
  readonly reason: Transition;
  /** Sequence number of this reason for this incident, from 0. */
  readonly seq: number;
  /** The incident as it was at that moment. */
  readonly incident: IncidentState;
  /** True where a person raised the severity: that counts although it is pinned. */
  readonly raised?: true;
  readonly flap?: Flap;
  readonly flapping?: Flapping;
}

export interface PlayedTransition {
  slot: number;
  /** Index of the incident within the replay. */
  index: number;
  snapshot: IncidentState;
  flapping: Flapping | null;
}

/** What an evaluation has changed. */
export interface IncidentChanges {
  readonly incidents: readonly IncidentState[];
  readonly retracted?: readonly IncidentState[];
  /** Of new runs, in slot order. */
  readonly transitions?: readonly PlayedTransition[];
  /** Whether an open incident without a notice gets one that is not caused by a transition. */
  readonly mayOpen: boolean;
  /** Of the newest incident, now. */
  readonly flapping: Flapping | null;
}

/**
 * The notices of an evaluation: first those of the transitions, in order, then corrections where an incident differs
 * from its last notice. `before` is the last notice of each incident, and `notified` the same afterwards.
 */
export function planNotices(
  before: Readonly<Record<string, Notified>>,
  { incidents, retracted = [], transitions = [], mayOpen, flapping: now }: IncidentChanges,
): { notices: NoticeToSend[]; notified: Record<string, Notified> } {
  const notified: Record<string, Notified> = {};
  const notices: NoticeToSend[] = [];
  for (const { id } of [...incidents, ...retracted]) if (before[id] !== undefined) notified[id] = { ...before[id] };

  const notify = (reason: Transition, incident: IncidentState, flap?: Flap, flapping: Flapping | null = null) => {
    const counts = notified[incident.id] ?? { reopened: 0, escalated: 0, resolved: 0 };
    const seq = reason === "opened" ? 0 : counts[reason];
    notices.push({
      reason,
      seq,
      incident: copyIncident(incident),
      ...(flap === undefined ? {} : { flap }),
      ...(flapping === null ? {} : { flapping }),
    });
    notified[incident.id] = {
      state: reason === "resolved" ? "closed" : "open",
      severity: incident.severity,
      reopened: counts.reopened + (reason === "reopened" ? 1 : 0),
      escalated: counts.escalated + (reason === "escalated" ? 1 : 0),
      resolved: counts.resolved + (reason === "resolved" ? 1 : 0),
      ...(flapping === null ? {} : { flapping: true }),
    };
  };
  const correct = (incident: IncidentState, opens: boolean, flapping: Flapping | null) => {
    const last = notified[incident.id];
    const is = incident.closedAt === null ? "open" : "closed";
    const change = is === "open" ? "reopened" : "resolved";
    const escalates = is === "open" && last?.severity === "minor" && incident.severity === "major";
    if (last?.flapping === true) {
      if (flapping === null) notify(change, incident, is === "open" ? "down" : "stable");
      else if (is !== last.state) notify(change, incident, "held", flapping);
      else if (escalates) notify("escalated", incident, undefined, flapping);
      return;
    }
    if (flapping !== null && is === "open" && last?.state !== "open") {
      if (opens) notify(last === undefined ? "opened" : "reopened", incident, "begins", flapping);
      return;
    }
    if (is === "closed") {
      if (last?.state === "open") notify("resolved", incident);
    } else if (last?.state !== "open") {
      if (opens) notify(last === undefined ? "opened" : "reopened", incident);
    } else if (escalates) notify("escalated", incident);
  };

  for (const { index, snapshot, flapping } of transitions)
    correct({ ...snapshot, id: incidents[index]!.id }, true, flapping);
  for (const [at, incident] of incidents.entries())
    correct(incident, mayOpen, at === incidents.length - 1 ? now : null);
  for (const incident of retracted) {
    const { openedAt, closedAt, endedAt } = incident;
    if (notified[incident.id]?.state === "open")
      notify("resolved", { ...incident, closedAt: closedAt ?? openedAt, endedAt: endedAt ?? openedAt });
    delete notified[incident.id];
  }
  return { notices, notified };
}

/** Only the entries of the incidents. */
export function keepNotified(
  notified: Readonly<Record<string, Notified>>,
  incidents: readonly IncidentState[],
): Record<string, Notified> {
  return Object.fromEntries(Object.entries(notified).filter(([id]) => incidents.some((one) => one.id === id)));
}

const withoutFlapping = ({ flapping: _, ...last }: Notified): Notified => last;

/** The same where nothing flaps any more, without a notice. */
export const calmed = (notified: Readonly<Record<string, Notified>>): Record<string, Notified> =>
  Object.fromEntries(Object.entries(notified).map(([id, last]) => [id, withoutFlapping(last)]));

/** The same with an incident closed, without a notice. */
export function closedSilently(notified: Readonly<Record<string, Notified>>, id: string): Record<string, Notified> {
  const last = notified[id];
  return last === undefined ? { ...notified } : { ...notified, [id]: { ...withoutFlapping(last), state: "closed" } };
}

/** What a notice says of flapping. */
export interface FlapFacts {
  flap: Flap;
  /** Absent where it has ended. */
  since?: Date;
  changes?: number;
}

/** The part of an incident that a notice shows, and its organisation. */
export type NoticeSubject = OutageTimes & { org_id: string; flap?: FlapFacts; diagnosis?: string | null } & Pick<
    IncidentRow,
    | "id"
    | "target_id"
    | "monitor_name"
    | "severity"
    | "started_at"
    | "ended_at"
    | "error_sample"
    | "regions_down"
    | "regions_up"
  >;

const flapFields = (of: FlapFacts | undefined): Pick<Notice, "flap" | "flapping_since" | "changes"> => ({
  ...(of === undefined ? {} : { flap: of.flap }),
  ...(of?.since === undefined ? {} : { flapping_since: of.since.toISOString() }),
  ...(of?.changes === undefined ? {} : { changes: of.changes }),
});

/** The notice of an incident as it is now. `publicUrl` is `server.public_url`. */
export function outboxNotice(incident: NoticeSubject, reason: Reason, seq: number, publicUrl: string): OutboxNotice {
  const notice: Notice = {
    incident_id: incident.id,
    target_id: incident.target_id,
    monitor_name: incident.monitor_name,
    reason,
    severity: incident.severity,
    urgency: incident.severity === "minor" ? "low" : "high",
    started_at: incident.started_at.toISOString(),
    ended_at: incident.ended_at?.toISOString() ?? null,
    outage_since: incident.outage_since?.toISOString() ?? null,
    duration_secs: incident.ended_at === null ? null : outageSecs(incident),
    error_sample: incident.error_sample === null ? null : errorInWords(incident.error_sample),
    ...(incident.diagnosis == null ? {} : { diagnosis: incident.diagnosis }),
    regions_down: incident.regions_down,
    regions_up: incident.regions_up,
    url: `${publicUrl}/incidents/${incident.id}`,
    ...flapFields(incident.flap),
  };
  return { orgId: incident.org_id, seq, notice };
}
