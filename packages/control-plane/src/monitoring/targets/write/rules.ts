import { type CheckSpec, isGroup, isHeartbeat, isProbed, kindOf, type SpecOf } from "@statusmesh/shared/checks";
import { groupIntervalSecs } from "@statusmesh/shared/checks/group";
import { withWholeCertificates } from "@statusmesh/shared/checks/certificates";
import { AppError } from "@statusmesh/shared/errors";
import { below, checkAll, Faults } from "@statusmesh/shared/schema/faults";
import { blockedHost } from "@statusmesh/shared/net/address";
import { insideName } from "@statusmesh/shared/net/inside-name";
import { mask } from "@statusmesh/shared/secrets";
import { validate } from "@statusmesh/shared/schema/validate";
import { refuseAbusiveUrl, refuseDeniedHost } from "../../../access/abuse/service.ts";
import type { System } from "../../../platform/context.ts";
import { plural } from "../../../platform/html/format.ts";
import { iso, managedBy } from "../../../platform/http/wire.ts";
import type { HeartbeatAddresses } from "../../heartbeats/schema.ts";
import { intervalSecsOf, scheduleRule, withGrace } from "../../heartbeats/schedule/service.ts";
import { notProbed } from "../../heartbeats/service.ts";
import { type Plan, PlanRefusal } from "../../../access/plans/service.ts";
import type { TargetRow } from "../queries.ts";
import { completeSpec } from "../stored/sealing.ts";
import { type Alert, Check, maxIntervalDays, type RegionPolicy, type Target } from "../schema.ts";

/*
 * Rules of every write of a target: create, bulk create, edit. No rule queries the database:
 * plan, channels and regions are read once for ten thousand targets.
 */

const maxTags = 50;

export const notFound = () => new AppError("TARGET_NOT_FOUND", "Monitor not found.");

/** The target as the API answers it: every secret masked. */
export function present(row: TargetRow): Target {
  return {
    id: row.id,
    name: row.name,
    check: kindOf(row.spec).mapSecrets(completeSpec(row.spec), () => mask) as CheckSpec,
    interval: row.interval_secs,
    enabled: row.enabled,
    tags: row.tags,
    alerts: row.alerts as Target["alerts"],
    alert_confirmations: row.alert_confirmations,
    notify_recovery: row.notify_recovery,
    renotify_interval_secs: row.renotify_interval_secs,
    region_policy: row.region_policy,
    severity: row.severity,
    flap_detection: row.flap_detection,
    escalation: row.escalation,
    depends_on: row.depends_on,
    ...(row.heartbeat_addresses === null ? {} : { heartbeat_addresses: row.heartbeat_addresses }),
    warnings: [],
    flapping: null,
    managed_by: managedBy(row.managed),
    write_source: row.write_source,
    created_at: iso(row.created_at),
    updated_at: iso(row.updated_at),
  };
}

/**
 * Runs the rules of the kind, the mask rule, the address guard and the abuse lists over a check; pointers of errors
 * start at `base`.
 */
export function checkRules(system: Pick<System, "config" | "abuse">, spec: CheckSpec, base: string): void {
  below(base, () => {
    checkAll(
      () => maskRule(spec),
      () => kindRules(spec),
    );
    addressRules(system, spec);
  });
}

/**
 * For the body of a create request that does not fit its schema: throws the same error with the faults that rules
 * without the database find in it.
 */
export function addRuleFaults(body: unknown, error: unknown): void {
  if (!(error instanceof AppError)) return;
  const { check, renotify_interval_secs: renotify } = (body ?? {}) as Record<string, unknown>;
  const faults = new Faults();
  faults.add(error);
  if (faults.isFull) return;
  if (typeof check === "object" && check !== null)
    faults.check(() => {
      const spec = validate(Check, check, "/check");
      below("/check", () => kindRules(spec));
    });
  if (typeof renotify === "number") faults.check(() => renotifyRule(renotify));
  faults.throwAny();
}

/** Throws REDACTION_SENTINEL for every secret that is the mask. */
function maskRule(spec: CheckSpec): void {
  const faults = new Faults();
  kindOf(spec).mapSecrets(spec, (secret, field) => {
    if (secret === mask)
      faults.add(
        new AppError(
          "REDACTION_SENTINEL",
          "This secret still reads ***, which is how secrets are shown. Send the real value, or leave the field " +
            "out to keep the stored one.",
          { field },
        ),
      );
    return secret;
  });
  faults.throwAny();
}

/** The address guard and the abuse lists; after the rules of the kind, as the host must be readable. */
function addressRules(system: Pick<System, "config" | "abuse">, spec: CheckSpec): void {
  const kind = kindOf(spec);
  const destination = kind.destination(spec);
  const internal = kind.systemResolverName?.(spec) ?? null;
  const subject = kind.subject?.(spec) ?? null;
  const url = kind.url?.(spec);
  checkAll(
    () => destination && refusePrivateHost(system, destination.host, destination.pointer),
    () => destination && refuseDeniedHost(system, destination.host, destination.pointer),
    () => internal && refuseInsideName(system, internal.name, internal.pointer),
    () => subject && refuseDeniedHost(system, subject.name, subject.pointer),
    () => url && refuseAbusiveUrl(system, url, "/url"),
  );
}

function refusePrivateHost({ config }: Pick<System, "config">, host: string, field: string): void {
  const range = config.security.allow_private_targets ? null : blockedHost(host);
  if (range === null) return;
  throw new AppError(
    "SSRF_BLOCKED",
    `${host} is not a public address (${range}). Check a public one, or set ` +
      "security.allow_private_targets on an instance that may reach it.",
    {
      field,
      details: { range },
    },
  );
}

/** The operator's own name server resolves internal names, which tenants must not look up. */
function refuseInsideName({ config }: Pick<System, "config">, name: string, field: string): void {
  const range = config.security.allow_private_targets ? null : insideName(name);
  if (range === null) return;
  throw new AppError(
    "SSRF_BLOCKED",
    `${name} is not a name of the public DNS (${range}). Ask for a public one, name a resolver to ask ` +
      "instead of the agent's own, or set security.allow_private_targets on an instance that may look " +
      "inside.",
    { field, details: { range } },
  );
}

/** The check with the defaults that follow from it. */
export const completed = (spec: CheckSpec): CheckSpec =>
  isProbed(spec) ? withWholeCertificates(spec) : isGroup(spec) ? spec : withGrace(spec);

/** The interval of a check that no agent probes, seconds. */
export const fixedIntervalSecs = (spec: SpecOf<"heartbeat" | "group">): number =>
  isGroup(spec) ? groupIntervalSecs : intervalSecsOf(spec);

/** The rules of the kind, and those of a schedule. */
export function kindRules(spec: CheckSpec): void {
  kindOf(spec).rules(spec);
  if (isHeartbeat(spec)) scheduleRule(spec);
}

/** Refuses what only makes sense for a probed target, and addresses of heartbeats for one. */
export function reportedRules(
  spec: CheckSpec,
  input: {
    region_policy?: RegionPolicy | undefined;
    heartbeat_addresses?: HeartbeatAddresses | undefined;
    regions?: readonly string[] | undefined;
  },
  policy: RegionPolicy = "majority",
): void {
  if (!isHeartbeat(spec)) {
    if (input.heartbeat_addresses === undefined || input.heartbeat_addresses.length === 0) return;
    throw new AppError("INVALID_HEARTBEAT", "Only a monitor of the kind heartbeat has addresses of pings.", {
      field: "/heartbeat_addresses",
    });
  }
  if (input.regions !== undefined) throw notProbed("it has no regions");
  if (input.region_policy !== undefined && JSON.stringify(input.region_policy) !== JSON.stringify(policy))
    throw notProbed("it has no region policy");
}

/** Addresses as the API shows them. */
export const shownAddresses = (addresses: HeartbeatAddresses): HeartbeatAddresses =>
  addresses.map(({ kind, value }) => ({ kind, value: mask, hint: value.slice(-4) }));

export const tagsRule = (tags: readonly string[]): string[] => [...new Set(tags)];

/** The tags with others added, as many as a target may have. */
export function addedTags(tags: readonly string[], added: readonly string[]): string[] {
  const all = [...new Set([...tags, ...added])];
  if (all.length > maxTags)
    throw new AppError("INVALID_TAG", `A target has at most ${maxTags} tags; this one would have ${all.length}.`);
  return all;
}

/** `10 seconds`, `1 minute`, `1 day`: a whole number of the largest unit. */
function spelled(secs: number): string {
  const [unit, length] = (
    [
      ["day", 86_400],
      ["hour", 3600],
      ["minute", 60],
    ] as const
  ).find(([, of]) => secs % of === 0) ?? ["second", 1];
  return plural(secs / length, unit);
}

/** Throws MIN_CHECK_INTERVAL where the kind or the plan allows longer intervals only. */
export function intervalRule(plan: Plan, spec: CheckSpec, interval: number): void {
  const ofKind = kindOf(spec).minIntervalSecs;
  const floor = Math.max(plan.min_check_interval_secs, ofKind);
  if (interval >= floor) return;
  const message = `Choose an interval of ${spelled(floor)} to ${maxIntervalDays} days.`;
  const extras = { field: "/interval", details: { interval, minimum: floor, plan: plan.id } };
  // A value below the minimum of the kind is refused by every plan.
  if (interval < ofKind) throw new AppError("MIN_CHECK_INTERVAL", message, extras);
  throw new PlanRefusal(
    "MIN_CHECK_INTERVAL",
    message,
    { quota: "min_check_interval_secs", current: interval, limit: floor, plan: plan.id },
    extras,
  );
}

/** Throws INVALID_ALERT_CONFIG where a binding waits for fewer failures than open an incident. */
export function afterFailuresRule(alerts: readonly Alert[], confirmations: number): void {
  const early = alerts.findIndex(({ after_failures: after }) => after != null && after < confirmations);
  if (early >= 0)
    throw new AppError(
      "INVALID_ALERT_CONFIG",
      `An incident opens after ${plural(confirmations, "failing check")} (alert_confirmations): enter that or more.`,
      { field: `/alerts/${early}/after_failures` },
    );
}

/** The bindings of `alerts`. `known` are the channels that the organisation has. */
export function alertRule(alerts: readonly Alert[], known: ReadonlySet<string>): Alert[] {
  const ids = alerts.map((alert) => alert.channel_id);
  const twice = ids.findIndex((id, at) => ids.indexOf(id) !== at);
  if (twice >= 0)
    throw new AppError("INVALID_ALERT_CONFIG", "This channel is bound twice. List each channel once.", {
      field: `/alerts/${twice}/channel_id`,
    });
  const unknown = ids.findIndex((id) => !known.has(id));
  if (unknown >= 0)
    throw new AppError("INVALID_ALERT_CONFIG", "Channel not found.", {
      field: `/alerts/${unknown}/channel_id`,
    });
  return alerts.map(({ channel_id, after_failures, notify_recovery, min_severity }) => ({
    channel_id,
    ...(after_failures == null ? {} : { after_failures }),
    ...(notify_recovery == null ? {} : { notify_recovery }),
    ...(min_severity == null ? {} : { min_severity }),
  }));
}

export function renotifyRule(secs: number): number {
  if (secs !== 0 && secs < 60)
    throw new AppError(
      "INVALID_ALERT_CONFIG",
      "The reminder interval must be 0 (no reminders) or at least 60 seconds.",
      { field: "/renotify_interval_secs" },
    );
  return secs;
}

/** The regions of a target are known and enabled (`allowed`). `base` is the pointer of their list. */
export function regionsRule(regions: readonly string[], allowed: ReadonlySet<string>, base = "/regions"): void {
  const unknown = regions.findIndex((region) => !allowed.has(region));
  if (unknown >= 0)
    throw new AppError("REGION_INVALID", `There is no enabled region "${regions[unknown]}".`, {
      field: `${base}/${unknown}`,
    });
}

/** A policy counts at most as many regions as the target has. `field` is the pointer of the fault. */
export function regionPolicyRule(policy: RegionPolicy, regions: number, field = "/region_policy/count"): void {
  if (typeof policy === "string" || (policy.count >= 1 && policy.count <= regions)) return;
  throw new AppError(
    "INVALID_REGION_POLICY",
    `The policy counts ${policy.count} regions. The count must be from 1 to ${regions}, the number of regions.`,
    {
      field,
      details: { regions },
    },
  );
}
