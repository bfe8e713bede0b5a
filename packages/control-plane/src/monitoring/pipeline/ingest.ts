import postgres from "postgres";
import { AppError } from "@statusmesh/shared/errors";
import { type AgentResult, type ResultsReply, type ResultsRequest } from "@statusmesh/shared/protocol/agent-protocol";
import { dayMs, utcDays } from "@statusmesh/shared/time";
import { Semaphore } from "@statusmesh/shared/semaphore";
import { type AgentCtx, inTransaction } from "../../platform/context.ts";
import {
  type CapturedFailure,
  addRuns,
  changeEvidence,
  freeFailing,
  type EvidenceChange,
  keepSnapshots,
  type LockedEvidence,
  needsRecheck,
  type RunEvidence,
} from "../../alerting/incidents/engine.ts";
import type { Db } from "../../platform/db/client/sql.ts";
import { forEachInTurns } from "../../platform/process/turns.ts";
import { countForOrgs } from "../results/rollups/engine.ts";
import {
  keepCertificates,
  keepDetails,
  keepWarnings,
  type WarningsRow,
  withOwnDetails,
} from "../results/history/engine.ts";
import { lockSealing } from "../results/packing/engine.ts";
import { oldAfterMs } from "../results/engine.ts";
import { markLate } from "../results/rollups/service.ts";
import { type AdmittedResult, type Drops, fittingOf, openDropLog, timelyOf } from "./admission.ts";
import { type BatchWatch, type IngestLoad, openLoad } from "./load.ts";
import { insertResults, type ProbedTarget, selectProbedTargets } from "./ingest-queries.ts";
import { recordRunReplies } from "./on-demand.ts";
import { requireProtocol } from "./protocol.ts";

/** Concurrent batches in the database, and batches in the queue: beyond that, agents keep their results and retry. */
const maxRunning = 4;
const queueLimit = 32;

export const busy = (): AppError =>
  new AppError("INGEST_BUSY", "The ingest queue is full. Keep the results and send them again.", { retryAfterSecs: 1 });

export interface Ingest {
  (ctx: AgentCtx, request: ResultsRequest): Promise<ResultsReply>;
  readonly load: IngestLoad;
}

/** Opens the ingest of this process. `prepareDays` creates the partitions of UTC days (`2026-11-20`). */
export function openIngest(
  prepareDays: (days: readonly string[]) => Promise<void>,
  watch: BatchWatch = () => {},
): Ingest {
  const batches = new Semaphore(maxRunning, { maxWaiting: queueLimit, onFull: busy });
  const load = openLoad();
  const logDrops = openDropLog();
  const take = async (ctx: AgentCtx, request: ResultsRequest): Promise<ResultsReply> => {
    requireProtocol(request.protocol);
    const now = ctx.clock.now();
    const drops: Drops = {};
    const timely = timelyOf(request.results, now, drops);
    load.queued += timely.length;
    const reply = await batches
      .run("", async () => {
        if (timely.length === 0) return nothing;
        await prepareDays(utcDays(timely.map(({ scheduled_at: slot }) => slot)));
        return await ingestOnce(ctx, timely, drops);
      })
      .catch((error: unknown) => {
        watch({ outcome: error instanceof AppError && error.code === "INGEST_BUSY" ? "busy" : "failed" });
        throw error;
      })
      .finally(() => (load.queued -= timely.length));
    const counts = { ...reply, dropped_future: request.results.length - timely.length };
    load.drop(counts.dropped_future + reply.dropped_unassigned + reply.dropped_off_schedule, now);
    watch({ outcome: "stored", ms: ctx.clock.now() - now, ...counts });
    await recordRunReplies(ctx, request.runs);
    await logDrops(ctx, drops);
    return counts;
  };
  return Object.assign(take, { load });
}

type BatchReply = Omit<Required<ResultsReply>, "dropped_future">;
const nothing: BatchReply = {
  stored: 0,
  duplicates: 0,
  dropped_unassigned: 0,
  dropped_off_schedule: 0,
  rechecks: [],
};

/**
 * Ingests a batch as one of new results, and where the database has one of them, again as one with duplicates.
 * Duplicates are rare, and looking for them costs a speculative insertion and 48 bytes of WAL a row.
 */
async function ingestOnce(ctx: AgentCtx, batch: readonly AgentResult[], drops: Drops): Promise<BatchReply> {
  const before = { ...drops };
  try {
    return await ingestBatch(ctx, batch, drops, false);
  } catch (error) {
    if (!(error instanceof postgres.PostgresError) || !mayBeDuplicate(error)) throw error;
    for (const reason of Object.keys(drops) as (keyof Drops)[]) delete drops[reason];
    Object.assign(drops, before);
    return await ingestBatch(ctx, batch, drops, true);
  }
}

/** A row whose key is there already: SQLSTATE 23505. Citus reports every error of a worker's COPY as XX000. */
const mayBeDuplicate = ({ code, file }: postgres.PostgresError): boolean =>
  code === "23505" || (code === "XX000" && file === "multi_copy.c");

/**
 * One batch, in one transaction: lock the evidence of its targets, insert the new results, fold them into the
 * evidence, and write the consequences. A replayed batch inserts nothing and so changes nothing.
 */
async function ingestBatch(
  ctx: AgentCtx,
  batch: readonly AgentResult[],
  drops: Drops,
  mayExist: boolean,
): Promise<BatchReply> {
  const work = async (tx: AgentCtx): Promise<BatchReply> => {
    const { reply, captured, failures } = await ingestResults(tx, batch, drops, mayExist);
    await freeFailing(tx.sql, failures);
    // After the incidents, which decide which of them stay.
    if (captured.length > 0) await keepSnapshots(tx, ctx.region, captured);
    return reply;
  };
  return await inTransaction(ctx, work, { readsFirst: true });
}

async function ingestResults(
  ctx: AgentCtx,
  batch: readonly AgentResult[],
  drops: Drops,
  mayExist: boolean,
): Promise<{ reply: BatchReply; captured: CapturedFailure[]; failures: { targetId: string; at: number }[] }> {
  const ids = [...new Set(batch.map((result) => result.target_id))];
  const assigned = (sql: Db, locked: readonly string[]) => selectProbedTargets(sql, locked, ctx.region);
  return await changeEvidence(ctx, ids, assigned, async (evidence, { sql }) => {
    const assignedTo = (id: string) => evidence.get(id)?.target;
    const unassigned = batch.filter((result) => !evidence.has(result.target_id)).length;
    const mine = (await fittingOf(sql, ctx.region, batch, assignedTo, drops)).map((result) =>
      withOwnDetails(assignedTo(result.target_id)!.kind, result),
    );
    const late = await sealedOf(sql, ctx.clock.now(), mine);
    const recent = mine.filter((result) => !late.has(result));
    const stored = [
      ...(await insertResults(sql, ctx.region, recent, {
        mayExist: mayExist || mayHaveDuplicates(evidence, ctx.region, recent),
        sealed: false,
      })),
      ...(await insertResults(sql, ctx.region, [...late], { mayExist: true, sealed: true })),
    ];
    // A run of an earlier check is history only: an agent that was not sent the edit continues with it.
    const current = stored.filter(({ target_id: id, version }) => {
      return version === undefined || Number(version) >= assignedTo(id)!.check_version;
    });
    const changes = await addToEvidence(ctx, evidence, current);
    const reply = {
      stored: stored.length,
      duplicates: mine.length - stored.length,
      dropped_unassigned: unassigned,
      dropped_off_schedule: batch.length - unassigned - mine.length,
      rechecks: [...evidence.values()]
        .filter((locked) => locked.target.enabled && needsRecheck(locked, changes.get(locked.target.id), ctx.region))
        .map((locked) => locked.target.id),
    };
    const captured = capturedOf(ctx.region, evidence, current, changes);
    const failures = current
      .filter(({ target_id: id, status, skip }) => status !== "up" && !skip && evidence.get(id)!.target.enabled)
      .map(({ target_id: targetId, timestamp: at }) => ({ targetId, at }));
    const writes = Promise.all([
      countStored(sql, ctx.clock.now(), assignedTo, stored),
      keepFindings(sql, assignedTo, current),
      keepWarnings(sql, warningsAfter(evidence, ctx.region, current)),
    ]);
    return { changes, result: { reply, captured, failures }, writes };
  });
}

/** The results of days that are sealed. Until the transaction ends no other day is. */
export async function sealedOf(sql: Db, now: number, results: readonly AdmittedResult[]): Promise<Set<AdmittedResult>> {
  const old = results.filter(({ scheduled_at: slot }) => (Math.floor(slot / dayMs) + 1) * dayMs < now - oldAfterMs);
  if (old.length === 0) return new Set();
  const to = (await lockSealing(sql))?.getTime() ?? -Infinity;
  return new Set(old.filter(({ scheduled_at: slot }) => slot < to));
}

/** The responses of failing runs that are evidence, with the start of the streak of their target in the region. */
function capturedOf(
  region: string,
  evidence: ReadonlyMap<string, LockedEvidence<ProbedTarget>>,
  stored: readonly AdmittedResult[],
  changes: ReadonlyMap<string, EvidenceChange>,
): CapturedFailure[] {
  return stored.flatMap(({ snapshot, target_id: targetId, scheduled_at: slot, status, skip }) => {
    if (snapshot === undefined || skip || status === "up") return [];
    const change = changes.get(targetId);
    const state = change === undefined || "newest" in change ? undefined : change.evaluation.checkpoint.regions[region];
    const since = state?.kind === "failing" && state.streak > 0 ? state.since : null;
    return [{ orgId: evidence.get(targetId)!.target.org_id, targetId, slot, since, snapshot }];
  });
}

/** Marks the hours of new results for the rollup, and counts them for their organisations. */
async function countStored(
  sql: Db,
  now: number,
  targetOf: (id: string) => ProbedTarget | undefined,
  stored: readonly AdmittedResult[],
): Promise<void> {
  const counted = stored.filter((result) => !result.skip && result.recheck !== true);
  await Promise.all([
    // All of them: an hour also stores how many results it has.
    markLate(sql, stored, now),
    countForOrgs(sql, counted, (id) => targetOf(id)!.org_id, now),
  ]);
}

/** Stores certificates and details that runs of the present checks found. */
async function keepFindings(
  sql: Db,
  targetOf: (id: string) => ProbedTarget | undefined,
  current: readonly AdmittedResult[],
): Promise<void> {
  const owned = current.map((result) => {
    const { org_id: orgId, kind } = targetOf(result.target_id)!;
    return { orgId, kind, result };
  });
  await Promise.all([
    keepCertificates(sql, owned),
    keepDetails(
      sql,
      owned.flatMap((one) => (one.result.details == null ? [] : [{ ...one, details: one.result.details }])),
    ),
  ]);
}

/** Changed warnings of targets: those of the newest of these runs, unless the region has had a newer one. */
function warningsAfter(
  evidence: ReadonlyMap<string, LockedEvidence<ProbedTarget>>,
  region: string,
  stored: readonly AdmittedResult[],
): WarningsRow[] {
  const newest = new Map<string, AdmittedResult>();
  for (const result of stored) {
    const { target_id: id, scheduled_at: slot, skip, cause } = result;
    // A skipped run and one that the circuit breaker refused have seen nothing.
    if (skip || cause !== undefined) continue;
    if ((result.warnings ?? evidence.get(id)!.stored.warnings) == null) continue;
    if (slot >= (newest.get(id)?.scheduled_at ?? evidence.get(id)!.newestSlot(region))) newest.set(id, result);
  }
  return [...newest.values()].flatMap(({ target_id, warnings = [] }) => {
    const { [region]: before = [], ...others } = evidence.get(target_id)!.stored.warnings ?? {};
    if (before.length === warnings.length && before.every((text, at) => text === warnings[at])) return [];
    const after = warnings.length === 0 ? others : { ...others, [region]: warnings };
    return { target_id, warnings: Object.keys(after).length === 0 ? null : after };
  });
}

/**
 * False when each result is newer than all evidence of its target from the region, and the batch has none of them
 * twice.
 */
function mayHaveDuplicates(
  evidence: ReadonlyMap<string, LockedEvidence<ProbedTarget>>,
  region: string,
  batch: readonly AgentResult[],
): boolean {
  const newest = new Map<string, number>();
  for (const { target_id: id, scheduled_at: slot } of batch) {
    if (slot <= (newest.get(id) ?? evidence.get(id)!.newestSlot(region))) return true;
    newest.set(id, slot);
  }
  return false;
}

/** Adds results to the evidence of their targets. Those of a paused target or a disabled region are history only. */
async function addToEvidence(
  ctx: AgentCtx,
  evidence: ReadonlyMap<string, LockedEvidence<ProbedTarget>>,
  stored: readonly AdmittedResult[],
): Promise<Map<string, EvidenceChange>> {
  const now = ctx.clock.now();
  const byTarget = new Map<string, AgentResult[]>();
  for (const result of stored) {
    const results = byTarget.get(result.target_id);
    if (results === undefined) byTarget.set(result.target_id, [result]);
    else results.push(result);
  }
  const changes = new Map<string, EvidenceChange>();
  await forEachInTurns([...byTarget], ([id, results]) => {
    const locked = evidence.get(id)!;
    const runs: RunEvidence[] = [];
    // The agent reports the time of a run; a time in the future would remain the last check.
    let lastResultAt = 0;
    for (const { scheduled_at: slot, timestamp, status, error, cause = null, diagnosis = null, skip } of results) {
      lastResultAt = Math.min(now, Math.max(lastResultAt, timestamp));
      if (locked.target.enabled && !skip) runs.push({ slot, status, error, cause, diagnosis });
    }
    changes.set(id, { ...addRuns(locked, ctx.region, runs, now), closedBy: "engine", lastResultAt });
  });
  return changes;
}
