import type { Fragment } from "postgres";
import type { AgentResult } from "@statusmesh/shared/protocol/agent-protocol";
import { heartbeatRegion } from "@statusmesh/shared/checks/heartbeat";
import type { PingKind } from "@statusmesh/shared/pings/address";
import { dayMs, hourMs, secondMs, utcDays } from "@statusmesh/shared/time";
import {
  addRuns,
  changeEvidence,
  type Decision,
  type EvidenceChange,
  type LockedEvidence,
  type Refuted,
} from "../../../alerting/incidents/engine.ts";
import { inTransaction, type System } from "../../../platform/context.ts";
import type { Db } from "../../../platform/db/client/sql.ts";
import * as queries from "../queries.ts";
import * as addressQueries from "../address-queries.ts";
import * as pingQueries from "../ping-queries.ts";
import * as windowsService from "../schedule/windows.ts";
import type { HeartbeatTarget } from "../queries.ts";
import type { NewPing } from "../ping-queries.ts";
import type { Verdict, Window } from "../schedule/windows.ts";
import { countForOrgs } from "../../results/rollups/engine.ts";
import { markLate } from "../../results/rollups/service.ts";
import { type AdmittedResult, deleteMissed, insertResults, sealedOf } from "../../pipeline/engine.ts";

/*
 * From pings and missed reports to results and evidence: the part of ingest for monitors that no agent probes.
 */

/** Makes the partitions of UTC days (`2026-11-20`). */
export type PrepareDays = (days: readonly string[]) => Promise<void>;

/** A ping as it arrived. */
export interface ReceivedPing {
  /** Of its address. */
  readonly hash: string;
  readonly method: string;
  readonly kind: PingKind;
  readonly exitCode: number | null;
  readonly runId: string | null;
  /** Why the job failed, and how long it took by its own account, ms; null where it did not say. */
  readonly message: string | null;
  readonly durationMs: number | null;
  readonly sourceIp: string;
  readonly userAgent: string;
  /** Unix ms. */
  readonly at: number;
  /** False for one beyond the rate limit: the job is alive, and no row is kept. */
  readonly isKept: boolean;
  /** The agent that took it, and the id that it gave the ping; null where this control plane took it. */
  readonly by: { readonly agentId: string; readonly pingId: string } | null;
}

/** What became of a ping. `number`: of its row, null without one. `duplicate`: an agent delivered it before. */
export type PingOutcome = { targetId: string; number: number | null } | "unknown" | "post_only" | "duplicate";

/** What a transaction changes of one monitor. */
interface Changed {
  window: Window;
  pings: number;
  verdicts: Verdict[];
  /** The agent that took the newest ping. */
  agentId: string | null;
  heldUntil: number | null;
  /** Times of reports that an agent delivered late: later reports had come, or none yet; null without one. */
  late?: { overtaken: number[]; first: number | null };
}

type Locked = LockedEvidence<HeartbeatTarget>;

/** Stores a batch of pings, those of a monitor in the order of their times, in one transaction. Outcome of each. */
export async function storePings(
  system: System,
  prepareDays: PrepareDays,
  batch: readonly ReceivedPing[],
): Promise<PingOutcome[]> {
  const now = system.clock.now();
  await prepareDays(utcDays([now, now - hourMs, ...batch.map(({ at }) => at)]));
  const addressed = [batch.map(({ hash }) => hash), new Date(now)] as const;
  let targetOf: ReadonlyMap<string, string> = new Map();
  const select = async (sql: Db) => {
    const { monitors, idOf } = await queries.selectHeartbeatsAt(sql, ...addressed);
    targetOf = idOf;
    return monitors;
  };
  const ids = addressQueries.addressedIds(system.sql, ...addressed);
  return await changeEvidence(system, ids, select, async (evidence, tx) => {
    const targets = batch.map(({ hash }) => targetOf.get(hash));
    const changed = new Map<string, Changed>();
    const rows: NewPing[] = [];
    const isRepeated = await repeatedOf(tx, batch, targets);
    const outcomes = batch.map((ping, n): PingOutcome => {
      const targetId = targets[n];
      const locked = targetId === undefined ? undefined : evidence.get(targetId);
      if (locked === undefined) return "unknown";
      const { target } = locked;
      if (isRepeated(n)) return "duplicate";
      if (target.spec.methods === "post" && ping.method !== "POST") return "post_only";
      const own = changed.get(target.id) ?? newChange(target);
      changed.set(target.id, own);
      const verdict = add(locked, own, ping);
      if (!ping.isKept) return { targetId: target.id, number: null };
      const number = target.pings + own.pings;
      const { at, kind, exitCode, runId, sourceIp, userAgent } = ping;
      const duration = verdict?.durationMs ?? null;
      const id = ping.by?.pingId ?? null;
      rows.push({ targetId: target.id, number, at, kind, exitCode, runId, duration, sourceIp, userAgent, id });
      return { targetId: target.id, number };
    });
    return { ...(await store(tx, evidence, changed, rows)), result: outcomes };
  });
}

/**
 * Which pings of a batch of an agent were delivered before: their ids are stored, or the monitor has had so many pings
 * since that those of their time are not kept any more.
 */
async function repeatedOf(
  { sql }: System,
  batch: readonly ReceivedPing[],
  targets: readonly (string | undefined)[],
): Promise<(n: number) => boolean> {
  const ids = batch.flatMap(({ by }) => (by === null ? [] : [by.pingId]));
  if (ids.length === 0) return () => false;
  const seen = await pingQueries.selectStoredIds(sql, ids);
  const known = [...new Set(targets)].filter((id) => id !== undefined);
  const oldest = await pingQueries.selectOldestKept(sql, known);
  return (n) => {
    const { by, at } = batch[n]!;
    if (by === null) return false;
    if (seen.has(by.pingId)) return true;
    seen.add(by.pingId);
    return at < (oldest.get(targets[n] ?? "") ?? -Infinity);
  };
}

const newChange = ({ window, agentId }: HeartbeatTarget): Changed => ({
  window,
  pings: 0,
  verdicts: [],
  agentId,
  heldUntil: null,
});

/** Adds a ping to what changes. Returns the verdict of it. */
function add(locked: Locked, own: Changed, ping: ReceivedPing): Verdict | null {
  const { spec, timezone } = locked.target;
  const { dueAt, reportedAt } = own.window;
  const isOvertaken = ping.at < (reportedAt ?? -Infinity);
  if (ping.by !== null && (ping.kind === "success" || ping.kind === "fail")) {
    own.late ??= { overtaken: [], first: null };
    if (isOvertaken) own.late.overtaken.push(ping.at);
    else {
      own.late.first ??= ping.at;
      // It came after its window was over, while the monitor was held.
      const missed = windowsService.miss(spec, own.window, { agentUntil: null, now: ping.at, zone: timezone });
      if (missed !== null) own.verdicts.push(missed.verdict);
    }
  }
  const { window, verdict } = windowsService.take(spec, own.window, ping);
  if (verdict !== null) own.verdicts.push(verdict);
  // A pause that ended and an absence of ours have extended the window, and so an older report does not shorten it.
  const isExtended = dueAt !== null && ping.by !== null && locked.newestSlot(heartbeatRegion) <= ping.at;
  own.window = isExtended && window.dueAt !== null ? { ...window, dueAt: Math.max(dueAt, window.dueAt) } : window;
  if (!isOvertaken) own.agentId = ping.by?.agentId ?? null;
  if (ping.isKept) own.pings++;
  return verdict;
}

/**
 * The missed reports that late ones refute. After the newest report every result is a missed one; after another those
 * until the next report, or until its own window was over.
 */
async function refutedBy({ sql }: System, locked: Locked, { late }: Changed): Promise<Refuted[]> {
  const { target } = locked;
  // A monitor that has only passed lately has missed none.
  if (late === undefined || locked.passing !== null) return [];
  const reports =
    late.overtaken.length === 0 ? [] : await pingQueries.selectReportsAfter(sql, target.id, late.overtaken[0]!);
  const refuted = late.overtaken.map((at) => {
    const over = windowsService.dueAfter(target.spec, at);
    const next = reports.find((other) => other > at) ?? Infinity;
    return { from: at + 1, to: Math.min(next, over === null ? Infinity : over + target.spec.grace!) };
  });
  if (late.first !== null && locked.newestSlot(heartbeatRegion) > late.first)
    refuted.push({ from: late.first + 1, to: Infinity });
  return refuted.map((range) => ({ region: heartbeatRegion, ...range }));
}

/** Writes pings, windows and results of monitors, and returns what follows for their evidence. */
async function store(
  tx: System,
  evidence: ReadonlyMap<string, Locked>,
  changed: ReadonlyMap<string, Changed>,
  pings: readonly NewPing[] = [],
): Promise<Omit<Decision<unknown>, "result">> {
  const { sql, clock } = tx;
  const now = clock.now();
  const changes = new Map<string, EvidenceChange>();
  const results: AgentResult[] = [];
  const late: { target_id: string; scheduled_at: number }[] = [];
  // Newer than the evidence of their monitors, and so than every stored result.
  let areNew = true;
  for (const [id, own] of changed) {
    const locked = evidence.get(id)!;
    // Pings of a paused monitor are kept, and are no results.
    if (!locked.target.enabled || own.verdicts.length === 0) continue;
    areNew &&= own.late === undefined && locked.newestSlot(heartbeatRegion) > 0;
    const refuted = await refutedBy(tx, locked, own);
    for (const { from, to } of refuted)
      for (const slot of await deleteMissed(sql, id, { from, to }))
        late.push({ target_id: id, scheduled_at: slot.getTime() });
    const found = resultsOf(locked, own);
    results.push(...found);
    const runs = found.map(({ scheduled_at: slot, status, error }) => ({ slot, status, error, cause: null }));
    changes.set(id, {
      ...addRuns(locked, heartbeatRegion, runs, now, refuted),
      closedBy: "engine",
      lastResultAt: Math.min(now, found.at(-1)!.timestamp),
    });
  }
  const sealed = await sealedOf(sql, now, results);
  areNew &&= sealed.size === 0;
  const windows = [...changed].map(([targetId, { window, pings, agentId, heldUntil }]) => {
    const { spec, enabled } = evidence.get(targetId)!.target;
    return {
      targetId,
      pings,
      window,
      downAt: enabled ? windowsService.downAt(spec, window) : null,
      agentId,
      heldUntil,
    };
  });
  // Nothing may be awaited from here on: an error of one must not leave those of the others unhandled.
  const writes = [
    pings.length === 0 ? undefined : pingQueries.insertPings(sql, pings),
    windows.length === 0 ? undefined : queries.writeWindows(sql, windows, new Date(now)),
    storeResults(tx, results, { sealed, late, areNew, orgOf: (id) => evidence.get(id)!.target.org_id }),
  ];
  return { changes, writes: Promise.all(writes), areSent: areNew };
}

/**
 * Stores results and what follows from them besides evidence: where they `areNew` without waiting for which of them
 * were stored before. `late` are slots of results that were taken back.
 */
async function storeResults(
  { sql, clock }: System,
  results: readonly AgentResult[],
  {
    sealed,
    late,
    areNew,
    orgOf,
  }: {
    sealed: ReadonlySet<AgentResult>;
    late: readonly { target_id: string; scheduled_at: number }[];
    areNew: boolean;
    orgOf(targetId: string): string;
  },
): Promise<void> {
  if (results.length === 0) return;
  const now = clock.now();
  const recent = results.filter((result) => !sealed.has(result));
  const inserted = Promise.all([
    insertResults(sql, heartbeatRegion, recent, { mayExist: true, sealed: false }),
    insertResults(sql, heartbeatRegion, [...sealed], { mayExist: true, sealed: true }),
  ]);
  const follow = async (stored: readonly AdmittedResult[]): Promise<void> => {
    await Promise.all([markLate(sql, [...late, ...stored], now), countForOrgs(sql, stored, orgOf, now)]);
  };
  if (areNew) await Promise.all([inserted, follow(results)]);
  else await follow((await inserted).flat());
}

/** Results have a duration of a day at most. */
const longestMs = dayMs;

/**
 * The results of verdicts. The slot is the time, later where evidence has it: two pings may come in a millisecond. What
 * an agent delivers takes its place among older ones.
 */
function resultsOf(locked: Locked, { verdicts, late }: Changed): AgentResult[] {
  let newest = late === undefined ? locked.newestSlot(heartbeatRegion) : 0;
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

/** The watch is written this often, and a longer gap means that no ping could arrive. */
const watchMs = 5 * secondMs;
export const gapMs = 15 * secondMs;
/** A ping that arrived in time may still wait for its transaction. */
const settleMs = 500;
/** Monitors of one transaction. */
const batchOverdue = 500;

/** True where a window is over, or the watch must be written. */
export const isHeartbeatDue = ({ sql, clock }: System): Fragment =>
  queries.isWatchDue(sql, new Date(clock.now() - settleMs), new Date(clock.now() - watchMs));

/**
 * Makes a failing result of each missed report: of every window that is over, once on any number of replicas. After a
 * gap of the watch the open windows are extended first: without a control plane or its database no job could report.
 */
export async function followHeartbeats(system: System, prepareDays: PrepareDays): Promise<number> {
  const now = system.clock.now();
  await inTransaction(system, async ({ sql }) => {
    const before = await queries.keepWatch(sql, new Date(now));
    if (before === null || now - before.getTime() <= gapMs) return;
    const extended = await queries.extendWindows(sql, { before, now: new Date(now) });
    if (extended > 0)
      system.log.info(
        { heartbeats: extended, away_ms: now - before.getTime() },
        "no control plane took pings for a time: open windows of heartbeats are extended",
      );
  });
  await prepareDays(utcDays([now - hourMs, now]));
  let failed = 0;
  for (;;) {
    const ids = await queries.selectOverdue(system.sql, new Date(now - settleMs), batchOverdue);
    if (ids.length === 0) return failed;
    failed += await changeEvidence(system, ids, queries.selectHeartbeats, async (evidence, tx) => {
      const changed = new Map<string, Changed>();
      for (const [id, { target }] of evidence) {
        const own = newChange(target);
        changed.set(id, own);
        if (!target.enabled) continue;
        const at = { agentUntil: target.agentUntil, now: now - settleMs, zone: target.timezone };
        own.heldUntil = windowsService.heldUntil(target.spec, target.window, at);
        const missed = windowsService.miss(target.spec, target.window, at);
        if (missed === null) continue;
        own.window = missed.window;
        own.verdicts.push(missed.verdict);
      }
      const stored = await store(tx, evidence, changed);
      return { ...stored, result: stored.changes.size };
    });
    if (ids.length < batchOverdue) return failed;
  }
}
