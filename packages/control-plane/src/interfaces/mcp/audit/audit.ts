import { newId } from "@statusmesh/shared/ids";
import { dayMs, minuteMs } from "@statusmesh/shared/time";
import { type Ctx, requireScope, type System } from "../../../platform/context.ts";
import type { Paging } from "../../../platform/db/client/sql.ts";
import { isoTimes, type Page, pageOf } from "../../../platform/http/wire.ts";
import { getIncident } from "../../../alerting/incidents/service.ts";
import { asOwner } from "../../../access/orgs/service.ts";
import { getTarget } from "../../../monitoring/targets/service.ts";
import * as queries from "./queries.ts";
import type { Caller } from "../sessions/callers.ts";
import { deleteExpiredConfirmations } from "../confirmation/queries.ts";
import type { McpCall, Outcome } from "../schema.ts";
import { deleteExpiredSessions } from "../sessions/queries.ts";

/** Limit of a recorded argument, characters. */
const maxArgument = 2_000;

export interface Recorded {
  readonly tool: string;
  readonly arguments: Record<string, unknown>;
  readonly outcome: Outcome;
  readonly detail: string | null;
}

/** Interval of writing how many calls were refused: a refusal must stay cheaper than a call. */
const refusalsMs = 1_000;

/** Sums the calls that limits refuse: at most one statement a second for each token and tool. */
export function sumRefusals(draining: AbortSignal) {
  const sums = new Map<string, { add(): void; write(): void }>();
  draining.addEventListener("abort", () => {
    for (const sum of sums.values()) sum.write();
  });
  return async (caller: Pick<Caller, "ctx" | "tokenId" | "app">, call: Recorded): Promise<void> => {
    const minute = Math.floor(caller.ctx.clock.now() / minuteMs) * minuteMs;
    const key = `${caller.tokenId} ${call.tool} ${minute}`;
    const known = sums.get(key);
    if (known !== undefined) return known.add();
    let refused = 0;
    const write = (): void => {
      clearTimeout(timer);
      sums.delete(key);
      if (refused > 0) void recordCall(caller, call, { refused, minute: new Date(minute) });
    };
    const timer = setTimeout(write, refusalsMs);
    sums.set(key, { add: () => void refused++, write });
    await recordCall(caller, call, { refused: 1, minute: new Date(minute) });
  };
}

/**
 * Records a call of a write tool in the table and the log. The call has had its effect by then: a failed insert must
 * not make the client repeat it, so it is logged instead.
 */
export async function recordCall(
  { ctx, tokenId, app }: Pick<Caller, "ctx" | "tokenId" | "app">,
  call: Recorded,
  sum: { refused: number; minute: Date } | null = null,
): Promise<void> {
  const { sql, clock, log, orgId, userId, traceId } = ctx;
  const monitor = await monitorOf(ctx, call.arguments);
  const fields = { trace: traceId, org: orgId, user: userId, token: tokenId, app, monitor, ...call, ...sum };
  try {
    await queries.insertCall(sql, {
      ...call,
      id: newId(),
      at: new Date(clock.now()),
      token_id: tokenId,
      user_id: userId,
      org_id: orgId,
      app,
      monitor,
      refused: sum?.refused ?? null,
      minute: sum?.minute ?? null,
    });
    log.info(fields, "MCP write");
  } catch (error) {
    log.error({ ...fields, err: String(error) }, "an MCP write could not be recorded");
  }
}

/** Name of the monitor that a call names, itself or by its incident; null without one that the caller may read. */
async function monitorOf(ctx: Ctx, { monitor_id, id }: Record<string, unknown>): Promise<string | null> {
  try {
    if (typeof monitor_id === "string") return (await getTarget(ctx, monitor_id)).name;
    return typeof id === "string" ? (await getIncident(ctx, id)).monitor_name : null;
  } catch {
    return null;
  }
}

/** Arguments that the tool declares, as they came; whatever is no short scalar is cut. */
export function recordedArguments(
  args: Readonly<Record<string, unknown>>,
  declared: readonly string[],
): Record<string, unknown> {
  const known = declared.filter((name) => Object.hasOwn(args, name));
  return Object.fromEntries(
    known.map((name) => {
      const value = args[name];
      if (typeof value === "string") return [name, value.slice(0, maxArgument).toWellFormed()];
      return [name, typeof value === "object" && value !== null ? "(not a single value)" : value];
    }),
  );
}

/** The calls of write tools in an organisation, newest first. For owners. */
export async function listMcpAudit(ctx: Ctx, orgId: string, paging: Paging): Promise<Page<McpCall>> {
  requireScope(ctx, "org:read");
  const own = await asOwner(ctx, orgId);
  return pageOf(await queries.selectCalls(own.sql, own.orgId, paging), paging, isoTimes);
}

/** Deletes ended sessions, confirmations of killed processes, and calls older than the audit log is kept. */
export async function sweepMcp({ sql, clock, config }: System): Promise<void> {
  const now = clock.now();
  await deleteExpiredConfirmations(sql, new Date(now));
  await deleteExpiredSessions(sql, new Date(now));
  await queries.deleteCallsBefore(sql, new Date(now - config.retention.audit_days * dayMs));
}
