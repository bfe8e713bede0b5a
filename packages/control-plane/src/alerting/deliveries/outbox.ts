import { newId } from "@statusmesh/shared/ids";
import type { Db } from "../../platform/db/sql.ts";
import { insertDeliveries, type NewDelivery, type Recipient, selectRecipients } from "./outbox-queries.ts";
import type { Notice, Reason } from "../incidents/schema.ts";

/** A notice for every channel of its target. */
export interface OutboxNotice {
  orgId: string;
  /** Sequence number of this notice among those of the same reason and incident, from 0. */
  seq: number;
  notice: Notice;
}

/**
 * Writes one pending delivery for each notice and each enabled channel of its target, and wakes the deliverers at the
 * commit. Call it in the transaction that changed the incidents, which holds their rows. Notices of one incident are
 * sent in the order of the array, after those written before. A recovery goes only to channels that were notified of
 * the opening and not of a recovery since; an opening in dead letter does not count. A notice that was written before
 * is left alone. `now` is Unix ms. Returns the number of deliveries. Two statements for any number of notices; one
 * without a channel.
 */
export async function writeDeliveries(sql: Db, now: number, notices: readonly OutboxNotice[]): Promise<number> {
  if (notices.length === 0) return 0;
  const rows = planDeliveries(notices, await selectRecipients(sql, notices), now);
  return rows.length === 0 ? 0 : await insertDeliveries(sql, now, rows);
}

const openings: readonly Reason[] = ["opened", "reopened"];

/**
 * The deliveries of the notices. A notice may depend on one before it in the same batch, so the array is walked in
 * order.
 */
function planDeliveries(
  notices: readonly OutboxNotice[],
  recipients: readonly Recipient[],
  now: number,
): NewDelivery[] {
  const notified = new Set<string>();
  const lastCreated = new Map<string, number>();
  const rows: NewDelivery[] = [];
  for (const { at, channel_id, channel_name, channel_kind, notified: before, last_created_at } of recipients) {
    const { orgId, seq, notice } = notices[at]!;
    const pair = `${notice.incident_id}/${channel_id}`;
    if (notice.reason === "resolved" && !before && !notified.has(pair)) continue;
    if (openings.includes(notice.reason)) notified.add(pair);
    // Deliverers keep the order of creation. Clocks of replicas differ, so a later notice is also dated later.
    const createdAt = Math.max(now, (lastCreated.get(pair) ?? last_created_at?.getTime() ?? -Infinity) + 1);
    lastCreated.set(pair, createdAt);
    rows.push({
      id: newId(),
      orgId,
      channelId: channel_id,
      channelName: channel_name,
      channelKind: channel_kind,
      reason: notice.reason,
      seq,
      notice,
      createdAt,
    });
  }
  return rows;
}
