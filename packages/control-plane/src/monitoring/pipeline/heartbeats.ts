import type { AgentResult } from "@statusmesh/shared/agent-protocol";
import { heartbeatRegion } from "@statusmesh/shared/checks/heartbeat";
import { dayMs, secondMs } from "@statusmesh/shared/time";
import { addRuns, changeEvidence, type EvidenceChange, type LockedEvidence } from "../../alerting/incidents/engine.ts";
import { inTransaction, type System } from "../../platform/context.ts";
import * as heartbeats from "../heartbeats/engine.ts";
import type { HeartbeatTarget, NewPing, PingKind, Verdict, Window } from "../heartbeats/engine.ts";
import { countForOrgs } from "../results/engine.ts";
import { markLate } from "../results/service.ts";
import { insertResults } from "./ingest-queries.ts";

/*
 * From pings and missed reports to results and evidence: the part of ingest for monitors that no agent probes.
 */

/** Makes the partitions of UTC days (`2026-11-20`). */
type PrepareDays = (days: readonly string[]) => Promise<void>;

/** A ping as it arrived. */
export interface ReceivedPing {
  /** Of its address. */
  readonly hash: string;
  readonly method: string;
  readonly kind: PingKind;
  readonly exitCode: number | null;
  readonly runId: string | null;
  readonly sourceIp: string;
  readonly userAgent: string;
  /** Unix ms. */
  readonly at: number;
  /** False for one beyond the rate limit: the job is alive, and no row is kept. */
  readonly isKept: boolean;
}

/** What became of a ping. `number`: of its row, null without one. */
export type PingOutcome = { targetId: string; number: number | null } | "unknown" | "post_only";

/** Pings of one transaction. */
const batchPings = 500;

/**
 * Opens the queue of pings of this process. Those that arrive while a transaction runs are the next one together, so
 * that a thousand a second need few transactions. The promise of a ping resolves once it is stored.
 */
export function openPings(system: System, prepareDays: PrepareDays): (ping: ReceivedPing) => Promise<PingOutcome> {
  let waiting: Waiting[] = [];
  let running = false;
  const run = async () => {
    running = true;
    while (waiting.length > 0) {
      const batch = waiting.slice(0, batchPings);
      waiting = waiting.slice(batch.length);
      try {
        const outcomes = await storePings(
          system,
          prepareDays,
          batch.map(({ ping }) => ping),
        );
        for (const [n, { resolve }] of batch.entries()) resolve(outcomes[n]!);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    running = false;
  };
  return (ping) =>
    new Promise((resolve, reject) => {
      waiting.push({ ping, resolve, reject });
      if (!running) void run();
    });
}

interface Waiting {
  ping: ReceivedPing;
  resolve(outcome: PingOutcome): void;
  reject(error: unknown): void;
}

/** What a transaction changes of one monitor. */
interface Changed {
  window: Window;
  pings: number;
  verdicts: Verdict[];
}

type Locked = LockedEvidence<HeartbeatTarget>;

/** Stores a batch of pings in one transaction. Returns the outcome of each. */
async function storePings(
  system: System,
  prepareDays: PrepareDays,
  batch: readonly ReceivedPing[],
): Promise<PingOutcome[]> {
  const now = system.clock.now();
  const addressed = new Map(
    (
      await heartbeats.selectAddressed(
        system.sql,
        batch.map(({ hash }) => hash),
        new Date(now),
      )
    ).map(({ hash, target_id }) => [hash, target_id]),
  );
  const targets = batch.map(({ hash }) => addressed.get(hash));
  if (addressed.size === 0) return batch.map(() => "unknown");
  await prepareDays(daysAround(now));
  return await changeEvidence(
    system,
    [...new Set(addressed.values())],
    heartbeats.selectHeartbeats,
    async (evidence, tx) => {
      const changed = new Map<string, Changed>();
      const rows: NewPing[] = [];
      const outcomes = batch.map((ping, n): PingOutcome => {
        const targetId = targets[n];
        const locked = targetId === undefined ? undefined : evidence.get(targetId);
        if (locked === undefined) return "unknown";
        const { target } = locked;
        if (target.spec.methods === "post" && ping.method !== "POST") return "post_only";
        const own = changed.get(target.id) ?? { window: target.window, pings: 0, verdicts: [] };
        const { window, verdict } = heartbeats.take(target.spec, own.window, ping);
        const verdicts = verdict === null ? own.verdicts : [...own.verdicts, verdict];
        changed.set(target.id, { window, verdicts, pings: own.pings + (ping.isKept ? 1 : 0) });
        if (!ping.isKept) return { targetId: target.id, number: null };
        const number = target.pings + own.pings + 1;
        const { at, kind, exitCode, runId, sourceIp, userAgent } = ping;
        const duration = verdict?.durationMs ?? null;
        rows.push({ targetId: target.id, number, at, kind, exitCode, runId, duration, sourceIp, userAgent });
        return { targetId: target.id, number };
      });
      if (rows.length > 0) await heartbeats.insertPings(tx.sql, rows);
      return { changes: await store(tx, evidence, changed), result: outcomes };
    },
  );
}

/** Writes the windows and the results of monitors, and returns what follows for their evidence. */
async function store(
  { sql, clock }: System,
  evidence: ReadonlyMap<string, Locked>,
  changed: ReadonlyMap<string, Changed>,
): Promise<Map<string, EvidenceChange>> {
  const now = clock.now();
  const changes = new Map<string, EvidenceChange>();
  const results: (AgentResult & { orgId: string })[] = [];
  for (const [id, { verdicts }] of changed) {
    const locked = evidence.get(id)!;
    // Pings of a paused monitor are kept, and are no results.
    if (!locked.target.enabled || verdicts.length === 0) continue;
    const own = resultsOf(locked, verdicts);
    results.push(...own.map((result) => ({ ...result, orgId: locked.target.org_id })));
    const runs = own.map(({ scheduled_at: slot, status, error }) => ({ slot, status, error, cause: null }));
    changes.set(id, {
      ...addRuns(locked, heartbeatRegion, runs, now),
      closedBy: "engine",
      lastResultAt: Math.min(now, own.at(-1)!.timestamp),
    });
  }
  if (results.length > 0) {
    await insertResults(sql, heartbeatRegion, results, { mayExist: true, sealed: false });
    await markLate(
      sql,
      results.map(({ target_id: targetId, scheduled_at: slot }) => ({ targetId, scheduledAt: new Date(slot) })),
      now,
    );
    await countForOrgs(
      sql,
      results.map(({ orgId, timestamp, status }) => ({ orgId, startedMs: timestamp, status })),
      now,
    );
  }
  await heartbeats.writeWindows(
    sql,
    [...changed].map(([targetId, { window, pings }]) => {
      const { spec, enabled } = evidence.get(targetId)!.target;
      return { targetId, pings, window, downAt: enabled ? heartbeats.downAt(spec, window) : null };
    }),
    new Date(now),
  );
  return changes;
}

/** Results have a duration of a day at most. */
const longestMs = dayMs;

/** The results of verdicts. The slot is the time, later where evidence has it: two pings may come in a millisecond. */
function resultsOf(locked: Locked, verdicts: readonly Verdict[]): AgentResult[] {
  let newest = locked.newestSlot(heartbeatRegion);
  return verdicts.map(({ at, status, error, durationMs }) => {
    newest = Math.max(at, newest + 1);
    return {
      target_id: locked.target.id,
      scheduled_at: newest,
      timestamp: newest,
      skip: false,
      status,
      error,
      http_status: null,
      response_size: null,
      dns_ms: null,
      connect_ms: null,
      tls_ms: null,
      ttfb_ms: null,
      total_ms: durationMs !== null && durationMs <= longestMs ? durationMs : null,
    };
  });
}

const daysAround = (now: number): string[] => [
  ...new Set([now - dayMs / 24, now].map((ms) => new Date(ms).toISOString().slice(0, 10))),
];

/** The watch is written this often, and a longer gap means that no ping could arrive. */
const watchMs = 5 * secondMs;
const gapMs = 15 * secondMs;
/** A ping that arrived in time may still wait for its transaction. */
const settleMs = 500;
/** Monitors of one transaction. */
const batchOverdue = 500;

/** True where a window is over, or the watch must be written. One statement. */
export async function isHeartbeatDue({ sql, clock }: System): Promise<boolean> {
  const now = clock.now();
  const { alive_at: alive, is_due: due } = await heartbeats.selectWatch(sql, new Date(now - settleMs));
  return due || alive === null || now - alive.getTime() >= watchMs;
}

/**
 * Makes a failing result of each missed report: of every window that is over, once on any number of replicas. After a
 * gap of the watch the open windows are extended first: without a control plane or its database no job could report.
 */
export async function followHeartbeats(system: System, prepareDays: PrepareDays): Promise<number> {
  const now = system.clock.now();
  await inTransaction(system, async ({ sql }) => {
    const before = await heartbeats.keepWatch(sql, new Date(now));
    if (before === null || now - before.getTime() <= gapMs) return;
    const extended = await heartbeats.extendWindows(sql, new Date(now));
    if (extended > 0)
      system.log.info(
        { heartbeats: extended, away_ms: now - before.getTime() },
        "no control plane took pings for a time: open windows of heartbeats are extended",
      );
  });
  await prepareDays(daysAround(now));
  let failed = 0;
  for (;;) {
    const ids = await heartbeats.selectOverdue(system.sql, new Date(now - settleMs), batchOverdue);
    if (ids.length === 0) return failed;
    failed += await changeEvidence(system, ids, heartbeats.selectHeartbeats, async (evidence, tx) => {
      const changed = new Map<string, Changed>();
      for (const [id, { target }] of evidence) {
        const missed = target.enabled ? heartbeats.miss(target.spec, target.window, now - settleMs) : null;
        changed.set(id, {
          window: missed?.window ?? target.window,
          pings: 0,
          verdicts: missed === null ? [] : [missed.verdict],
        });
      }
      const changes = await store(tx, evidence, changed);
      return { changes, result: changes.size };
    });
    if (ids.length < batchOverdue) return failed;
  }
}
