import Type, { type Static, type TProperties } from "typebox";
import type { SchemaNode } from "@statusmesh/shared/schema/validate";
import { Closed, nullable, PageOf, Shape, Text } from "../../platform/http/wire.ts";

const unlimited = "; null is unlimited";
const quota = (what: string, example: number) =>
  nullable(Type.Integer({ minimum: 0, maximum: 1_000_000, description: what + unlimited, examples: [example] }));
const budget = (what: string, example: number) =>
  nullable(
    Type.Integer({ minimum: 1, maximum: 1_000_000, description: `${what} a minute${unlimited}`, examples: [example] }),
  );

/** Every limit of a plan, by its column. */
const limits = {
  min_check_interval_secs: Type.Integer({
    minimum: 10,
    maximum: 86_400,
    description: "The smallest interval of a target, seconds",
    examples: [60],
  }),
  max_targets: quota("Targets", 20),
  max_members: quota("Members", 3),
  max_pending_invitations: quota("Pending invitations", 10),
  max_status_pages: quota("Status pages", 1),
  max_public_components: quota("Targets on status pages", 15),
  max_components_per_page: quota("Targets on one status page", 1000),
  max_updates_per_incident: quota("Updates of one incident", 100),
  max_update_templates: quota("Templates of updates", 100),
  max_certificates: quota("Certificates of checks", 50),
  max_notification_channels: quota("Notification channels", 20),
  max_maintenance_windows: quota("Unfinished maintenance windows", 20),
  max_share_links_per_monitor: quota("Live share links of one target", 1),
  max_shared_monitors: quota("Targets with live share links", 2),
  api_writes_per_min: budget("Writes", 600),
  api_reads_per_min: budget("Reads", 6000),
  bulk_ops_per_min: budget("Bulk requests", 30),
  test_now_per_min: budget("Tests", 60),
  check_now_per_min: budget("Checks on demand", 60),
};
export type Limits = { -readonly [L in keyof typeof limits]: Static<(typeof limits)[L]> };
export type Limit = keyof Limits;
export const limitNames = Object.keys(limits) as Limit[];

/** A limit of a number of things that an organisation has. */
export type Quota = Extract<Limit, `max_${string}`>;
export const quotas = limitNames.filter((name): name is Quota => name.startsWith("max_"));

/** One schema per quota. */
export const perQuota = <S>(schema: S): Record<Quota, S> =>
  Object.fromEntries(quotas.map((name) => [name, schema])) as Record<Quota, S>;

/** Limits of a plan as screens name them. */
export const limitWords: Readonly<Record<Limit, string>> = {
  max_targets: "Monitors",
  max_members: "Members",
  max_pending_invitations: "Pending invitations",
  max_status_pages: "Status pages",
  max_public_components: "Public components",
  max_components_per_page: "Components of one page",
  max_updates_per_incident: "Updates of one open incident",
  max_update_templates: "Templates of updates",
  max_certificates: "Certificates of checks",
  max_notification_channels: "Channels",
  max_maintenance_windows: "Unfinished maintenance windows",
  max_share_links_per_monitor: "Share links of one monitor",
  max_shared_monitors: "Monitors with share links",
  min_check_interval_secs: "Shortest check interval (seconds)",
  api_writes_per_min: "API writes a minute",
  api_reads_per_min: "API reads a minute",
  bulk_ops_per_min: "Bulk requests a minute",
  test_now_per_min: "Tests a minute",
  check_now_per_min: "Checks on demand a minute",
};

/** Bounds of a limit; one that is `nullable` may be unlimited. */
export function boundsOf(limit: Limit): { min: number; max: number; nullable: boolean } {
  const schema = limits[limit] as SchemaNode;
  const { minimum, maximum } = schema.anyOf?.[0] ?? schema;
  return { min: minimum!, max: maximum!, nullable: schema.anyOf !== undefined };
}

const Limits = Closed(limits, { description: "Every limit" });

export const Plan = Shape("Plan", "Quotas and rate budgets", {
  id: Text("Stable name", "free"),
  name: Text("As people read it", "Free"),
  limits: Limits,
});
export type Plan = Static<typeof Plan>;
export const PlanPage = PageOf(Plan);

/** Limits of one organisation that differ from its plan. */
export const PlanOverrides = Closed(
  Object.fromEntries(Object.entries(limits).map(([name, schema]) => [name, Type.Optional(schema)])) as TProperties,
  {
    description: "Limits that differ from the plan, by name; null is unlimited",
    examples: [{ max_shared_monitors: 10 }],
  },
);
export type PlanOverrides = Partial<Limits>;
export { Limits as PlanLimits };
