import type { Sql, TransactionSql } from "postgres";
import type { CheckSpec } from "@statusmesh/shared/checks";
import { certificatesOf } from "@statusmesh/shared/checks/certificates";
import { AppError } from "@statusmesh/shared/errors";
import {
  type AssignedCheck,
  protocolVersion,
  type PullReply,
  type PullRequest,
  type SentCertificate,
  type WithheldCheck,
} from "@statusmesh/shared/protocol/agent-protocol";
import { hash32, nextSlot, recheckMs } from "@statusmesh/shared/schedule";
import { certificatesToSend } from "../certificates/service.ts";
import { agentLeaves, agentPulls, agentSeen, liveAgents } from "../agents/service.ts";
import type { AgentCtx } from "../../platform/context.ts";
import type { Hub } from "../../platform/db/notify.ts";
import { pause } from "../../platform/process/pause.ts";
import { forEachInTurns, mapInTurns } from "../../platform/process/turns.ts";
import { selectRechecks } from "../../alerting/incidents/engine.ts";
import { disabledRegionIds } from "../regions/service.ts";
import { issueSlots, leastRecheckMs, selectIssuedSince } from "../results/slots/engine.ts";
import { openSpec } from "../targets/stored/service.ts";
import {
  type AssignableRow,
  selectChangedTargets,
  selectRegionTargets,
  selectSnapshotPlace,
  type SnapshotPlace,
} from "./assign-queries.ts";
import { claimRuns } from "./on-demand.ts";
import { requireProtocol } from "./protocol.ts";
import { openShares, type Shares } from "./shares.ts";

/** Duration of a held pull, ms. */
const holdMs = 25_000;
/** Interval at which a held pull marks its agent as seen and looks for agents that joined or left, ms. */
const heartbeatMs = 5_000;
/** A cursor older than this is invalidated, which bounds the effect of any error, ms. */
const cursorLifeMs = 600_000;
/** Debounce of edits, ms. */
const settleMs = 20;
/** Targets that are due run at once; with many, this many per second, and all of them within {@link longestDueMs}. */
const dueRunsPerSecond = 200;
const longestDueMs = 10_000;
/** How long the regions of a target may be apart in noticing that it is due, ms. */
const raceMs = 60_000;

/**
 * State at the last reply to an agent: the database snapshot, the agents of the region, and whether the region was
 * enabled. A change is new when the snapshot did not see its transaction, so a late commit is never skipped.
 */
interface Cursor {
  snapshot: string;
  /**
   * The history that the snapshot belongs to: in a restored or promoted database the same ids are other transactions.
   */
  history: string;
  agents: string;
  /** Digest of the targets to recheck. */
  rechecks: string;
  at: number;
}

/**
 * Answers a pull: at once when there are changes, else when one occurs, else empty after 25 s or when `signal` fires.
 */
export async function pull(ctx: AgentCtx, hub: Hub, request: PullRequest, signal: AbortSignal): Promise<PullReply> {
  requireProtocol(request.protocol);
  await agentPulls(ctx, {
    version: request.agent_version,
    impairedSince: request.impaired_since ?? null,
    load: request.load,
    kinds: request.kinds,
  });
  if (request.leaving === true) {
    await agentLeaves(ctx);
    return deregister(ctx);
  }
  const cursor = readCursor(request.cursor, ctx.clock.now());
  const until = ctx.clock.now() + holdMs;
  let last: Look | null = null;
  let notified = true;
  // Subscribe before each query, so that no change falls between.
  let news = listen(ctx, hub, until, signal);
  try {
    for (;;) {
      const left = until - ctx.clock.now();
      const sharing = await readSharing(ctx);
      // Without a notification only time changes something: which agents are connected.
      if (last === null || notified || left <= 0 || sharing.digest !== last.sharing) {
        const held = last !== null;
        last = await look(ctx, cursor, sharing, request);
        const { reply, otherRechecks } = last;
        const changes = reply.full || reply.checks.length > 0 || reply.drop.length > 0 || reply.runs.length > 0;
        // Replies to results name rechecks at once. Those here are for an agent that missed one, and can wait: in an
        // outage of many targets they change all the time.
        if (changes || (held && otherRechecks)) return reply;
      }
      if (left <= 0 || signal.aborted) return last.reply;
      notified = await news.arrived;
      news.stop();
      news = listen(ctx, hub, until, signal);
      if (notified) await pause(settleMs);
      await agentSeen(ctx);
    }
  } finally {
    news.stop();
  }
}

/** Waits for a notification until the next heartbeat of the agent: true for one. Ends at `until`, Unix ms, too. */
function listen(ctx: AgentCtx, hub: Hub, until: number, signal: AbortSignal) {
  const stopping = new AbortController();
  const ms = Math.min(heartbeatMs, Math.max(0, until - ctx.clock.now()));
  const options = { signal: AbortSignal.any([signal, stopping.signal]) };
  const arrived = Promise.race([
    hub.wait("sm_targets", ms, options),
    hub.wait("sm_runs", ms, { ...options, predicate: (payload) => payload === ctx.region }),
  ]);
  return { arrived, stop: () => stopping.abort() };
}

/** The reply to an agent that deregisters. It has no cursor, so an agent that rejoins gets everything. */
const deregister = (ctx: AgentCtx): PullReply => ({
  ...setting(ctx),
  cursor: "",
  full: true,
  checks: [],
  drop: [],
  runs: [],
  rechecks: [],
});

const setting = (ctx: AgentCtx) => ({
  protocol: protocolVersion,
  region: ctx.region,
  server_time: ctx.clock.now(),
  jitter_pct: ctx.config.scheduler.jitter_pct,
  per_host_max_inflight: ctx.config.checker.per_host_max_inflight,
  rdap_max_inflight: ctx.config.checker.rdap_max_inflight,
});

/** How the targets of a region are shared among its agents. */
interface Sharing {
  shares: Shares;
  disabled: boolean;
  digest: string;
}

async function readSharing(ctx: AgentCtx): Promise<Sharing> {
  const [agents, disabledRegions] = await Promise.all([liveAgents(ctx, ctx.region), disabledRegionIds(ctx)]);
  const disabled = disabledRegions.has(ctx.region);
  const shares = openShares(agents);
  return { shares, disabled, digest: hash32(`${shares.digest}${disabled ? " disabled" : ""}`).toString(36) };
}

interface Look {
  reply: PullReply;
  /** Digest of the sharing that the reply follows. */
  sharing: string;
  /** True when there are targets to recheck, and other ones than at the cursor. */
  otherRechecks: boolean;
}

async function look(
  ctx: AgentCtx,
  cursor: Cursor | null,
  { shares, disabled, digest: sharing }: Sharing,
  { capacity, kinds }: Pick<PullRequest, "capacity" | "kinds">,
): Promise<Look> {
  const now = ctx.clock.now();
  const { full, snapshot, history, rows, deleted, unsettled } = await read(
    ctx,
    cursor?.agents === sharing ? cursor : null,
    disabled,
  );
  const mayBeMine = (id: string) => shares.mayHaveRun(ctx.agentId, id);
  const mine: AssignableRow[] = [];
  const gone: string[] = [];
  await forEachInTurns(rows, (row) => {
    if (row.assigned && shares.ownerOf(row.id, row.spec) === ctx.agentId) mine.push(row);
    else if (!full && mayBeMine(row.id)) gone.push(row.id);
  });
  const checks = await checksOf(ctx, mine, now);
  // An agent takes no notice of a target that it does not run.
  const drop = full ? [] : [...deleted.filter(mayBeMine), ...gone];
  const rechecks = unsettled.filter(mayBeMine);
  const asked = hash32(rechecks.join()).toString(36);
  const next: Cursor = { snapshot, history, agents: sharing, rechecks: asked, at: full ? now : cursor!.at };
  // Last: a claimed run that is not sent would make its caller wait in vain.
  const runs = disabled || capacity === 0 ? [] : await claimRuns(ctx, capacity, kinds);
  const certificates = await attachedTo(ctx, [...checks, ...runs]);
  const reply = {
    ...setting(ctx),
    cursor: Buffer.from(JSON.stringify(next)).toString("base64url"),
    full,
    checks,
    drop,
    runs,
    ...(certificates.length > 0 && { certificates }),
    rechecks,
  };
  return { reply, sharing, otherRechecks: rechecks.length > 0 && asked !== cursor?.rechecks };
}

/** The checks of targets, in turns: an agent may have all of a large installation. Issues the slots of those due. */
async function checksOf(ctx: AgentCtx, rows: readonly AssignableRow[], now: number): Promise<AssignedCheck[]> {
  const due = await dueOf(ctx, rows);
  const dueEveryMs = Math.min(1000 / dueRunsPerSecond, longestDueMs / due.size);
  let given = 0;
  const checks = await mapInTurns(rows, (row): AssignedCheck => {
    const intervalMs = row.interval_secs * 1000;
    return {
      target_id: row.id,
      org_id: row.org_id,
      version: String(row.version),
      interval_ms: intervalMs,
      next_due_at: due.has(row.id)
        ? Math.max(now, row.created_at.getTime()) + Math.floor(given++ * dueEveryMs)
        : slotOf(ctx, row, now),
      recheck_ms: recheckMs(intervalMs, leastRecheckMs(row.spec.type)),
      check: openOrWithhold(ctx, row),
    };
  });
  await issueSlots(
    ctx.sql,
    ctx.region,
    checks
      .filter((check) => due.has(check.target_id))
      .map((check) => ({ targetId: check.target_id, slotMs: check.next_due_at })),
  );
  return checks;
}

/**
 * The targets that are to run soon: those without a result since they are due, and of those that another region was
 * faster to report, those that this region was given no run of.
 */
async function dueOf(ctx: AgentCtx, rows: readonly AssignableRow[]): Promise<ReadonlySet<string>> {
  const due = new Set(rows.filter((row) => row.isDue).map(({ id }) => id));
  const since = ctx.clock.now() - raceMs;
  const raced = rows.filter((row) => !row.isDue && row.due_since.getTime() > since);
  const issued = await selectIssuedSince(
    ctx.sql,
    ctx.region,
    raced.map(({ id, due_since: from }) => ({ targetId: id, slotMs: from.getTime() })),
  );
  for (const { id } of raced) if (!issued.has(id)) due.add(id);
  return due;
}

/** The certificates that checks name. A check whose certificate cannot be sent is withheld. */
async function attachedTo(ctx: AgentCtx, checks: { org_id: string; check: AssignedCheck["check"] }[]) {
  const named = new Map<string, { orgId: string; id: string }>();
  const naming: typeof checks = [];
  await forEachInTurns(checks, (one) => {
    const ids = certificatesOf(one.check);
    if (ids.length > 0) naming.push(one);
    for (const { id } of ids) if (!named.has(id)) named.set(id, { orgId: one.org_id, id });
  });
  const found = await certificatesToSend(ctx, [...named.values()]);
  await forEachInTurns(naming, (one) => {
    for (const { id } of certificatesOf(one.check)) {
      const certificate = found.get(id) ?? { reason: "the certificate of the check was deleted" };
      if ("certificate" in certificate && named.get(id)!.orgId === one.org_id) continue;
      const reason = "reason" in certificate ? certificate.reason : "its certificate is of another organisation";
      const withheld: WithheldCheck = { type: "withheld", reason };
      one.check = withheld;
    }
  });
  return [...found.values()].filter((one): one is SentCertificate => "certificate" in one);
}

/** The first slot whose run has not started, not before the target's creation. */
function slotOf(ctx: AgentCtx, row: AssignableRow, now: number): number {
  const intervalMs = row.interval_secs * 1000;
  const slot = nextSlot(row.id, ctx.region, intervalMs, ctx.config.scheduler.jitter_pct, now);
  return slot < row.created_at.getTime() ? slot + intervalMs : slot;
}

/** A check whose secrets cannot be opened does not affect the others: its own runs report the error. */
function openOrWithhold(ctx: AgentCtx, row: AssignableRow): CheckSpec | WithheldCheck {
  try {
    return openSpec(ctx, row.id, row.spec);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "SECRET_UNREADABLE") throw error;
    ctx.log.error({ target: row.id, reason: error.message }, "a check cannot run: its secrets cannot be opened");
    return { type: "withheld", reason: error.message };
  }
}

function readCursor(text: string | null, now: number): Cursor | null {
  if (text === null) return null;
  try {
    const cursor = JSON.parse(Buffer.from(text, "base64url").toString()) as Partial<Cursor>;
    const usable =
      typeof cursor.snapshot === "string" &&
      /^\d{1,20}:\d{1,20}:[\d,]*$/.test(cursor.snapshot) &&
      typeof cursor.history === "string" &&
      typeof cursor.agents === "string" &&
      typeof cursor.at === "number";
    return usable && cursor.at! > now - cursorLifeMs && cursor.at! <= now ? (cursor as Cursor) : null;
  } catch {
    return null;
  }
}

/** One snapshot for the list and its cursor. */
async function inSnapshot<T>(ctx: AgentCtx, read: (sql: TransactionSql) => Promise<T>): Promise<T> {
  return (await (ctx.sql as Sql).begin("isolation level repeatable read read only", read)) as T;
}

interface Reading extends SnapshotPlace {
  /** True when `rows` are all of the region's targets; else they are those that changed since the cursor. */
  full: boolean;
  rows: AssignableRow[];
  deleted: string[];
  /** Targets of the region whose last run contradicts its vote, of all agents. */
  unsettled: string[];
}

/**
 * Reads the changes since the cursor; everything without a cursor, or when it belongs to another history. A disabled
 * region runs nothing.
 */
async function read(ctx: AgentCtx, cursor: Cursor | null, disabled: boolean): Promise<Reading> {
  return await inSnapshot(ctx, async (sql) => {
    const place = await selectSnapshotPlace(sql);
    const unsettled = disabled ? [] : await selectRechecks(sql, ctx.region);
    if (cursor === null || cursor.history !== place.history || isAhead(cursor.snapshot, place.snapshot))
      return {
        ...place,
        full: true,
        rows: disabled ? [] : await selectRegionTargets(sql, ctx.region),
        deleted: [],
        unsettled,
      };
    const changes = disabled
      ? { rows: [], deleted: [] }
      : await selectChangedTargets(sql, ctx.region, { since: cursor.snapshot, now: place.snapshot });
    return { ...place, full: false, ...changes, unsettled };
  });
}

/** True when a snapshot has seen transactions that the other has not reached. */
function isAhead(one: string, other: string): boolean {
  const xmax = (snapshot: string) => BigInt(snapshot.split(":")[1]!);
  return xmax(one) > xmax(other);
}
