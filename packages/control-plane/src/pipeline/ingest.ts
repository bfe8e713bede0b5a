import type { Sql, TransactionSql } from "postgres";
import { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { circuitOpen } from "@statusmesh/shared/result";
import { type AgentResult, type ResultsReply, type ResultsRequest } from "@statusmesh/shared/agent-protocol";
import { type AgentCtx, inTransaction } from "../context.ts";
import { arrayOf } from "../db/array.ts";
import {
  evaluate,
  type EvaluatedTarget,
  freshnessMs,
  lockStates,
  type LockedState,
  parseState,
  policyOf,
  type PolicyFields,
  read,
  recordEvaluations,
  type StateUpdate,
  verdictOf,
  writeStates,
} from "../incidents/engine.ts";
import { countForOrgs } from "../results/engine.ts";
import { markLate } from "../results/service.ts";
import { type BatchWatch, type IngestLoad, openLoad } from "./load.ts";
import { recordRunReplies } from "./on-demand.ts";
import { requireProtocol } from "./protocol.ts";

type Db = Sql | TransactionSql;

/** A slot later than this is not to be believed: the agent's idea of the time is wrong. */
const futureMs = 300_000;
/** Raw results are kept for this long; older ones would have nowhere to go. */
export const retentionMs = 90 * 86_400_000;

/** Batches in the database at once, and batches that may wait for them. */
const lanes = 4;
const queueLimit = 32;

/** A first-come queue of fixed size before the database: when it is full, agents keep their results and come again. */
export function makeGate(limit: number, waitingLimit: number) {
  let running = 0;
  const waiting: (() => void)[] = [];
  return {
    depth: () => waiting.length,
    async run<T>(work: () => Promise<T>): Promise<T> {
      if (running >= limit) {
        if (waiting.length >= waitingLimit)
          throw new AppError(
            "INGEST_BUSY",
            "The control plane takes no more results for the moment. Keep them and send them again.",
            { retryAfterSecs: 1 },
          );
        await new Promise<void>((resolve) => waiting.push(resolve));
      } else running++;
      try {
        return await work();
      } finally {
        const next = waiting.shift();
        if (next === undefined) running--;
        else next();
      }
    },
  };
}

export interface Ingest {
  (ctx: AgentCtx, request: ResultsRequest): Promise<ResultsReply>;
  readonly load: IngestLoad;
}

/** Opens the ingest of this process. `prepareDays` makes sure that the partitions of some UTC days (`2026-11-20`) exist. */
export function openIngest(
  prepareDays: (days: readonly string[]) => Promise<void>,
  watch: BatchWatch = () => {},
): Ingest {
  const gate = makeGate(lanes, queueLimit);
  const load = openLoad();
  const take = async (ctx: AgentCtx, request: ResultsRequest): Promise<ResultsReply> => {
    requireProtocol(request.protocol);
    const now = ctx.clock.now();
    const timely = request.results.filter(
      (result) => result.scheduled_at <= now + futureMs && result.scheduled_at > now - retentionMs,
    );
    load.queued += timely.length;
    const reply = await gate
      .run(async () => {
        if (timely.length === 0) return { stored: 0, duplicates: 0, dropped_unassigned: 0 };
        await prepareDays([...new Set(timely.map((result) => dayOf(result.scheduled_at)))]);
        return await inTransaction(ctx, async (tx) => await ingestBatch(tx, timely));
      })
      .catch((error: unknown) => {
        watch({ outcome: error instanceof AppError && error.code === "INGEST_BUSY" ? "busy" : "failed" });
        throw error;
      })
      .finally(() => (load.queued -= timely.length));
    const untimely = request.results.length - timely.length;
    load.drop(untimely + reply.dropped_unassigned, now);
    watch({ outcome: "stored", ms: ctx.clock.now() - now, ...reply, dropped_future: untimely });
    await recordRunReplies(ctx, request.runs);
    return { ...reply, dropped_future: untimely };
  };
  return Object.assign(take, { load });
}

const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

interface TargetRow extends PolicyFields {
  id: string;
  org_id: string;
  name: string;
  enabled: boolean;
  renotify_interval_secs: number;
  notify_recovery: boolean;
}

/**
 * One batch, in one transaction: lock the evidence of its targets, store the results that are new, fold those into the
 * evidence, and write what follows from it. A batch sent twice stores nothing the second time and so changes nothing.
 */
async function ingestBatch(
  ctx: AgentCtx,
  batch: readonly AgentResult[],
): Promise<Omit<ResultsReply, "dropped_future">> {
  const { sql } = ctx;
  const states = new Map(
    (await lockStates(sql, [...new Set(batch.map((result) => result.target_id))])).map((state) => [
      state.target_id,
      state,
    ]),
  );
  // A statement of its own, so that it sees the policy edits whose locks the first one waited for.
  const targets = new Map(
    (await selectAssigned(sql, [...states.keys()], ctx.region)).map((target) => [target.id, target]),
  );
  const mine = batch.filter((result) => targets.has(result.target_id));
  const stored = await insertResults(sql, ctx.region, mine);
  if (stored.length > 0) {
    await markLate(
      sql,
      stored.map((result) => ({ targetId: result.target_id, scheduledAt: new Date(result.scheduled_at) })),
      ctx.clock.now(),
    );
    await countForOrgs(
      sql,
      stored
        .filter((result) => !result.skip)
        .map((result) => ({
          orgId: targets.get(result.target_id)!.org_id,
          scheduledAt: result.scheduled_at,
          status: result.status,
        })),
      ctx.clock.now(),
    );
    await fold(ctx, states, targets, stored);
  }
  return {
    stored: stored.length,
    duplicates: mine.length - stored.length,
    dropped_unassigned: batch.length - mine.length,
  };
}

/** The targets that the region probes. Those of a deleted organisation are nobody's. */
async function selectAssigned(sql: Db, ids: readonly string[], region: string): Promise<TargetRow[]> {
  return await sql<TargetRow[]>`
    select t.id, t.org_id, t.name, (t.spec ->> 'timeout')::int as timeout, t.interval_secs, t.enabled, t.alert_confirmations, t.region_policy, t.renotify_interval_secs, t.notify_recovery
    from targets t join target_regions r on r.target_id = t.id and r.region_id = ${region} join orgs o on o.id = t.org_id and o.deleted_at is null
    where t.id = any(${arrayOf(ids)}::uuid[])`;
}

/** Stores the results and returns those that were not there before. */
async function insertResults(sql: Db, region: string, batch: readonly AgentResult[]): Promise<AgentResult[]> {
  if (batch.length === 0) return [];
  const column = (of: (result: AgentResult) => string | number | boolean | null): string => arrayOf(batch.map(of));
  // Which ones were new is only asked for when some were not: in the common case one row comes back.
  const [inserted] = await sql<{ stored: number; keys: string[] | null }[]>`
    with inserted as (
      insert into results (target_id, scheduled_at, region, "timestamp", status, skip, error, http_status, response_size, dns_ms, connect_ms, tls_ms, ttfb_ms, total_ms)
      select target_id, scheduled_at, ${region}, "timestamp", status, skip, error, http_status, response_size, dns_ms, connect_ms, tls_ms, ttfb_ms, total_ms
      from unnest(${column((r) => r.target_id)}::uuid[], ${column((r) => new Date(r.scheduled_at).toISOString())}::timestamptz[], ${column((r) => new Date(r.timestamp).toISOString())}::timestamptz[],
        ${column((r) => r.status)}::text[], ${column((r) => r.skip)}::boolean[], ${batch.map((r) => r.error)}::text[], ${column((r) => r.http_status)}::smallint[], ${column((r) => r.response_size)}::integer[],
        ${column((r) => r.dns_ms)}::real[], ${column((r) => r.connect_ms)}::real[], ${column((r) => r.tls_ms)}::real[], ${column((r) => r.ttfb_ms)}::real[], ${column((r) => r.total_ms)}::real[])
        as u (target_id, scheduled_at, "timestamp", status, skip, error, http_status, response_size, dns_ms, connect_ms, tls_ms, ttfb_ms, total_ms)
      on conflict do nothing
      returning target_id, scheduled_at)
    select count(*)::int as stored, case when count(*) < ${batch.length} then array_agg(target_id || '/' || (extract(epoch from scheduled_at) * 1000)::bigint) end as keys from inserted`;
  if (inserted!.stored === batch.length) return [...batch];
  const fresh = new Set(inserted!.keys);
  // The same key twice in one batch was stored once: the first counts.
  return batch.filter((result) => fresh.delete(`${result.target_id}/${result.scheduled_at}`));
}

async function fold(
  ctx: AgentCtx,
  states: Map<string, LockedState>,
  targets: Map<string, TargetRow>,
  stored: readonly AgentResult[],
): Promise<void> {
  const byTarget = new Map<string, AgentResult[]>();
  for (const result of stored) {
    const runs = byTarget.get(result.target_id);
    if (runs === undefined) byTarget.set(result.target_id, [result]);
    else runs.push(result);
  }
  const updates: StateUpdate[] = [];
  const evaluated: EvaluatedTarget[] = [];
  for (const [id, results] of byTarget) {
    const { update, outcome } = foldTarget(ctx, states.get(id)!, targets.get(id)!, results);
    updates.push(update);
    if (outcome !== null) evaluated.push(outcome);
  }
  await writeStates(ctx.sql, updates);
  if (evaluated.length > 0)
    await recordEvaluations(ctx.sql, evaluated, ctx.config.server.public_url, new Date(ctx.clock.now()));
}

/** Folds the results of one target into its evidence. Results of a paused target are history only. */
function foldTarget(
  ctx: AgentCtx,
  locked: LockedState,
  target: TargetRow,
  results: readonly AgentResult[],
): { update: StateUpdate; outcome: EvaluatedTarget | null } {
  const policy = policyOf(target);
  const before = parseState(locked.state);
  const evidence = target.enabled ? results.filter((result) => !result.skip) : [];
  const latest = { ...before.latest };
  for (const { scheduled_at, status, error } of evidence) {
    const known = latest[ctx.region];
    if (scheduled_at <= (known?.slot ?? 0)) continue;
    // An open breaker only says that it is still as bad as it was; people want to read what opened it.
    const asBefore = error === circuitOpen && known !== undefined && known.status !== "up";
    latest[ctx.region] = asBefore
      ? { ...known, slot: scheduled_at }
      : { slot: scheduled_at, status, error: error?.slice(0, 200) ?? null };
  }
  const runs = evidence.map((result) => ({
    slot: result.scheduled_at,
    region: ctx.region,
    verdict: verdictOf(result.status),
  }));
  const evaluation = evaluate(policy, before.evaluation, runs, ctx.clock.now() - freshnessMs(policy), newId);
  const after = { evaluation: evaluation.state, latest };
  const { checkpoint } = evaluation;
  const reading = read(policy, after, checkpoint);
  // A status that had gone stale in between begins anew.
  const goesOn = reading.status === locked.status && (locked.status_until?.getTime() ?? 0) >= (reading.newest ?? 0);
  const failing = Object.values(checkpoint.regions).filter((region) => region.vote === "failing");
  const began =
    reading.status === "up" || failing.length === 0
      ? reading.newest
      : Math.min(...failing.map((region) => region.since));
  // The time of a run is the agent's word; one from the future would stand as the last check for good.
  const last = Math.min(
    ctx.clock.now(),
    results.reduce((newest, result) => Math.max(newest, result.timestamp), 0),
  );
  const update: StateUpdate = {
    targetId: target.id,
    state: JSON.stringify(after),
    status: reading.status,
    until: iso(reading.until),
    since: goesOn ? (locked.status_since?.toISOString() ?? null) : iso(began),
    lastResultAt: iso(last),
    lastError: reading.error,
  };
  const nothing =
    evaluation.inserted.length + evaluation.updated.length + evaluation.retracted.length + evaluation.notices.length ===
    0;
  const outcome = {
    orgId: target.org_id,
    targetId: target.id,
    name: target.name,
    renotifyIntervalSecs: target.renotify_interval_secs,
    notifyRecovery: target.notify_recovery,
    errorSample: reading.error,
    closedBy: "engine" as const,
    evaluation,
  };
  return { update, outcome: nothing ? null : outcome };
}

const iso = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());
