import { newId } from "@statusmesh/shared/ids";
import { getOrMake } from "../../../platform/caches.ts";
import type { Db } from "../../../platform/db/client/sql.ts";
import {
  changeHeld,
  insertDeliveries,
  type NewDelivery,
  type OutboxNotice,
  type Recipient,
  selectRecipients,
} from "./outbox-queries.ts";
import { isWithin, nextBegin } from "../../channels/service.ts";
import { takesEveryChange } from "../../channels/sending/service.ts";
import { highest, isBelow } from "@statusmesh/shared/severity";
import type { Notice, Reason } from "../../channels/schema.ts";

/** Rows of a statement: 1,500 with their indexes took longer than 100 ms of CPU time. */
const portion = 500;

/**
 * Writes one delivery for each notice and each enabled channel of its target, and wakes the deliverers at the
 * commit. Call it in the transaction that changed the incidents, which holds their rows. Notices of one incident are
 * sent in the order of the array, after those written before. A recovery goes only to channels that were notified of
 * the opening, or of a level of the ladder, and not of a recovery since; one in dead letter does not count. A notice
 * that was written before is left alone. The delivery of a channel that is to wait is held; the recovery of an opening
 * that was held drops it. Outside the active hours of a channel its deliveries are held until they begin, or dropped:
 * one held delivery says what has become of the incident. What is less severe than the gate of a binding or of its
 * channel is not written. `now` is Unix ms. Returns the number of deliveries to send.
 * Three statements for any number of notices, but for one of {@link portion} rows at a time; one without a channel.
 */
export async function writeDeliveries(sql: Db, now: number, notices: readonly OutboxNotice[]): Promise<number> {
  if (notices.length === 0) return 0;
  const { written, changed } = planDeliveries(notices, await selectRecipients(sql, notices), now);
  if (changed.length > 0) await changeHeld(sql, changed);
  let pending = 0;
  for (let from = 0; from < written.length; from += portion)
    pending += await insertDeliveries(sql, written.slice(from, from + portion));
  return pending;
}

const openings: readonly Reason[] = ["opened", "reopened"];

/** What a channel knows of an incident. */
interface Known {
  /** It was notified of the opening, and of no recovery since. */
  open: boolean;
  /** It was notified of an opening at some time. */
  everNotified: boolean;
  /** The delivery that waits: at most one, which says all that the channel does not know yet. */
  held: NewDelivery | null;
  lastCreated: number;
}

/**
 * The deliveries of the notices, and the held ones that they change. A notice may depend on one before it in the same
 * batch, so the array is walked in order.
 */
function planDeliveries(
  notices: readonly OutboxNotice[],
  recipients: readonly Recipient[],
  now: number,
): { written: NewDelivery[]; changed: NewDelivery[] } {
  const pairs = new Map<string, Known>();
  const written: NewDelivery[] = [];
  /** Those that the hours of their channel drop. */
  const refused: NewDelivery[] = [];
  const changed = new Set<NewDelivery>();
  for (const recipient of recipients) {
    const { orgId, seq, notice } = notices[recipient.at]!;
    if (notice.flap === "held" && !takesEveryChange(recipient.channel_kind, recipient.channel_rounds)) continue;
    const gate = highest(recipient.binding_severity, recipient.channel_severity);
    if (notice.reason !== "resolved" && isBelow(notice.severity, gate)) continue;
    const pair = `${notice.incident_id}/${recipient.channel_id}`;
    const known = getOrMake(pairs, pair, () => knownOf(recipient, orgId, now));
    const isOutside = !isWithin(recipient.active_hours, now);
    if (known.held !== null) {
      const { held } = known;
      changed.add(held);
      const next = absorb(held, notice, isOutside);
      if (held.state === "dropped") known.held = null;
      if (held.heldBy === "hours") held.nextAt = nextBegin(recipient.active_hours, now);
      if (next === "absorbed") continue;
    }
    if (notice.reason === "resolved" && !(known.open && recipient.notify_recovery)) continue;
    const isDropped = isOutside && recipient.active_hours!.outside === "drop";
    if (isDropped && notice.reason === "reminder") continue;
    const tells = openings.includes(notice.reason) || notice.reason === "escalated";
    const waits = tells && !known.everNotified && recipient.after_failures !== null;
    // Deliverers keep the order of creation. Clocks of replicas differ, so a later notice is also dated later.
    known.lastCreated = Math.max(now, known.lastCreated + 1);
    const row: NewDelivery = {
      id: newId(),
      orgId,
      channelId: recipient.channel_id,
      channelName: recipient.channel_name,
      channelKind: recipient.channel_kind,
      reason: notice.reason,
      seq,
      notice,
      state: waits || isOutside ? "held" : "pending",
      heldBy: waits ? "failures" : isOutside ? "hours" : null,
      nextAt: waits ? now : nextBegin(recipient.active_hours, now),
      createdAt: known.lastCreated,
    };
    if (isDropped && !waits) {
      refused.push({ ...row, state: "dropped" });
      continue;
    }
    written.push(row);
    if (row.state === "held") known.held = row;
    else if (notice.reason === "resolved") known.open = false;
    else if (notice.reason !== "reminder") known.open = known.everNotified = true;
  }
  const fresh = new Set(written);
  return {
    written: [...written.filter(({ state }) => state !== "dropped"), ...refused],
    changed: [...changed].filter((row) => !fresh.has(row)),
  };
}

/**
 * Lets a held delivery say what a newer notice says, so that a channel gets one message about an incident.
 * `absorbed`: the newer one is not written; a pair that cancels out leaves nothing. In place.
 */
function absorb(held: NewDelivery, notice: Notice, isOutside: boolean): "absorbed" | "written" {
  const isUnsent = openings.includes(held.reason) || held.reason === "unacknowledged";
  const say = (): "absorbed" => {
    const { level } = held.notice;
    held.notice = { ...notice, reason: held.reason, ...(level === undefined ? {} : { level }) };
    return "absorbed";
  };
  if (isUnsent && notice.reason === "reminder") return "absorbed";
  if (isUnsent && notice.reason === "escalated") return say();
  // Also of one that is over by now: it may reopen, and a person reads one line of it when the hours begin.
  if (isUnsent && held.heldBy === "hours") return say();
  if (isUnsent && notice.reason === "unacknowledged") {
    if (!isOutside) return "written";
    held.heldBy = "hours";
    return say();
  }
  if (held.reason === notice.reason && !isUnsent) return say();
  if (held.reason === "escalated" && notice.reason === "reminder") return "absorbed";
  held.state = "dropped";
  return held.reason === "resolved" && notice.reason === "reopened" ? "absorbed" : "written";
}

const knownOf = (recipient: Recipient, orgId: string, now: number): Known => ({
  open: recipient.notified,
  everNotified: recipient.ever_notified,
  held:
    recipient.held === null
      ? null
      : {
          ...recipient.held,
          orgId,
          channelId: recipient.channel_id,
          channelName: recipient.channel_name,
          channelKind: recipient.channel_kind,
          state: "held",
          nextAt: now,
          createdAt: 0,
        },
  lastCreated: recipient.last_created_at?.getTime() ?? -Infinity,
});
