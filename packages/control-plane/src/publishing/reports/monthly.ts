import { minuteMs, utcDay } from "@statusmesh/shared/time";
import { messageOf, stackOf } from "@statusmesh/shared/thrown";
import { DeliveryError } from "../../alerting/channels/kinds/service.ts";
import { mailChannel } from "../../alerting/channels/service.ts";
import { backoffMs } from "../../alerting/deliveries/service.ts";
import { actingAsOwner, type System } from "../../platform/context.ts";
import { failureOf } from "../../platform/db/client/failures.ts";
import { instantOf, localOf } from "@statusmesh/shared/zoned";
import { monthlyMail, type ReportedMonth } from "./monthly-mail.ts";
import * as queries from "./recipient-queries.ts";
import type { Grouping, UptimeRow } from "./schema.ts";
import { uptimeReport } from "./service.ts";

/*
 * The uptime report by mail: after the first of a month, 08:00 in the organisation's zone, each recipient gets one mail
 * about the month before. The row of the recipient names the month and has the lease of its mail: a replica that is
 * killed loses it when it expires, and the mail is sent by another one. A mail that the server has accepted and that
 * was not recorded is sent again, with the same Message-ID.
 */

/** Of the first day of the month, local time. */
const dueHour = 8;
/** Time to compute a report. The lease is extended before the mail goes out. */
const leaseMs = 15 * minuteMs;
/** 30 s doubled up to an hour: about three days, in which a mail server is repaired. */
const maxAttempts = 78;
/** Recipients of a run; the next one follows a minute later. */
const batch = 200;
/** A run ends after so many mails that are not accepted for now: all are sent through one server. */
const maxRefused = 3;
/** Rows of the report that are read at once. */
const rowsAtOnce = 1_000;

/** The month that is due in a zone: its first day, and when its mails were due. */
export function dueMonth(zone: string, now: number): queries.ZoneMonth {
  const local = new Date(localOf(now, zone));
  const [year, month] = [local.getUTCFullYear(), local.getUTCMonth()];
  const dueIn = (at: number) => instantOf(Date.UTC(year, at, 1, dueHour), zone);
  const at = dueIn(month) <= now ? month : month - 1;
  return { zone, month: utcDay(Date.UTC(year, at - 1, 1)), dueAt: dueIn(at) };
}

async function due({ sql, clock }: System): Promise<queries.DueRecipient[]> {
  const now = clock.now();
  const zones = await queries.selectZones(sql);
  if (zones.length === 0) return [];
  const months = zones.map((zone) => dueMonth(zone, now));
  return await queries.selectDue(sql, months, new Date(now), batch);
}

/** Sends the reports that are due, one at a time. Returns their number. Any number of replicas may run it at once. */
export async function sendMonthlyReports(system: System, signal?: AbortSignal): Promise<number> {
  const readRows = openReader(system);
  const counts = { sent: 0, refused: 0, failed: 0, passed: 0 };
  for (const recipient of await due(system)) {
    if (signal?.aborted === true || counts.refused === maxRefused) break;
    counts[await sendOne(system, recipient, readRows)]++;
  }
  return counts.sent;
}

type RowsOf = (recipient: queries.DueRecipient) => Promise<readonly UptimeRow[]>;

/** `refused`: not now; `failed`: this one only; `passed`: another process has it. */
async function sendOne(
  system: System,
  recipient: queries.DueRecipient,
  readRows: RowsOf,
): Promise<"sent" | "failed" | "refused" | "passed"> {
  const { sql, clock, log, config } = system;
  const now = () => new Date(clock.now());
  const lease = () => new Date(clock.now() + leaseMs);
  let leasedUntil = lease();
  const attempt = await queries.leaseMail(sql, recipient, now(), leasedUntil);
  if (attempt === null) return "passed";
  const { id, org_id: orgId, channel_id: channelId, month } = recipient;
  const write = async (outcome: queries.MailOutcome) =>
    await queries.writeMail(sql, recipient, leasedUntil, outcome, now());
  try {
    const mail = monthlyMail(await monthOf(recipient, config.server.public_url, readRows));
    const extended = lease();
    // Computing may have taken longer than the lease.
    if (!(await write({ state: "pending", nextAt: extended, error: null }))) return "passed";
    leasedUntil = extended;
    const messageId = `<report-${id}-${month}@${new URL(config.server.public_url).hostname}>`;
    await mailChannel(system, orgId, channelId, { ...mail, messageId });
    await write({ state: "sent", nextAt: null, error: null });
    return "sent";
  } catch (error) {
    if (failureOf(error) !== null) throw error;
    const reason = messageOf(error);
    const isRefusal = error instanceof DeliveryError;
    if (isRefusal) log.info({ recipient: id, month, attempt, reason }, "a monthly report was not accepted");
    else log.error({ recipient: id, month, err: stackOf(error) }, "a monthly report could not be made");
    const isLast = (isRefusal && error.permanent) || attempt >= maxAttempts;
    const nextAt = isLast ? null : new Date(clock.now() + backoffMs(attempt, Math.random()));
    await write({ state: isLast ? "failed" : "pending", nextAt, error: isRefusal ? reason : "internal error" });
    return isRefusal && !error.permanent ? "refused" : "failed";
  }
}

const groupingOf = ({ page_id, tag }: queries.DueRecipient): Grouping =>
  page_id !== null ? "page" : tag !== null ? "tag" : "target";

/** Last day of the month that begins on a day, both as `2026-10-01`. */
const lastDayOf = (first: string): string => {
  const at = new Date(`${first}T00:00:00Z`);
  return utcDay(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 0));
};

async function monthOf(recipient: queries.DueRecipient, publicUrl: string, readRows: RowsOf): Promise<ReportedMonth> {
  const { month, timezone, page_id, page_name, tag, org_name } = recipient;
  const group_by = groupingOf(recipient);
  const query = new URLSearchParams({ from: month, to: lastDayOf(month), group_by });
  return {
    month,
    timezone,
    about:
      page_id !== null
        ? { kind: "page", name: page_name! }
        : tag !== null
          ? { kind: "tag", name: tag }
          : { kind: "organisation", name: org_name },
    rows: await readRows(recipient),
    url: `${publicUrl}/reports/uptime?${query}`,
  };
}

/** Reads the rows of a month. Recipients of the same report follow one another and share them. */
function openReader(system: System): RowsOf {
  let last: { key: string; rows: Promise<UptimeRow[]> } | null = null;
  return async (recipient) => {
    const { org_id, month, page_id, tag } = recipient;
    const key = JSON.stringify([org_id, month, page_id, tag]);
    if (last?.key !== key) last = { key, rows: readAll(system, recipient) };
    return await last.rows;
  };
}

async function readAll(system: System, recipient: queries.DueRecipient): Promise<UptimeRow[]> {
  const { org_id: orgId, owner_id: userId, month, page_id, tag } = recipient;
  const ctx = actingAsOwner(system, { orgId, userId }, "monthly report");
  const range = { from: month, to: lastDayOf(month), group_by: groupingOf(recipient) };
  const rows: UptimeRow[] = [];
  for (let total = 1; rows.length < total;) {
    const page = await uptimeReport(ctx, { ...range, limit: rowsAtOnce, offset: rows.length }, page_id ?? tag);
    if (page.items.length === 0) break;
    rows.push(...page.items);
    ({ total } = page);
  }
  return rows;
}
