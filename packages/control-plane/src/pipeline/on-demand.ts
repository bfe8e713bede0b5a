import type { CheckSpec } from "@statusmesh/shared/checks";
import { kindOf } from "@statusmesh/shared/checks";
import { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import type { OnDemandRun, RunReply, WithheldCheck } from "@statusmesh/shared/agent-protocol";
import { liveAgents } from "../agents/service.ts";
import { type AgentCtx, type Ctx, inTransaction, type System } from "../context.ts";
import { type ResealedBatch, resealRows } from "../crypto/reseal.ts";
import { UnreadableSecret } from "../crypto/seal.ts";
import type { Hub } from "../db/notify.ts";
import type { Db } from "../db/sql.ts";
import { issueFreeSlot } from "../results/engine.ts";
import { targetToRun } from "../targets/service.ts";

/** What the way to the agent and back may take. */
const graceMs = 5_000;
/** How long a caller waits: the agent has the check's timeout to find a place for the run, and once more to run it. */
const waitMs = (timeoutMs: number): number => 2 * timeoutMs + graceMs;
const longestMs = waitMs(60_000);

/** A stored run: its secrets are sealed while it waits. */
interface RunRow {
  id: string;
  org_id: string;
  target_id: string | null;
  spec: CheckSpec;
  requested_at: Date;
  /** Slot of the stored result; null for a test that is not stored. */
  scheduled_at: Date | null;
}

const place = (runId: string, pointer: string) => `runs/${runId}${pointer}`;

/**
 * Runs `spec` now on an agent of one of `regions` and waits for the reply. PROBE_UNAVAILABLE when no agent serves
 * them, PROBE_BUSY when none had a place for the run within the timeout, or none replied within twice that time and 5
 * s.
 */
export async function runOnDemand(
  ctx: Ctx,
  hub: Hub,
  input: { spec: CheckSpec; targetId: string | null; regions: readonly string[] },
): Promise<RunReply & { region: string }> {
  const region = await firstServed(ctx, input.regions);
  const id = newId();
  const sealed = kindOf(input.spec).mapSecrets(input.spec, (secret, pointer) =>
    ctx.sealer.seal(secret, place(id, pointer)),
  ) as CheckSpec;
  const deadline = ctx.clock.now() + waitMs(input.spec.timeout);
  await inTransaction(ctx, async ({ sql, clock }) => {
    const now = clock.now();
    const slot = input.targetId === null ? null : await slotFor(sql, input.targetId, region, now);
    await sql`
      insert into on_demand_runs (id, org_id, region_id, target_id, spec, requested_at, scheduled_at)
      values
        (${id}, ${ctx.orgId}, ${region}, ${input.targetId}, ${sql.json(sealed as never)}, ${new Date(now)}, ${slot})`;
  });
  const over = new AbortController();
  const answer = (ms: number) =>
    hub.wait("sm_runs_done", ms, { predicate: (payload) => payload === id, signal: over.signal });
  try {
    let answered = answer(deadline - ctx.clock.now());
    await ctx.sql`select pg_notify('sm_runs', ${region})`;
    for (;;) {
      await answered;
      const left = deadline - ctx.clock.now();
      answered = answer(Math.max(0, left));
      const [row] = await ctx.sql<{ reply: RunReply | null }[]>`select reply from on_demand_runs where id = ${id}`;
      if (row?.reply?.busy === true)
        throw busy(`${capital(row.reply.error ?? "the agent is busy")}. Nothing was checked.`);
      if (row?.reply != null) return { ...row.reply, region };
      if (left <= 0) throw busy(`No agent of the region ${region} answered in time.`);
    }
  } finally {
    over.abort();
    await ctx.sql`delete from on_demand_runs where id = ${id}`;
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

async function firstServed(ctx: Ctx, regions: readonly string[]): Promise<string> {
  for (const region of regions) if ((await liveAgents(ctx, region)).length > 0) return region;
  throw new AppError(
    "PROBE_UNAVAILABLE",
    regions.length === 0
      ? "The monitor is probed from no enabled region. Choose one that is enabled, or ask the operator to enable one."
      : `No agent serves ${regions.join(", ")}. Start sm-agent there, or enable the built-in one.`,
    { retryAfterSecs: 10 },
  );
}

/** Unanswered runs of the organisation, without those of a killed process. */
export async function countWaitingRuns(ctx: Ctx): Promise<number> {
  const [row] = await ctx.sql<{ count: number }[]>`
    select count(*)::int as count from on_demand_runs
    where org_id = ${ctx.orgId} and reply is null and requested_at > ${new Date(ctx.clock.now() - longestMs)}`;
  return row!.count;
}

/** Claims up to `limit` waiting runs of the agent's region; each is claimed once, on whichever replica. */
export async function claimRuns(ctx: AgentCtx, limit: number): Promise<OnDemandRun[]> {
  const now = new Date(ctx.clock.now());
  const rows = await ctx.sql<RunRow[]>`
    update on_demand_runs set claimed_by = ${ctx.agentId}, claimed_at = ${now}
    where id in (
      select id from on_demand_runs
      where region_id = ${ctx.region} and claimed_at is null and requested_at > ${new Date(now.getTime() - 60_000)}
      order by requested_at limit ${limit} for update skip locked)
    returning id, org_id, target_id, spec, requested_at, scheduled_at`;
  return rows.map((row) => ({
    run_id: row.id,
    org_id: row.org_id,
    target_id: row.target_id,
    scheduled_at: (row.scheduled_at ?? row.requested_at).getTime(),
    check: openRun(ctx, row),
  }));
}

/** The check of a run, or an error in its place: one bad run must not lose the others. */
function openRun({ sealer }: AgentCtx, { id, spec }: RunRow): CheckSpec | WithheldCheck {
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
  for (const reply of replies) {
    await ctx.sql`
      with answered as (
        update on_demand_runs set reply = ${ctx.sql.json(reply as never)}, replied_at = ${new Date(ctx.clock.now())}
        where id = ${reply.run_id} and claimed_by = ${ctx.agentId} and reply is null returning id)
      select pg_notify('sm_runs_done', id::text) from answered`;
  }
}

/** Seals up to `limit` waiting runs after `after`, by id, under the current key. For rotate-kek. */
export async function resealWaitingRuns(system: System, after: string | null, limit: number): Promise<ResealedBatch> {
  return await inTransaction(system, async ({ sql, sealer }) =>
    resealRows<Pick<RunRow, "id" | "spec">, CheckSpec>({
      sealer,
      limit,
      rows: await sql<Pick<RunRow, "id" | "spec">[]>`
        select id, spec from on_demand_runs
        where claimed_at is null and (${after}::uuid is null or id > ${after}::uuid) order by id
        limit ${limit} for no key update`,
      map: ({ id, spec }, change) =>
        kindOf(spec).mapSecrets(spec, (sealed, pointer) => change(sealed, place(id, pointer))) as CheckSpec,
      store: async (id, spec) =>
        void (await sql`update on_demand_runs set spec = ${sql.json(spec as never)} where id = ${id}`),
    }),
  );
}
