import type { Fragment } from "postgres";
import { minuteMs } from "@statusmesh/shared/time";
import type { Escalation } from "../../../access/orgs/schema.ts";
import { highest, isBelow, type Severity } from "@statusmesh/shared/severity";
import { inBatches, type System } from "../../../platform/context.ts";
import { portionsOf } from "../../../platform/process/turns.ts";
import { writeDeliveries } from "../../deliveries/engine.ts";
import * as queries from "./ladder-queries.ts";
import { outboxNotice } from "../evaluation/notices.ts";

/** Incidents of one transaction: what it writes is one message, and 1,000 take less than a second. */
const batch = 1000;
/** Incidents whose notices are written together, so that the event loop is not held. */
const portion = 100;

/** Where an incident is on its ladder. */
export interface Climb {
  /** after_minutes of the last level that is over; 0 before the first. */
  passed: number;
  /** When the ladder began, Unix ms. */
  from: number;
  severity: Severity;
  /** Levels that are over and whose channels were kept back by a gate. */
  gated: readonly queries.PassedOver[];
}

/** A level whose channels are notified now. Levels count from 1. */
export interface LevelNotice {
  level: number;
  channelIds: string[];
}

/**
 * The levels that are due at `now`, and the rest of the climb. A level none of whose channels can be reached goes on to
 * the next one at once. Where the last ones cannot be reached either, their existing channels get the notice all the
 * same, and it is held for them: nothing is lost. Channels whose gate is above the severity are passed over, and get
 * the notice of their level once the severity has risen.
 */
export function climb(
  ladder: Escalation,
  { passed, from, severity, gated: before }: Climb,
  now: number,
  channels: ReadonlyMap<string, queries.Reach>,
): { notices: LevelNotice[]; passed: number; gated: queries.PassedOver[]; dueAt: number | null } {
  const notices: LevelNotice[] = [];
  const gated: queries.PassedOver[] = [];
  const isKept = (id: string, level: Escalation[number]): boolean => {
    const channel = channels.get(id);
    return channel !== undefined && isBelow(severity, highest(channel.gate, level.min_severity));
  };
  /** Notes the channels of a level that a gate keeps back; returns the others. */
  const passGates = (level: Escalation[number], ids: readonly string[]): string[] => {
    const kept = ids.filter((id) => isKept(id, level));
    if (kept.length > 0) gated.push({ after_minutes: level.after_minutes, channel_ids: kept });
    return ids.filter((id) => !kept.includes(id));
  };
  for (const { after_minutes: minutes, channel_ids: ids } of before) {
    const at = ladder.findIndex((one) => one.after_minutes === minutes);
    if (at < 0) continue;
    const free = passGates(ladder[at]!, ids).filter((id) => channels.has(id));
    if (free.length > 0) notices.push({ level: at + 1, channelIds: free });
  }
  let skipped: string[] = [];
  // By minutes and not by number: the ladder may have changed since.
  let level = ladder.filter(({ after_minutes }) => after_minutes <= passed).length;
  for (; level < ladder.length; level++) {
    const { after_minutes: minutes, channel_ids: all } = ladder[level]!;
    if (skipped.length === 0 && from + minutes * minuteMs > now) break;
    const ids = passGates(ladder[level]!, all);
    if (ids.length === 0) continue;
    const reached = ids.filter((id) => channels.get(id)?.hours === "reachable");
    if (reached.length > 0) notices.push({ level: level + 1, channelIds: reached });
    skipped = reached.length > 0 ? [] : [...skipped, ...ids];
  }
  const held = [...new Set(skipped)].filter((id) => channels.has(id));
  if (held.length > 0) notices.push({ level, channelIds: held });
  const next = ladder[level];
  return {
    notices,
    passed: Math.max(passed, ladder[level - 1]?.after_minutes ?? 0),
    gated,
    dueAt: next === undefined ? null : from + next.after_minutes * minuteMs,
  };
}

/** How often levels are looked at that were held when they became due, ms. */
const heldEveryMs = 5_000;

/**
 * Whether levels are due, and what sends them, for a job that runs several times a second. Levels that are still due
 * after a look are held, maybe thousands of them and for days: they are looked at every {@link heldEveryMs}, those that
 * became due since that look at once.
 */
export function escalations() {
  /** Everything that was due until then has been looked at, at `allAt` for the last time; Unix ms. */
  let until = 0;
  let allAt = -Infinity;
  const unseen = (now: number): number => (now - allAt >= heldEveryMs || now < until ? 0 : until);
  return {
    isDue: (system: System): Fragment => areEscalationsDue(system, unseen(system.clock.now())),
    async run(system: System): Promise<number> {
      const now = system.clock.now();
      const after = unseen(now);
      const sent = await sendEscalations(system, after);
      until = now;
      if (after === 0) allAt = now;
      return sent;
    },
  };
}

/** False when {@link sendEscalations} would find nothing. */
export const areEscalationsDue = ({ sql, clock }: System, after = 0): Fragment =>
  queries.isEscalationDue(sql, dueIn(after, clock.now()));

const dueIn = (after: number, now: number): queries.DueRange => ({ after: new Date(after), until: new Date(now) });

/**
 * Notifies the levels that are due, of open incidents that nobody has acknowledged; only those that became due after
 * `after`, Unix ms. Returns the number of notices. May run on any number of replicas at once: each incident is taken by
 * one of them.
 */
export async function sendEscalations(system: System, after = 0): Promise<number> {
  return await inBatches(system, batch, async (tx) => {
    const now = tx.clock.now();
    const due = await queries.lockDueEscalations(tx.sql, dueIn(after, now), batch);
    if (due.length === 0) return { taken: 0, done: 0 };
    const named = due.flatMap(({ ladder }) => ladder.flatMap((level) => level.channel_ids));
    const channels = await queries.selectReachable(tx.sql, [...new Set(named)], now);
    const climbed = due.map((incident) => {
      const { ladder, from } = incident;
      return { ...climb(ladder, { ...incident, from: from.getTime() }, now, channels), incident };
    });
    await queries.writeClimbs(
      tx.sql,
      climbed.map(({ incident, passed, gated, dueAt, notices }) => ({
        id: incident.id,
        passed,
        gated,
        dueAt,
        sent: notices.length,
      })),
    );
    let done = 0;
    for (const some of portionsOf(climbed, portion)) {
      const notices = some.flatMap(({ incident, notices: levels }) =>
        levels.map(({ level, channelIds }, at) => {
          const planned = outboxNotice(incident, "unacknowledged", incident.sent + at, tx.config.server.public_url);
          return { ...planned, channelIds, notice: { ...planned.notice, level } };
        }),
      );
      await writeDeliveries(tx.sql, now, notices);
      done += notices.length;
    }
    return { taken: due.length, done };
  });
}
