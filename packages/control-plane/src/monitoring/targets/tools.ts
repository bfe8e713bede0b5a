import type { Static } from "typebox";
import { type CheckType, errorInWords, isGroup, isHeartbeat, isProbed } from "@statusmesh/shared/checks";
import { dayMs } from "@statusmesh/shared/time";
import { type RoutedChannel, routedChannels, routesInWords } from "../../alerting/channels/routes/service.ts";
import { memberStates } from "../../alerting/incidents/service.ts";
import type { Ctx } from "../../platform/context.ts";
import { tool, type Tool } from "../../platform/http/tool.ts";
import { clipped, consoleUrl, fitting, quoted } from "../../platform/http/tool-texts.ts";
import { isoOrNull } from "../../platform/http/wire.ts";
import { getHeartbeat } from "../heartbeats/service.ts";
import { listResults, uptime } from "../results/service.ts";
import type { Target } from "./schema.ts";
import type { ListedMonitor } from "./health/health.ts";
import { causesOf, monitorsAfter, orgHealth } from "./health/service.ts";
import { getMonitor, type MonitorRow } from "./list/service.ts";
import { getTarget } from "./service.ts";
import { updateTarget } from "./write/service.ts";
import * as schema from "./tool-schema.ts";

/** Failing monitors and causes in get_org_health. */
const worst = 10;
const mostCauses = 8;
/** Longest name, tag and error in a list, characters. */
const shortText = 200;
const maxTags = 20;

const tagsOf = (tags: readonly string[]): string[] | null =>
  tags.length === 0 ? null : tags.slice(0, maxTags).map((tag) => clipped(tag, shortText));

const errorOf = (error: string | null, max = shortText): string | null =>
  error === null ? null : clipped(errorInWords(error), max);

function rowOf(row: ListedMonitor): Static<typeof schema.ListOutput>["monitors"][number] {
  const { id, name, state, host, cause } = row;
  const isFailing = state === "down" || state === "error" || state === "degraded";
  return {
    monitor_id: id,
    name: clipped(name, shortText),
    type: row.kind as CheckType,
    state,
    since: isFailing ? isoOrNull(row.since) : null,
    host: isFailing ? host : null,
    error: isFailing ? errorOf(row.error) : null,
    // The host itself is the cause then: named once, 51 failing monitors fit into 16 kB.
    cause: cause === `host:${host}` ? null : cause,
    tags: tagsOf(row.tags),
    last_checked_at: isoOrNull(row.last_result_at),
  };
}

/** Pauses or resumes: the patch of `enabled`, unless the monitor is in that state already. */
async function setEnabled(ctx: Ctx, id: string, enabled: boolean): Promise<Static<typeof schema.SwitchOutput>> {
  const before = await getTarget(ctx, id);
  if (before.enabled !== enabled) await updateTarget(ctx, id, { enabled });
  return { monitor_id: id, state: enabled ? "active" : "paused", changed: before.enabled !== enabled };
}

/** Uptime of the last `days` days, percent; null without a run. */
async function uptimeOf(ctx: Ctx, id: string, days: number): Promise<number | null> {
  const now = ctx.clock.now();
  return (await uptime(ctx, id, { from: new Date(now - days * dayMs).toISOString() })).share;
}

/** Status code of the newest result. */
async function lastHttpStatus(ctx: Ctx, { target, last_result_at: at }: MonitorRow): Promise<number | null> {
  if (target.check.type !== "http" || at === null) return null;
  const range = { from: at.toISOString(), to: new Date(at.getTime() + 1).toISOString() };
  const { items } = await listResults(ctx, target.id, { ...range, limit: 1, offset: 0 });
  return items[0]?.http_status ?? null;
}

/** A value of a check: objects and lists as JSON; null where there is none, and for an empty list. */
function shownValue(value: unknown): string | number | boolean | null {
  if (typeof value === "string") return clipped(value, 500);
  if (typeof value === "number" || typeof value === "boolean") return value;
  const isAbsent = value === undefined || value === null || (Array.isArray(value) && value.length === 0);
  return isAbsent ? null : clipped(JSON.stringify(value), 1000);
}

function configOf(
  target: Target,
  regions: readonly string[],
  routed: readonly RoutedChannel[],
): Static<typeof schema.Config> {
  const { period, grace, tls, ...others } = target.check as unknown as Record<string, unknown>;
  const encryption = typeof tls === "boolean" ? (tls ? "tls" : "none") : tls;
  const check: Record<string, unknown> = { ...others, tls: encryption, period_ms: period, grace_ms: grace };
  return {
    interval_secs: target.interval,
    timeout_ms: isProbed(target.check) ? target.check.timeout : null,
    regions: regions.slice(0, 100),
    region_policy: typeof target.region_policy === "string" ? target.region_policy : String(target.region_policy.count),
    alert_confirmations: target.alert_confirmations,
    notify_recovery: target.notify_recovery,
    renotify_interval_secs: target.renotify_interval_secs,
    alert_channels: target.alerts.length + routed.length,
    alerts_by_tag: routed.length === 0 ? null : clipped(routesInWords(routed).join(", "), shortText),
    escalation: target.escalation === null ? null : clipped(JSON.stringify(target.escalation), 1000),
    depends_on: target.depends_on.length === 0 ? null : target.depends_on,
    ...(Object.fromEntries(schema.checkFieldNames.map((name) => [name, shownValue(check[name])])) as Pick<
      Static<typeof schema.Config>,
      (typeof schema.checkFieldNames)[number]
    >),
  };
}

/** How the members of a group are, and the first of them, the worst states first; null for other kinds. */
async function membersOf(ctx: Ctx, { target, members }: MonitorRow) {
  if (!isGroup(target.check)) return null;
  const rows = await memberStates(ctx, target.id, worst);
  const first = rows
    .slice(0, worst)
    .map(({ id, name, state }) => ({ monitor_id: id, name: clipped(name, shortText), state }));
  return { ...(members ?? { known: 0, down: 0, degraded: 0 }), first };
}

const switching = { scope: "targets:write", input: schema.SwitchInput, output: schema.SwitchOutput } as const;
const edit = { idempotent: true, openWorld: false, action: "PATCH /api/v1/targets/{id}" } as const;

export const targetTools: Tool[] = [
  tool({
    name: "get_org_health",
    title: "Health of the organisation",
    description:
      "Monitors in each state, what the failing ones have in common, and the ten worst. Use it first: " +
      '"is everything up?", "what is broken and why?"',
    scope: "targets:read",
    input: schema.NoInput,
    output: schema.HealthOutput,
    async handle({ ctx }) {
      const health = await orgHealth(ctx, { worst, most: mostCauses });
      const now = ctx.clock.now();
      return {
        totals: health.totals,
        causes: health.causes.map(({ key, count, state, states, since, error, sameError, names, exampleId }) => ({
          cause: key,
          monitors: count,
          state,
          in_state: states[state] === count ? null : states[state],
          since: isoOrNull(since),
          error: errorOf(error),
          same_error: sameError,
          names: names.map((name) => clipped(name, shortText)),
          example_monitor_id: exampleId,
        })),
        causes_total: health.causesTotal,
        without_cause: health.uncaused,
        failing: health.failing.map(({ id, name, state, since, host, error, cause, incident_id }) => ({
          monitor_id: id,
          name: clipped(name, shortText),
          state,
          since: isoOrNull(since),
          down_for_secs: since === null ? null : Math.max(0, Math.round((now - since.getTime()) / 1000)),
          host: cause === `host:${host}` ? null : host,
          error: errorOf(error),
          cause,
          incident_id,
        })),
        failing_total: health.failingTotal,
        console_url: consoleUrl(ctx, "/monitors"),
      };
    },
  }),
  tool({
    name: "list_monitors",
    title: "List monitors",
    description:
      "Monitors with their state, filtered by words, state, failing, cause, kind of check and tag; failing ones with " +
      "error, begin, host and cause. Use it to find ids.",
    scope: "targets:read",
    input: schema.ListInput,
    output: schema.ListOutput,
    async handle({ ctx, args, cursor }) {
      const { type, limit, cursor: _, ...filter } = args;
      const { items, total } = await monitorsAfter(ctx, {
        ...filter,
        ...(type === undefined ? {} : { kind: type }),
        after: cursor.after,
        limit: limit + 1,
      });
      const page = items.slice(0, limit);
      const { rows, leftOut } = fitting(page.map(rowOf));
      const last = page[rows.length - 1];
      const isLast = leftOut === 0 && items.length <= limit;
      return {
        monitors: rows,
        total,
        left_out: leftOut,
        next_cursor: isLast || last === undefined ? null : cursor.next(last.position),
        console_url: consoleUrl(ctx, "/monitors"),
      };
    },
  }),
  tool({
    name: "get_monitor",
    title: "One monitor",
    description: "Configuration, state, last error and uptime of one monitor.",
    scope: "targets:read",
    input: schema.SwitchInput,
    output: schema.MonitorOutput,
    async handle({ ctx, args: { monitor_id: id } }) {
      const row = await getMonitor(ctx, id);
      const { target } = row;
      const [routed, members, job, causes, http_status, uptime_24h_pct, uptime_30d_pct] = await Promise.all([
        routedChannels(ctx, target.id),
        membersOf(ctx, row),
        isHeartbeat(target.check) ? getHeartbeat(ctx, target.id) : null,
        causesOf(ctx, [id]),
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
        cause: causes.get(target.id)?.key ?? null,
        tags: tagsOf(target.tags),
        config: configOf(
          target,
          row.regions.map(({ region }) => region),
          routed,
        ),
        members,
        heartbeat:
          job === null
            ? null
            : {
                state: job.state,
                next_due_at: job.next_due_at,
                down_at: job.down_at,
                last_duration_ms: job.last_duration_ms,
              },
        regions_unable: target.regions_unable?.map(({ region, reason }) => `${region}: ${reason}`) ?? null,
        last_checked_at: isoOrNull(row.last_result_at),
        last_error: errorOf(row.last_error, 1000),
        http_status,
        uptime_24h_pct,
        uptime_30d_pct,
        console_url: consoleUrl(ctx, `/monitors/${target.id}`),
      };
    },
  }),
  tool({
    name: "pause_monitor",
    title: "Pause a monitor",
    description:
      "Stops the checks of one monitor until it is resumed; its open incident is closed. The user confirms it.",
    ...switching,
    confirm: {
      async ask({ ctx, args }) {
        const { name } = await getTarget(ctx, args.monitor_id);
        return (
          `Pause the monitor ${quoted(name)}? Its checks stop and it no longer alerts until it is resumed. ` +
          "An open incident of it is closed without a notification."
        );
      },
      ...edit,
      destructive: true,
    },
    handle: async ({ ctx, args }) => await setEnabled(ctx, args.monitor_id, false),
  }),
  tool({
    name: "resume_monitor",
    title: "Resume a monitor",
    description: "Starts the checks of a paused monitor again. The user confirms it.",
    ...switching,
    confirm: {
      async ask({ ctx, args }) {
        const { name } = await getTarget(ctx, args.monitor_id);
        return `Resume the monitor ${quoted(name)}? Its checks start again, and it alerts as it is configured.`;
      },
      ...edit,
      destructive: false,
    },
    handle: async ({ ctx, args }) => await setEnabled(ctx, args.monitor_id, true),
  }),
];
