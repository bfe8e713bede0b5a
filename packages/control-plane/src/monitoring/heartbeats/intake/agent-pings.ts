import type { PingsReply, PingsRequest } from "@statusmesh/shared/protocol/agent-protocol";
import { keyOf } from "@statusmesh/shared/pings/address";
import { Semaphore } from "@statusmesh/shared/semaphore";
import { dayMs, minuteMs, secondMs } from "@statusmesh/shared/time";
import { oncePer } from "../../../platform/caches.ts";
import { type AgentCtx, inTransaction } from "../../../platform/context.ts";
import * as queries from "../queries.ts";
import * as addressQueries from "../address-queries.ts";
import * as pingQueries from "../ping-queries.ts";
import { gapMs, type PrepareDays, type ReceivedPing, storePings } from "./reports.ts";
import { busy, requireProtocol } from "../../pipeline/engine.ts";

/* Pings that agents took: jobs in a private network report there, also while the control plane is away. */

/** Times of pings, relative to now. */
const oldestMs = 7 * dayMs;
const newestMs = 5 * minuteMs;
/** Concurrent batches in the database, and batches that wait: beyond that agents keep them. */
const maxRunning = 2;
const queueLimit = 32;
/** An agent that had delivered nothing for so long was away: the windows that waited for it are looked at now. */
const awayMs = 15 * secondMs;
const quietMs = minuteMs;

export type TakeAgentPings = (ctx: AgentCtx, request: PingsRequest) => Promise<PingsReply>;

/** Opens the intake of agents' pings of this process. */
export function openAgentPings(prepareDays: PrepareDays): TakeAgentPings {
  const batches = new Semaphore(maxRunning, { maxWaiting: queueLimit, onFull: busy });
  const isLogDue = oncePer(quietMs);
  return async (ctx, request) => {
    requireProtocol(request.protocol);
    const reply = await batches.run("", () => take(ctx, prepareDays, request));
    const { dropped_unknown, dropped_method, dropped_time } = reply;
    const now = ctx.clock.now();
    if (dropped_unknown + dropped_method + dropped_time > 0 && isLogDue(ctx.agentId, now)) {
      ctx.log.warn(
        { agent_id: ctx.agentId, region: ctx.region, dropped_unknown, dropped_method, dropped_time },
        "pings that an agent took are dropped: no monitor has their address, or their time or method is refused",
      );
    }
    return reply;
  };
}

async function take(ctx: AgentCtx, prepareDays: PrepareDays, request: PingsRequest): Promise<PingsReply> {
  const now = ctx.clock.now();
  const timely = request.pings
    .filter(({ at }) => at >= now - oldestMs && at <= now + newestMs)
    .sort((a, b) => a.at - b.at);
  const pings = timely.map((ping): ReceivedPing => ({
    hash: keyOf(ping.address),
    at: Math.min(ping.at, now),
    method: ping.method,
    kind: ping.kind,
    exitCode: ping.exit_code,
    runId: ping.run_id,
    message: ping.message ?? null,
    durationMs: ping.duration_ms ?? null,
    sourceIp: ping.source_ip,
    userAgent: ping.user_agent,
    isKept: ping.beyond_rate !== true,
    by: { agentId: ctx.agentId, pingId: ping.id },
  }));
  return await inTransaction(ctx, async (tx) => {
    // The first batch makes the row that monitors refer to. What was delivered is noted at the end.
    const before = await queries.noteDelivered(tx.sql, ctx.agentId, { until: new Date(0), dropped: 0 });
    const outcomes = pings.length === 0 ? [] : await storePings(tx, prepareDays, pings);
    await keepBodies(tx, request, now);
    const unknown = timely.flatMap(({ address }, n) => (outcomes[n] === "unknown" ? [address] : []));
    const count = (of: string) => outcomes.filter((outcome) => outcome === of).length;
    const reply = {
      stored: outcomes.filter((outcome) => typeof outcome !== "string").length,
      duplicates: count("duplicate"),
      dropped_unknown: unknown.length,
      dropped_method: count("post_only"),
      dropped_time: request.pings.length - timely.length,
      unknown: [...new Set(unknown)],
    };
    const until = Math.min(request.until, now);
    const dropped = reply.dropped_unknown + reply.dropped_method + reply.dropped_time;
    await queries.noteDelivered(tx.sql, ctx.agentId, { until: new Date(until), dropped });
    await followAgent(tx, before?.getTime() ?? null, { until, since: request.listening_since });
    return reply;
  });
}

async function keepBodies(tx: AgentCtx, { bodies }: PingsRequest, now: number): Promise<void> {
  if (bodies.length === 0) return;
  const hashes = bodies.map(({ address }) => keyOf(address));
  const addressed = await addressQueries.selectAddressed(tx.sql, hashes, new Date(now));
  await pingQueries.writeBodiesOfAgent(
    tx.sql,
    bodies.flatMap(({ id, body }, n) => {
      const targetId = addressed.get(hashes[n]!);
      return targetId === undefined ? [] : [{ targetId, id, body }];
    }),
  );
}

/**
 * What follows for the windows of an agent's monitors. While it was not running no job could report to it: once all
 * that it took before is delivered, open windows are extended to its start.
 */
async function followAgent(
  { sql, agentId }: AgentCtx,
  before: number | null,
  { until, since }: { until: number; since: number },
): Promise<void> {
  if (before === null) return;
  if (before < since - gapMs && until >= since)
    await queries.extendWindows(sql, { before: new Date(before), now: new Date(since) }, agentId);
  if (before < until - awayMs) await queries.endHolds(sql, agentId);
}
