import type { AgentResult } from "@statusmesh/shared/protocol/agent-protocol";
import type { CheckType } from "@statusmesh/shared/checks";
import {
  firstTry,
  isOnGrid,
  isOnRecheckGrid,
  type KnownSchedule,
  type ScheduleViolation,
  scheduleViolation,
} from "@statusmesh/shared/schedule";
import { dayMs, minuteMs } from "@statusmesh/shared/time";
import { getAgent } from "../agents/registration/service.ts";
import type { AgentCtx } from "../../platform/context.ts";
import type { Db } from "../../platform/db/client/sql.ts";
import { issuedKey, leastRecheckMs, selectIssued } from "../results/slots/engine.ts";

const quietMs = minuteMs;

/** A slot or run further than this in the future is refused: the agent's clock is wrong. */
const futureMs = 300_000;
/** Retention of raw results: older ones have no partition. */
export const retentionMs = 90 * dayMs;

export interface AdmittedResult extends AgentResult {
  /** Set for a run between two slots of the schedule: evidence that counts in neither uptime nor latency. */
  readonly recheck?: true;
}

/** The part of a target that decides which slots it has. */
export interface ScheduledTarget {
  id: string;
  kind: CheckType;
  created_at: Date;
  /** The present interval and the earlier ones, in seconds. */
  intervals: readonly number[];
}

/** Number of dropped results by reason. */
export type Drops = Partial<Record<ScheduleViolation | "future" | "too_old", number>>;

/** The results with a possible time; the others are counted in `drops`. `now` is Unix ms. */
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
 * Results of other targets are left out. {@link scheduleViolation} has the rule.
 */
export async function fittingOf(
  sql: Db,
  region: string,
  results: readonly AgentResult[],
  targetOf: (id: string) => ScheduledTarget | undefined,
  drops: Drops,
): Promise<AdmittedResult[]> {
  const schedules = new Map<string, KnownSchedule>();
  const scheduleOf = ({ target_id: id }: AgentResult): KnownSchedule => {
    let schedule = schedules.get(id);
    if (schedule === undefined) {
      const target = targetOf(id)!;
      const intervalsMs = target.intervals.map((secs) => secs * 1000);
      schedule = {
        targetId: id,
        region,
        createdAt: target.created_at.getTime(),
        intervalsMs,
        leastRecheckMs: leastRecheckMs(target.kind),
      };
      schedules.set(id, schedule);
    }
    return schedule;
  };
  const known = results.filter((result) => targetOf(result.target_id) !== undefined);
  const offGrid = new Set(
    known.filter((result) => triesOf(result).every((slotMs) => !isOnGrid(scheduleOf(result), slotMs))),
  );
  const issued = await selectIssued(
    sql,
    region,
    [...offGrid].flatMap((result) => triesOf(result).map((slotMs) => ({ targetId: result.target_id, slotMs }))),
  );
  const fitting: AdmittedResult[] = [];
  for (const result of known) {
    const schedule = scheduleOf(result);
    const { target_id: targetId, scheduled_at: slotMs, timestamp: startedMs } = result;
    const isUnissued =
      offGrid.has(result) && !triesOf(result).some((tried) => issued.has(issuedKey({ targetId, slotMs: tried })));
    const isRecheck = isUnissued && isOnRecheckGrid(schedule, slotMs);
    const violation = scheduleViolation(schedule, { slotMs, startedMs }, !isUnissued || isRecheck);
    if (violation !== null) count(drops, violation);
    else fitting.push(isRecheck ? { ...result, recheck: true } : result);
  }
  return fitting;
}

/** The slots of which a result can be a run: its own, and the one that it is the second try of. */
const triesOf = ({ scheduled_at: slotMs }: AgentResult): readonly number[] => [slotMs, firstTry(slotMs)];

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
