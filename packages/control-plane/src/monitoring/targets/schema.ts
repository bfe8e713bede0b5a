import Type, { type Static, type TProperties, type TSchema } from "typebox";
import { type CheckSpec, checkKinds } from "@statusmesh/shared/checks";
import type { ErrorCode } from "@statusmesh/shared/errors";
import { idPatternInAnyCase } from "@statusmesh/shared/ids";
import { IdText, Line } from "@statusmesh/shared/text";
import { AlertChannelId, Escalation, escalationWords, MinSeverity } from "../../access/orgs/schema.ts";
import { Flapping } from "../../alerting/incidents/schema.ts";
import { HeartbeatAddresses } from "../heartbeats/schema.ts";
import {
  Closed,
  described,
  Id,
  ignoredWhenSent,
  ManagedBy,
  nullable,
  Patch,
  Shape,
  Text,
  Timestamp,
  WriteSourceSchema,
} from "../../platform/http/wire.ts";

/** Longest time between two checks of a target. */
export const maxIntervalDays = 31;

/** Any check; `type` is the discriminator. */
export const Check = Type.Unsafe<CheckSpec>(
  Type.Union(
    Object.values(checkKinds).map((kind): TSchema => kind.schema),
    { discriminator: "type", description: "The check, tagged by type" },
  ),
);

/** Error codes of the rules of the kinds, the guard and the abuse lists. `errorCode`s of schemas need no line here. */
export const checkErrors = [
  "INVALID_URL_SCHEME",
  "INVALID_URL_FORMAT",
  "INVALID_HTTP_METHOD",
  "INVALID_HTTP_HEADER",
  "INVALID_STATUS_RANGE",
  "INVALID_TLS_CRED_COMBO",
  "INVALID_TCP_HOST",
  "INVALID_TLS_CERT_PARAMS",
  "INVALID_DNS_PARAMS",
  "INVALID_PATTERN",
  "INVALID_EXPECTATION",
  "INVALID_THRESHOLD",
  "INVALID_HEARTBEAT",
  "REDACTION_SENTINEL",
  "SSRF_BLOCKED",
  "DOMAIN_DENYLISTED",
  "URL_PATTERN_BLOCKED",
  "ABUSE_BLOCKED",
] as const satisfies readonly ErrorCode[];

/** How many regions must agree that a target is down. */
export const RegionPolicy = Type.Union(
  [
    Type.Literal("any"),
    Type.Literal("majority"),
    Type.Literal("all"),
    Closed({
      count: Type.Integer({
        maximum: 1000,
        errorCode: "INVALID_REGION_POLICY",
        description: "1 to as many regions as there are",
        examples: [2],
      }),
    }),
  ],
  {
    description: "How many regions must agree that the target is down: any, majority, all, or {count}",
    examples: ["majority"],
  },
);
export type RegionPolicy = Static<typeof RegionPolicy>;

export { AlertChannelId } from "../../access/orgs/schema.ts";

/** A field of the wider API that this field's API shares with it, without a meaning here. */
const onlyNull = Type.Optional(
  Type.Null({ errorCode: "UNKNOWN_FIELD", description: "No such field here: accepted when null, refused otherwise" }),
);

/** Channels of one target. */
export const maxAlerts = 100;

const alertsOf = <P extends TProperties>(alert: P) =>
  Type.Array(Closed(alert, { errorCode: "INVALID_ALERT_CONFIG" }), {
    maxItems: maxAlerts,
    errorCode: "INVALID_ALERT_CONFIG",
    description: "Channels to notify. Without channels incidents still open and show on status pages",
  });

const afterFailures = Type.Integer({
  minimum: 1,
  maximum: 20,
  expects: "Enter a whole number, 1 to 20",
  errorCode: "INVALID_ALERT_CONFIG",
  description:
    "Failing slots of the worst region, rechecks not counted, before the channel is notified; at least " +
    "alert_confirmations. Null: when the incident opens",
  examples: [5],
});
const bindingRecovery = Type.Boolean({
  errorCode: "INVALID_ALERT_CONFIG",
  description: "Whether the channel gets recoveries; null: as the target says",
  examples: [false],
});
const bindingSeverity = described(MinSeverity, "The channel is notified of this severity and higher ones", "major");
const binding = {
  channel_id: AlertChannelId,
  after_failures: Type.Optional(nullable(afterFailures)),
  notify_recovery: Type.Optional(nullable(bindingRecovery)),
  min_severity: Type.Optional(nullable(bindingSeverity)),
};
const alertsInput = alertsOf(binding);
export type Alert = Static<typeof alertsInput>[number];

/** The fields of a target that clients set. */
export const fields = {
  name: Line({
    maxLength: 200,
    emptyCode: "EMPTY_NAME",
    description: "Shown in the console and, unless the page says otherwise, to visitors",
    examples: ["Shop"],
    form: { placeholder: "Checkout API" },
  }),
  interval: Type.Integer({
    expects: "Enter whole seconds, at most 31 days",
    minimum: 1,
    maximum: maxIntervalDays * 86_400,
    errorCode: "INVALID_INTERVAL",
    description: "Check interval in seconds; the minimum depends on plan and kind",
    examples: [60],
    form: { label: "Check interval (seconds)", placeholder: "" },
  }),
  enabled: Type.Boolean({ description: "False pauses the checks", form: {} }),
  tags: Type.Array(
    Line({ maxLength: 50, errorCode: "INVALID_TAG", description: "1 to 50 characters", examples: ["production"] }),
    {
      maxItems: 50,
      errorCode: "INVALID_TAG",
      description: "Labels",
    },
  ),
  alerts: alertsOf({
    channel_id: AlertChannelId,
    after_failures: Type.Optional(afterFailures),
    notify_recovery: Type.Optional(bindingRecovery),
    min_severity: Type.Optional(bindingSeverity),
  }),
  severity: Type.Enum(["major", "critical"], {
    errorCode: "INVALID_ALERT_CONFIG",
    expects: "Use major or critical",
    description: "Severity of an incident while the target is down; while it is degraded, incidents are minor",
    examples: ["critical"],
    form: { label: "Severity when down", hint: "Critical incidents are listed and notified first." },
  }),
  flap_detection: Type.Boolean({
    description:
      "False: also a target that fails for the third time within an hour notifies every change. True: one notice " +
      "says that it is flapping, and changes are held until it is stable or stays down",
    form: {
      label: "Detect flapping",
      hint: "From the third failure within an hour, changes are held until it is stable or stays down.",
    },
  }),
  alert_confirmations: Type.Integer({
    minimum: 1,
    maximum: 100,
    errorCode: "INVALID_ALERT_CONFIG",
    description: "Consecutive failing runs that open an incident, and passing runs that close it",
    examples: [2],
    form: {
      label: "Confirmations",
      hint: "Consecutive failing checks that open an incident, and passing ones that close it.",
    },
  }),
  notify_recovery: Type.Boolean({
    description: "False: the recovery is silent",
    form: { label: "Notify on recovery" },
  }),
  renotify_interval_secs: Type.Integer({
    expects: "Enter whole seconds",
    minimum: 0,
    maximum: 2_678_400,
    errorCode: "INVALID_ALERT_CONFIG",
    description: "Seconds between reminders: 0 sends none; else at least 60",
    examples: [3600],
    form: {
      label: "Repeat every (seconds)",
      hint: "Reminders while an incident is open: 60 or more, or 0 for none.",
      beside: true,
    },
  }),
  region_policy: RegionPolicy,
  escalation: nullable(described(Escalation, `${escalationWords}. Null: the default of the organisation; empty: none`)),
  depends_on: Type.Array(
    IdText({
      pattern: idPatternInAnyCase,
      format: "uuid",
      errorCode: "INVALID_DEPENDENCY",
      description: "Id of a target",
      examples: ["01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90"],
    }),
    {
      maxItems: 10,
      errorCode: "INVALID_DEPENDENCY",
      description:
        "Targets that this one depends on. While one of them has an open incident, openings of this one are held; " +
        "checks and recoveries are not",
    },
  ),
};

/** Accepted and ignored: fields without a meaning here, and fields that the server decides. */
const ignored = {
  write_source: ignoredWhenSent,
  regions_unable: ignoredWhenSent,
  alerts_by_tag: ignoredWhenSent,
  warnings: ignoredWhenSent,
  flapping: ignoredWhenSent,
  managed_by: ignoredWhenSent,
  ping_url: ignoredWhenSent,
  group_name: onlyNull,
  owner_user_id: onlyNull,
};

const optionalWithDefault = <S extends TSchema>(schema: S, value: Static<S>) =>
  Type.Optional(Type.Unsafe<Static<S>>({ ...schema, default: value }));

const regions = Type.Array(
  Type.String({ maxLength: 40, description: "Id of an enabled region", examples: ["frankfurt"] }),
  {
    minItems: 1,
    maxItems: 1000,
    uniqueItems: true,
    errorCode: "REGION_INVALID",
    description: "The regions that probe the target",
  },
);

export const TargetCreate = Shape("TargetCreate", "A new target", {
  name: fields.name,
  check: Check,
  interval: Type.Optional(fields.interval),
  enabled: optionalWithDefault(fields.enabled, true),
  tags: optionalWithDefault(fields.tags, []),
  alerts: Type.Optional(described(alertsInput, "Channels to notify; omitted: the channels with `is_default`")),
  alert_confirmations: optionalWithDefault(fields.alert_confirmations, 2),
  notify_recovery: optionalWithDefault(fields.notify_recovery, true),
  renotify_interval_secs: optionalWithDefault(fields.renotify_interval_secs, 3600),
  region_policy: optionalWithDefault(fields.region_policy, "majority"),
  severity: optionalWithDefault(fields.severity, "major"),
  flap_detection: optionalWithDefault(fields.flap_detection, true),
  escalation: Type.Optional(fields.escalation),
  depends_on: optionalWithDefault(fields.depends_on, []),
  regions: Type.Optional(described(regions, "The regions that probe the target; omitted: all enabled ones")),
  heartbeat_addresses: Type.Optional(HeartbeatAddresses),
  ...ignored,
});
export type TargetCreate = Static<typeof TargetCreate>;

const { name, ...others } = fields;

export const TargetPatch = Patch(
  "TargetPatch",
  { interval: 300, tags: ["production", "shop"], check: { timeout: 5000 } },
  {
    name,
    check: Type.Record(Type.String(), Type.Unknown(), {
      description:
        "Fields of the check to change; omitted fields stay unchanged, secrets included; null clears what may be " +
        "null, lists and maps. The type cannot change.",
    }),
    ...others,
    alerts: alertsInput,
    heartbeat_addresses: HeartbeatAddresses,
    ...ignored,
  },
);
export type TargetPatch = Static<typeof TargetPatch>;

export const TargetRegions = Shape("TargetRegions", "Where a target is probed from", { regions });
export type TargetRegions = Static<typeof TargetRegions>;

/** Regions of a target whose agents cannot run its check: nothing is known from there. */
const RegionsUnable = Type.Array(
  Closed({
    region: Text("Id of the region", "frankfurt"),
    reason: Text("Why, and what to do", "sm-agent 0.1.0 does not know Ping checks: update it"),
  }),
  {
    description:
      "Regions of the target whose agents are connected and cannot run its check. They count as regions without " +
      "results. Read-only; absent where there are none",
  },
);

export const Target = Shape("Target", "A target; secrets are masked as ***", {
  id: Id,
  ...fields,
  interval: Type.Integer({ minimum: 1, description: "Check interval in seconds", examples: [60] }),
  check: Check,
  heartbeat_addresses: Type.Optional(HeartbeatAddresses),
  managed_by: ManagedBy,
  write_source: WriteSourceSchema,
  created_at: Timestamp,
  updated_at: Timestamp,
  ping_url: Type.Optional(
    Text(
      "Of a heartbeat, in the reply of its own route: address of the job's reports; needs targets:write, else ***",
      "https://status.example.org/hb/3q2-7w",
    ),
  ),
  regions_unable: Type.Optional(RegionsUnable),
  alerts_by_tag: Type.Optional(
    Type.Array(
      Closed({
        channel_id: Id,
        name: Text("Name of the channel", "On call"),
        tags: Type.Array(Type.String({ examples: ["production"] }), { description: "Tags of its route that match" }),
      }),
      {
        description:
          "In the reply of its own route: channels that the target notifies by its tags alone; absent without",
      },
    ),
  ),
  warnings: Type.Array(Text("A sentence", "The certificate of shop.example.org expires in 9 days."), {
    description: "What the newest run of each region found wrong that does not change its status. Read-only",
  }),
  flapping: nullable(Flapping),
});
export type Target = Static<typeof Target>;

/** Status of a monitor. `unknown`: no region has reported lately. */
export const monitorStatuses = ["up", "degraded", "down", "error", "unknown"] as const;
export type MonitorStatus = (typeof monitorStatuses)[number];
/** State of a monitor: its status, or `paused` while it is not enabled. */
export const monitorStates = [...monitorStatuses, "paused"] as const;
export type MonitorState = (typeof monitorStates)[number];
