import type { AgentResult } from "@statusmesh/shared/agent-protocol";
import { isOnGrid, type KnownSchedule, type Misfit, misfitOf } from "@statusmesh/shared/schedule";
import { getAgent } from "../agents/service.ts";
import type { AgentCtx } from "../context.ts";
import type { Db } from "../db/sql.ts";
import { issuedKey, selectIssued } from "../results/engine.ts";

const dayMs = 86_400_000;
const quietMs = 60_000;

/** A slot or a run later than this ahead of this clock cannot be: the agent's time is wrong. */
const futureMs = 300_000;
/** Raw results are kept for this long; older ones would have nowhere to go. */
export const retentionMs = 90 * dayMs;

/** What of a target decides which slots it has. */
export interface ScheduledTarget {
  id: string;
  created_at: Date;
  /** The present interval and the earlier ones, in seconds. */
  intervals: readonly number[];
}

/** Why results are dropped, and how many. */
export type Drops = Partial<Record<Misfit | "future" | "too_old", number>>;

/** The results of a time that can be; the others are counted in `drops`. `now` is Unix ms. */
export function timelyOf(results: readonly AgentResult[], now: number, drops: Drops): AgentResult[] {
  return results.filter(({ scheduled_at: slot, timestamp }) => {
    if (slot <= now - retentionMs) count(drops, "too_old");
    else if (slot > now + futureMs || timestamp > now + futureMs) count(drops, "future");
    else return true;
    return false;
  });
}

/**
 * The results of targets of the region that fit the schedule of their target; the others are counted in `drops`.
 * Results of other targets are left out. {@link misfitOf} has the rule.
 */
export async function fittingOf(
  sql: Db,
  region: string,
  results: readonly AgentResult[],
  targetOf: (id: string) => ScheduledTarget | undefined,
  drops: Drops,
): Promise<AgentResult[]> {
  const schedules = new Map<string, KnownSchedule>();
  const scheduleOf = (target: ScheduledTarget): KnownSchedule => {
    let schedule = schedules.get(target.id);
    if (schedule === undefined) {
      const intervalsMs = target.intervals.map((secs) => secs * 1000);
      schedule = { targetId: target.id, region, createdAt: target.created_at.getTime(), intervalsMs };
      schedules.set(target.id, schedule);
    }
    return schedule;
  };
  const known = results.flatMap((result) => {
    const target = targetOf(result.target_id);
    return target === undefined ? [] : [{ result, schedule: scheduleOf(target) }];
  });
  const offGrid = known
    .filter(({ result, schedule }) => !isOnGrid(schedule, result.scheduled_at))
    .map(({ result }) => ({ targetId: result.target_id, slotMs: result.scheduled_at }));
  const issued = await selectIssued(sql, region, offGrid);
  return known.flatMap(({ result, schedule }) => {
    const run = { slotMs: result.scheduled_at, startedMs: result.timestamp };
    const misfit = misfitOf(schedule, run, () => issued.has(issuedKey({ ...run, targetId: result.target_id })));
    if (misfit === null) return [result];
    count(drops, misfit);
    return [];
  });
}

function count(drops: Drops, reason: keyof Drops): void {
  drops[reason] = (drops[reason] ?? 0) + 1;
}

/** Logs dropped results, once a minute for each agent, with all that were dropped since the last line. */
export function openDropLog(): (ctx: AgentCtx, drops: Drops) => Promise<void> {
  const agents = new Map<string, { quietUntil: number; drops: Drops }>();
  return async (ctx, drops) => {
    if (Object.keys(drops).length === 0) return;
    const now = ctx.clock.now();
    for (const [id, { quietUntil }] of agents) if (quietUntil < now - quietMs) agents.delete(id);
    const known = agents.get(ctx.agentId) ?? { quietUntil: 0, drops: {} };
    for (const [reason, some] of Object.entries(drops) as [keyof Drops, number][])
      known.drops[reason] = (known.drops[reason] ?? 0) + some;
    agents.set(ctx.agentId, known);
    if (now < known.quietUntil) return;
    const dropped = known.drops;
    agents.set(ctx.agentId, { quietUntil: now + quietMs, drops: {} });
    const { name } = await getAgent(ctx, ctx.agentId);
    ctx.log.warn(
      { agent: name, agent_id: ctx.agentId, region: ctx.region, dropped },
      "results of an agent are dropped: they fit no schedule that it was given",
    );
  };
}
