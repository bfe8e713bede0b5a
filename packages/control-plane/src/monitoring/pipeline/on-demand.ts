import { type CheckSpec, isProbed, kindOf } from "@statusmesh/shared/checks";
import { type Abilities, neededName } from "@statusmesh/shared/checks/abilities";
import { AppError } from "@statusmesh/shared/errors";
import { minuteMs } from "@statusmesh/shared/time";
import { newId } from "@statusmesh/shared/ids";
import type { OnDemandRun, RunReply, WithheldCheck } from "@statusmesh/shared/protocol/agent-protocol";
import { inabilityOfAll, isAgentExpected, liveAgents } from "../agents/service.ts";
import { type AgentCtx, type Ctx, inTransaction, type System } from "../../platform/context.ts";
import { resealer } from "../../platform/crypto/reseal.ts";
import { UnreadableSecret } from "../../platform/crypto/seal.ts";
import type { Hub } from "../../platform/db/notify.ts";
import type { Db } from "../../platform/db/client/sql.ts";
import { issueFreeSlot } from "../results/slots/engine.ts";
import { notProbed } from "../heartbeats/service.ts";
import { targetToRun } from "../targets/service.ts";
import * as queries from "./on-demand-queries.ts";

/** Maximum time between control plane and agent, both directions. */
const graceMs = 5_000;
/** Maximum wait of a caller: the check's timeout to find a place for the run, and once more to run it. */
const waitMs = (timeoutMs: number): number => 2 * timeoutMs + graceMs;
const longestMs = waitMs(minuteMs);
/** Maximum wait for an agent that starts or restarts. */
const joinMs = 10_000;

const place = (runId: string, pointer: string) => `runs/${runId}${pointer}`;

/**
 * Runs `spec` now on an agent of one of `regions` and waits for the reply. PROBE_UNAVAILABLE when no agent serves
 * them and none is expected, or the expected one does not join within 10 s, and at once when none can run the check.
 * PROBE_BUSY when none had a place for the run within the timeout, or none replied within twice that time and 5 s.
 */
export async function runOnDemand(
  ctx: Ctx,
  hub: Hub,
  input: { spec: CheckSpec; targetId: string | null; regions: readonly string[] },
): Promise<RunReply & { region: string }> {
  if (!isProbed(input.spec)) throw notProbed("it cannot be run from here");
  const region = await servedRegion(ctx, hub, input.regions, input.spec);
  const id = newId();
  const sealed = kindOf(input.spec).mapSecrets(input.spec, (secret, pointer) =>
    ctx.sealer.seal(secret, place(id, pointer)),
  ) as CheckSpec;
  const deadline = ctx.clock.now() + waitMs(input.spec.timeout);
  await inTransaction(ctx, async ({ sql, clock }) => {
    const now = clock.now();
    const slot = input.targetId === null ? null : await slotFor(sql, input.targetId, region, now);
    await queries.insertRun(sql, {
      id,
      org_id: ctx.orgId,
      region_id: region,
      target_id: input.targetId,
      spec: sealed,
      needs: neededName(input.spec),
      requested_at: new Date(now),
      scheduled_at: slot,
    });
  });
  const over = new AbortController();
  let isKept = false;
  const answer = (ms: number) =>
    hub.wait("sm_runs_done", ms, { predicate: (payload) => payload === id, signal: over.signal });
  try {
    let answered = answer(deadline - ctx.clock.now());
    await queries.wakeAgents(ctx.sql, region);
    for (;;) {
      await answered;
      const left = deadline - ctx.clock.now();
      answered = answer(Math.max(0, left));
      const reply = await queries.selectReply(ctx.sql, id);
      if (reply?.busy === true) throw busy(`${capital(reply.error ?? "the agent is busy")}. Nothing was checked.`);
      isKept = reply?.components !== undefined && input.targetId === null;
      if (reply !== null) return { ...reply, region };
      if (left <= 0) throw busy(`No agent of the region ${region} answered in time.`);
    }
  } finally {
    over.abort();
    // Until the sweep: a monitor that is saved after its test has warnings of a component that the page does not have.
    if (isKept) await queries.deleteEarlierTests(ctx.sql, id);
    else await queries.deleteRun(ctx.sql, id);
  }
}

/** Runs the check of a target now; the result is stored. Throws also TARGET_NOT_FOUND and SECRET_UNREADABLE. */
export async function checkNow(ctx: Ctx, hub: Hub, targetId: string): Promise<RunReply & { region: string }> {
  const { spec, regions } = await targetToRun(ctx, targetId);
  return await runOnDemand(ctx, hub, { spec, targetId, regions });
}

async function slotFor(sql: Db, targetId: string, region: string, fromMs: number): Promise<Date> {
  const slot = await issueFreeSlot(sql, { targetId, region, fromMs });
  if (slot === null) throw new AppError("TARGET_NOT_FOUND", "There is no monitor with this id.");
  return slot;
}

const busy = (reason: string): AppError =>
  new AppError("PROBE_BUSY", `${reason} Try again in a moment.`, { retryAfterSecs: 5 });

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/**
 * The first of `regions` with a live agent that can run the check. Waits for one that is expected, on a notification
 * that it has joined.
 */
async function servedRegion(ctx: Ctx, hub: Hub, regions: readonly string[], spec: CheckSpec): Promise<string> {
  const deadline = ctx.clock.now() + joinMs;
  const over = new AbortController();
  try {
    for (;;) {
      const left = deadline - ctx.clock.now();
      // Before the queries, so that an agent that joins between them is not missed.
      const joined = hub.wait("sm_agents", Math.max(0, left), {
        predicate: (region) => regions.includes(region),
        signal: over.signal,
      });
      const unable: { region: string; reason: string }[] = [];
      for (const region of regions) {
        const agents = await liveAgents(ctx, region);
        const reason = inabilityOfAll(agents, spec);
        if (reason !== null) unable.push({ region, reason });
        else if (agents.length > 0) return region;
      }
      const silent = regions.filter((region) => !unable.some((one) => one.region === region));
      const isExpected = await isAgentExpected(ctx, silent);
      if (unable.length > 0 && !isExpected) throw unrunnable(unable);
      if (!isExpected || left <= 0) throw unavailable(regions, isExpected);
      await joined;
    }
  } finally {
    over.abort();
  }
}

const unrunnable = (unable: readonly { region: string; reason: string }[]): AppError =>
  new AppError(
    "PROBE_UNAVAILABLE",
    `No agent can run this check. ${unable.map(({ region, reason }) => `${region}: ${reason}.`).join(" ")}`,
    { retryAfterSecs: 60 },
  );

function unavailable(regions: readonly string[], isExpected: boolean): AppError {
  const reason =
    regions.length === 0
      ? "The monitor is probed from no enabled region. Choose one that is enabled, or ask the operator to enable one."
      : isExpected
        ? `The agent of ${regions.join(", ")} has not connected yet. Try again in a moment.`
        : `No agent serves ${regions.join(", ")}. Start sm-agent there, or enable the built-in one.`;
  return new AppError("PROBE_UNAVAILABLE", reason, { retryAfterSecs: 10 });
}

/** Number of unanswered runs of the organisation, without those of a killed process. */
export async function countWaitingRuns(ctx: Ctx): Promise<number> {
  return await queries.countWaitingRuns(ctx.sql, ctx.orgId, new Date(ctx.clock.now() - longestMs));
}

/** Claims up to `limit` waiting runs that the agent can run. Each run is claimed once among all replicas. */
export async function claimRuns(ctx: AgentCtx, limit: number, kinds: Abilities): Promise<OnDemandRun[]> {
  const now = ctx.clock.now();
  const rows = await queries.claimRuns(ctx.sql, {
    agentId: ctx.agentId,
    region: ctx.region,
    limit,
    kinds,
    now: new Date(now),
    requestedAfter: new Date(now - 60_000),
  });
  return rows.map((row) => ({
    run_id: row.id,
    org_id: row.org_id,
    target_id: row.target_id,
    scheduled_at: (row.scheduled_at ?? row.requested_at).getTime(),
    check: openRun(ctx, row),
  }));
}

/** The check of a run, or its error: one bad run must not lose the others. */
function openRun({ sealer }: AgentCtx, { id, spec }: queries.RunRow): CheckSpec | WithheldCheck {
  try {
    return kindOf(spec).mapSecrets(spec, (secret, pointer) => sealer.open(secret, place(id, pointer))) as CheckSpec;
  } catch (error) {
    if (!(error instanceof UnreadableSecret)) throw error;
    return {
      type: "withheld",
      reason: "this replica cannot open the secrets of the check: give every replica the same keys",
    };
  }
}

/** Stores an agent's replies to its runs and wakes the callers. */
export async function recordRunReplies(ctx: AgentCtx, replies: readonly RunReply[]): Promise<void> {
  for (const reply of replies) await queries.storeReply(ctx.sql, ctx.agentId, reply);
}

/** Seals the checks of waiting runs under the current key. */
export const resealWaitingRuns = resealer({
  rows: queries.selectUnclaimedRuns,
  map: ({ id, spec }, change) =>
    kindOf(spec).mapSecrets(spec, (sealed, pointer) => change(sealed, place(id, pointer))) as CheckSpec,
  store: queries.updateRunSpec,
});

/** Removes runs that were requested 10 minutes ago: nothing waits for them. */
export async function sweepRuns({ sql, clock }: System): Promise<void> {
  await queries.deleteRunsBefore(sql, new Date(clock.now() - 10 * minuteMs));
}
