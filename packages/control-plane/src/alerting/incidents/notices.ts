import { copyIncident, type EngineSeverity, type IncidentState, type Transition } from "./votes.ts";

/** The last notice of an incident, and the number of notices. */
export interface Notified {
  state: "open" | "closed";
  severity: EngineSeverity;
  reopened: number;
  escalated: number;
  resolved: number;
}

/** A notice to write into the outbox. */
export interface NoticeToSend {
  readonly reason: Transition;
  /** Sequence number of this reason for this incident, from 0. */
  readonly seq: number;
  /** The incident as it was at that moment. */
  readonly incident: IncidentState;
}

/** A transition of a replay. */
export interface PlayedTransition {
  slot: number;
  /** Index of the incident within the replay. */
  index: number;
  snapshot: IncidentState;
}

/**
 * The notices of an evaluation: first of the new transitions, in order, then corrections where an incident differs from
 * its last notice. `mayOpen` allows a correction to notify of an incident that is open. Returns the last notices, too.
 */
export function planNotices(
  before: Readonly<Record<string, Notified>>,
  incidents: readonly IncidentState[],
  retracted: readonly IncidentState[],
  newTransitions: readonly PlayedTransition[],
  mayOpen: boolean,
): { notices: NoticeToSend[]; notified: Record<string, Notified> } {
  const notified: Record<string, Notified> = {};
  const notices: NoticeToSend[] = [];
  for (const { id } of [...incidents, ...retracted]) if (before[id] !== undefined) notified[id] = { ...before[id] };

  const notify = (reason: Transition, incident: IncidentState) => {
    const sent = notified[incident.id] ?? { reopened: 0, escalated: 0, resolved: 0 };
    const seq = reason === "opened" ? 0 : sent[reason];
    notices.push({ reason, seq, incident: copyIncident(incident) });
    notified[incident.id] = {
      state: reason === "resolved" ? "closed" : "open",
      severity: incident.severity,
      reopened: sent.reopened + (reason === "reopened" ? 1 : 0),
      escalated: sent.escalated + (reason === "escalated" ? 1 : 0),
      resolved: sent.resolved + (reason === "resolved" ? 1 : 0),
    };
  };
  const correct = (incident: IncidentState, opens: boolean) => {
    const last = notified[incident.id];
    if (incident.closedAt !== null) {
      if (last?.state === "open") notify("resolved", incident);
    } else if (last?.state !== "open") {
      if (opens) notify(last === undefined ? "opened" : "reopened", incident);
    } else if (last.severity === "minor" && incident.severity === "major") notify("escalated", incident);
  };

  for (const { index, snapshot } of newTransitions) correct({ ...snapshot, id: incidents[index]!.id }, true);
  for (const incident of incidents) correct(incident, mayOpen);
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

/** The same with an incident closed, without a notice. */
export function closedSilently(notified: Readonly<Record<string, Notified>>, id: string): Record<string, Notified> {
  const last = notified[id];
  return last === undefined ? { ...notified } : { ...notified, [id]: { ...last, state: "closed" } };
}
