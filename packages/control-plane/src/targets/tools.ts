import type { Static } from "typebox";
import { validate } from "@statusmesh/shared/validate";
import type { Ctx } from "../context.ts";
import { tool, type Tool } from "../http/tool.ts";
import { clipped, clippedOrNull, fitting, quoted } from "../http/tool-texts.ts";
import { isoOrNull } from "../http/wire.ts";
import { listResults, uptime } from "../results/service.ts";
import { TargetQuery } from "./list-schema.ts";
import type { Target } from "./schema.ts";
import { getMonitor, getTarget, listTargets, type MonitorRow, orgHealth, updateTarget } from "./service.ts";
import * as schema from "./tool-schema.ts";

const dayMs = 86_400_000;
const worst = 10;
/** Longest name, tag and error in a list, characters. */
const shortText = 200;
const maxTags = 20;

const tagsOf = (tags: readonly string[]): string[] => tags.slice(0, maxTags).map((tag) => clipped(tag, shortText));

/** Pauses or resumes: the patch of `enabled`, unless the monitor is in that state already. */
async function setEnabled(ctx: Ctx, id: string, enabled: boolean): Promise<Static<typeof schema.SwitchOutput>> {
  const before = await getTarget(ctx, id);
  if (before.enabled !== enabled) await updateTarget(ctx, id, { enabled });
  return { monitor_id: id, state: enabled ? "active" : "paused", changed: before.enabled !== enabled };
}

/** Share of successful runs of the last `days` days; null without a run. */
async function uptimeOf(ctx: Ctx, id: string, days: number): Promise<number | null> {
  const now = ctx.clock.now();
  const counted = await uptime(ctx, id, { from: new Date(now - days * dayMs).toISOString() });
  return counted.total === 0 ? null : counted.uptime_pct;
}

/** Status code of the newest result. */
async function lastHttpStatus(ctx: Ctx, { target, last_result_at: at }: MonitorRow): Promise<number | null> {
  if (target.check.type !== "http" || at === null) return null;
  const range = { from: at.toISOString(), to: new Date(at.getTime() + 1).toISOString() };
  const { items } = await listResults(ctx, target.id, { ...range, limit: 1, offset: 0 });
  return items[0]?.http_status ?? null;
}

function configOf(target: Target, regions: readonly string[]): Static<typeof schema.Config> {
  const check = target.check as unknown as Record<string, unknown>;
  const text = (field: string) => (typeof check[field] === "string" ? clipped(check[field], 500) : null);
  const number = (field: string) => (typeof check[field] === "number" ? check[field] : null);
  const flag = (field: string) => (typeof check[field] === "boolean" ? check[field] : null);
  return {
    interval_secs: target.interval,
    timeout_ms: target.check.timeout,
    regions: regions.slice(0, 100),
    region_policy: typeof target.region_policy === "string" ? target.region_policy : String(target.region_policy.count),
    alert_confirmations: target.alert_confirmations,
    notify_recovery: target.notify_recovery,
    renotify_interval_secs: target.renotify_interval_secs,
    alert_channels: target.alerts.length,
    url: text("url"),
    method: text("method"),
    expected_status: check["expected_status"] === undefined ? null : clipped(JSON.stringify(check["expected_status"])),
    expected_body_contains: text("expected_body_contains"),
    follow_redirects: flag("follow_redirects"),
    verify_tls: flag("verify_tls"),
    host: text("host"),
    port: number("port"),
    server_name: text("server_name"),
    domain: text("domain"),
    record_type: text("record_type"),
    resolver: text("resolver"),
    expected_contains: text("expected_contains"),
    warn_days: number("warn_days"),
    critical_days: number("critical_days"),
  };
}

export const targetTools: Tool[] = [
  tool({
    name: "get_org_health",
    title: "Health of the organisation",
    description:
      "How many monitors are in each state, and the ten worst that are failing now. Use it first, for questions like " +
      '"is everything up?" or "what is broken?".',
    scope: "targets:read",
    input: schema.NoInput,
    output: schema.HealthOutput,
    async handle({ ctx }) {
      const { totals, failing, failingTotal } = await orgHealth(ctx, { worst });
      const now = ctx.clock.now();
      return {
        totals,
        failing: failing.map(({ id, name, state, since, error, incident_id }) => ({
          monitor_id: id,
          name: clipped(name, shortText),
          state,
          down_for_secs: since === null ? null : Math.max(0, Math.round((now - since.getTime()) / 1000)),
          error: clippedOrNull(error, shortText),
          incident_id,
        })),
        failing_total: failingTotal,
      };
    },
  }),
  tool({
    name: "list_monitors",
    title: "List monitors",
    description:
      "The monitors with their state, page by page; filters by state, kind of check and tag. Use it to find a " +
      "monitor by name and get its id, or to list all monitors in one state.",
    scope: "targets:read",
    input: schema.ListInput,
    output: schema.ListOutput,
    async handle({ ctx, args, cursor }) {
      const { state, type: kind, tag, limit } = args;
      const offset = Number(cursor.after ?? 0);
      const query = validate(TargetQuery, { limit, offset, ...present({ state, kind, tag }) });
      const page = await listTargets(ctx, query);
      const { rows, leftOut } = fitting(
        page.items.map((target) => ({
          monitor_id: target.id,
          name: clipped(target.name, shortText),
          type: target.check.type,
          state: target.enabled ? target.status : ("paused" as const),
          tags: tagsOf(target.tags),
          last_checked_at: target.last_checked_at,
        })),
      );
      const next = offset + rows.length;
      return {
        monitors: rows,
        total: page.total,
        left_out: leftOut,
        next_cursor: next < page.total && rows.length > 0 ? cursor.next(String(next)) : null,
      };
    },
  }),
  tool({
    name: "get_monitor",
    title: "One monitor",
    description:
      "Configuration, current state, last error and uptime of one monitor. Use it when the question is about one " +
      "monitor; for its past use get_monitor_history.",
    scope: "targets:read",
    input: schema.SwitchInput,
    output: schema.MonitorOutput,
    async handle({ ctx, args: { monitor_id: id } }) {
      const row = await getMonitor(ctx, id);
      const { target } = row;
      const [http_status, uptime_24h_pct, uptime_30d_pct] = await Promise.all([
        lastHttpStatus(ctx, row),
        uptimeOf(ctx, id, 1),
        uptimeOf(ctx, id, 30),
      ]);
      return {
        monitor_id: target.id,
        name: clipped(target.name),
        type: target.check.type,
        state: row.paused ? ("paused" as const) : row.status,
        state_since: row.paused ? null : isoOrNull(row.status_since),
        tags: tagsOf(target.tags),
        config: configOf(
          target,
          row.regions.map(({ region }) => region),
        ),
        last_checked_at: isoOrNull(row.last_result_at),
        last_error: clippedOrNull(row.last_error),
        http_status,
        uptime_24h_pct,
        uptime_30d_pct,
      };
    },
  }),
  tool({
    name: "pause_monitor",
    title: "Pause a monitor",
    description:
      "Stops the checks of one monitor until it is resumed; an open incident of it is closed without a notification. " +
      "The user confirms it. Use it only when the user asks for it.",
    scope: "targets:write",
    input: schema.SwitchInput,
    output: schema.SwitchOutput,
    confirm: {
      async ask({ ctx, args }) {
        const { name } = await getTarget(ctx, args.monitor_id);
        return (
          `Pause the monitor ${quoted(name)}? Its checks stop and it no longer alerts until it is resumed. ` +
          "An open incident of it is closed without a notification."
        );
      },
      idempotent: true,
      destructive: true,
      openWorld: false,
      action: "PATCH /api/v1/targets/{id}",
    },
    handle: async ({ ctx, args }) => await setEnabled(ctx, args.monitor_id, false),
  }),
  tool({
    name: "resume_monitor",
    title: "Resume a monitor",
    description:
      "Starts the checks of a paused monitor again. The user confirms it. Use it only when the user asks for it.",
    scope: "targets:write",
    input: schema.SwitchInput,
    output: schema.SwitchOutput,
    confirm: {
      async ask({ ctx, args }) {
        const { name } = await getTarget(ctx, args.monitor_id);
        return `Resume the monitor ${quoted(name)}? Its checks start again, and it alerts as it is configured.`;
      },
      idempotent: true,
      destructive: false,
      openWorld: false,
      action: "PATCH /api/v1/targets/{id}",
    },
    handle: async ({ ctx, args }) => await setEnabled(ctx, args.monitor_id, true),
  }),
];

/** The entries that have a value. */
const present = (entries: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== undefined));
