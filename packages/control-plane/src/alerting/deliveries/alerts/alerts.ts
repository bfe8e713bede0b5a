import { timezoneOf } from "../../../access/orgs/service.ts";
import { inTransaction, type System } from "../../../platform/context.ts";
import { readCause } from "../../causes/service.ts";
import { roundKinds } from "../../channels/sending/service.ts";
import type { AlertEvent, Content, Group, Reason, Round } from "../../channels/schema.ts";
import { acknowledgeUrl, noticeToSend } from "./acknowledge-links.ts";
import { joinWaiting, postponeWaiting, selectWaiting } from "./alert-batch-queries.ts";
import * as queries from "./alert-queries.ts";
import type { ClaimedDelivery } from "../sending/claim-queries.ts";

/*
 * Incidents of one cause share an alert at a pager, and a group for webhooks. The events of an alert follow from what
 * is true of its incidents when a delivery is sent, not from the delivery: any of them may carry any event, and takes
 * along what waits for the alert. Each change of an incident is committed with a delivery, so the last one to be sent
 * sees all of them.
 */

/** Shortest time between two updates of the texts of an alert. */
const updateMs = 30_000;
/** Wait for an event of the same alert that is in flight. */
const inFlightMs = 1_000;

type Delivery = ClaimedDelivery & { channel_id: string };

/** What a delivery sends to a pager, and the incidents that are open then. */
interface Plan {
  alert: queries.AlertRow;
  ids: string[];
  events: AlertEvent[];
}

/** `over`: nothing is left to say. `done`: the delivery left with another message, or waits. */
export type Alerted = Content | "over" | "done";

/** The message of a leased delivery to a pager. `now` is Unix ms, by the clock that the processes share. */
export async function composeAlert(system: System, delivery: Delivery, now: number): Promise<Alerted> {
  const plan = await inTransaction(system, (tx) => planAlert(tx, delivery, now));
  if (typeof plan === "string") return plan;
  const { alert, events, ids } = plan;
  const zone = await timezoneOf(system, delivery.org_id);
  const about = { zone, alert: { key: alert.key, events } };
  if (ids.length === 1 && ids[0] === delivery.incident_id)
    return { kind: "notice", notice: await noticeToSend(system, delivery, zone), ...about };
  return { kind: "round", round: await roundOf(system, delivery, alert), ...about };
}

async function planAlert(tx: System, delivery: Delivery, now: number): Promise<Plan | "over" | "done"> {
  const { sql } = tx;
  const at = new Date(now);
  const { id, channel_id: channelId } = delivery;
  const reason = reasonOf(delivery);
  if (!(await queries.lockChannel(sql, channelId))) return "done";
  const messageId = await queries.selectLeased(sql, delivery);
  if (messageId !== null && messageId !== id) {
    // Another delivery of the alert has taken it along.
    if (messageId !== undefined) await queries.postpone(sql, delivery, at);
    return "done";
  }
  const alert = await alertOf(tx, delivery, at);
  const waiting = await selectWaiting(sql, channelId, alert.key, at);
  const state = await queries.selectAlertState(sql, channelId, alert.key);
  const next = nextOf({ ...alert, isCarrier: alert.delivery_id === id }, state, reason, now);
  if (next.kind === "wait") {
    if (next.acknowledge) await acknowledgeAlone(sql, channelId, alert.key, at);
    const until = new Date(next.until);
    await queries.postpone(sql, delivery, until);
    if (alert.acknowledged_at === null) await postponeWaiting(sql, waiting, until);
    return "done";
  }
  if (next.kind === "nothing" && reason === "acknowledged") {
    await queries.deleteAcknowledgement(sql, delivery);
    return "done";
  }
  const events = next.kind === "send" ? next.events : [];
  const ids = await queries.selectOpen(sql, channelId, alert.key);
  const message = { id, channel_id: channelId, reason: next.kind === "send" ? reason : "opened" };
  await queries.beginMessage(sql, message, { key: alert.key, events, covers: ids, at });
  return next.kind === "send" ? { ids, alert, events } : "over";
}

type Next =
  | { kind: "send"; events: AlertEvent[] }
  /** `acknowledge`: an acknowledgement leaves before. */
  | { kind: "wait"; until: number; acknowledge: boolean }
  | { kind: "nothing" };

interface Known extends Omit<queries.AlertRow, "key" | "cause"> {
  /** True for the delivery that carried the last event. */
  isCarrier: boolean;
}

/**
 * The events of an alert. A trigger, an acknowledgement and a resolve are sent at once, texts at most every 30 s. A
 * trigger that may have arrived is repeated by its own delivery, or after the same time by another.
 */
export function nextOf(known: Known, { isOpen, waits }: queries.AlertState, reason: Reason, now: number): Next {
  const updatedAt = known.updated_at?.getTime() ?? null;
  const dueAt = updatedAt === null ? now : updatedAt + updateMs;
  const isEnded = known.ended_at !== null;
  const isTriggered = known.triggered_at !== null && !isEnded;
  const isAcknowledged = isTriggered && known.acknowledged_at !== null;
  const acknowledges = isOpen && !waits && !isAcknowledged;
  if (!isOpen && (updatedAt === null || isEnded)) return { kind: "nothing" };
  if (known.in_flight && !known.isCarrier)
    return { kind: "wait", until: !isOpen || acknowledges ? now + inFlightMs : dueAt, acknowledge: false };
  if (!isOpen) return { kind: "send", events: ["resolve"] };
  const acknowledge: AlertEvent[] = acknowledges ? ["acknowledge"] : [];
  if (!isTriggered && !isEnded && dueAt > now && !known.isCarrier)
    return { kind: "wait", until: dueAt, acknowledge: false };
  if (!isTriggered) return { kind: "send", events: ["trigger", ...acknowledge] };
  if (reason === "acknowledged") return acknowledges ? { kind: "send", events: acknowledge } : { kind: "nothing" };
  if (dueAt > now) return { kind: "wait", until: dueAt, acknowledge: acknowledges };
  return { kind: "send", events: ["update", ...acknowledge] };
}

const reasonOf = ({ notice }: Pick<ClaimedDelivery, "notice">): Reason => notice.reason;

/**
 * The alert of an incident, which keeps it; at its first notice it joins one, or begins one. An incident that is to
 * page again while its alert is acknowledged leaves it: an acknowledged alert pages nobody.
 */
async function alertOf({ sql }: System, delivery: Delivery, at: Date): Promise<queries.AlertRow> {
  const kept = await queries.selectAlert(sql, delivery, at);
  const fails = (["opened", "reopened", "unacknowledged"] as Reason[]).includes(reasonOf(delivery));
  const leaves = fails && delivery.acknowledged === null && kept?.acknowledged_at != null && kept.ended_at === null;
  if (kept !== null && !leaves) {
    if (reasonOf(delivery) === "reopened") await queries.noteOpening(sql, delivery.channel_id, kept.key, at);
    return kept;
  }
  const joined = await queries.selectJoinable(sql, delivery, at);
  if (joined === null) return await queries.createAlert(sql, delivery, delivery.id, at);
  await queries.joinAlert(sql, delivery, joined, at);
  await joinWaiting(sql, delivery.channel_id, joined, at);
  return (await queries.selectAlert(sql, delivery, at))!;
}

/** The group of the incident of a leased delivery to a webhook; null where the channel was deleted. */
export async function groupOf(system: System, delivery: Delivery, now: number): Promise<Group | null> {
  return await inTransaction(system, async (tx) => {
    const { channel_id: channelId } = delivery;
    const at = new Date(now);
    if (!(await queries.lockChannel(tx.sql, channelId))) return null;
    const { key, cause, ended_at: endedAt } = await alertOf(tx, delivery, at);
    const open = await queries.countOpen(tx.sql, channelId, key);
    if ((endedAt === null) !== open > 0) await queries.noteEnd(tx.sql, channelId, key, open === 0 ? at : null);
    return { key, cause: sharedCause(cause), open };
  });
}

const sharedCause = (text: string | null) => (text === null ? null : (readCause(text) as Group["cause"]));

/** Acknowledges an alert whose last incident that nobody had acknowledged is over: no acknowledgement was written. */
async function acknowledgeAlone(sql: System["sql"], channelId: string, key: string, at: Date) {
  const kinds = roundKinds().alerts;
  const open = await queries.selectOpen(sql, channelId, key);
  await queries.insertAcknowledgements(sql, open.slice(0, 1), { kinds, at, channelId });
}

/** Writes what pagers are told of an acknowledgement. Call it in the transaction that acknowledged the incidents. */
export async function writeAcknowledgements({ sql, clock }: System, incidentIds: readonly string[]): Promise<void> {
  if (incidentIds.length === 0) return;
  await queries.insertAcknowledgements(sql, incidentIds, {
    kinds: roundKinds().alerts,
    at: new Date(clock.now()),
  });
}

/** The texts of an alert: one line for its cause. */
async function roundOf(system: System, delivery: Delivery, { key, cause }: queries.AlertRow): Promise<Round> {
  const line = await queries.selectAlertLine(system.sql, delivery.channel_id, key);
  const { severity, open, recovered, since, began_at, ended_at, error, same_error, names } = line;
  const reason = reasonOf(delivery);
  const isLevel = open > 0 && (reason === "reminder" || reason === "unacknowledged");
  const said = open === 0 ? "resolved" : isLevel ? reason : "opened";
  return {
    said,
    severity,
    fresh: open,
    recovered,
    brief: 0,
    causes: 1,
    lines: [
      {
        cause: sharedCause(cause),
        severity,
        said,
        fresh: open,
        open,
        recovered,
        brief: 0,
        level: said === "unacknowledged" ? (delivery.notice.level ?? null) : null,
        since: since?.toISOString() ?? null,
        began_at: began_at.toISOString(),
        ended_at: ended_at?.toISOString() ?? null,
        error,
        same_error,
        names,
        brief_names: [],
      },
    ],
    url: `${system.config.server.public_url}/incidents`,
    acknowledge_url: open === 0 ? null : await acknowledgeUrl(system, delivery.id, "opened"),
  };
}
