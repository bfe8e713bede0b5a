import Type from "typebox";
import { checkTypes } from "@statusmesh/shared/checks";
import { IdText } from "@statusmesh/shared/text";
import { customerText } from "../http/tool-texts.ts";
import { nullable, Timestamp } from "../http/wire.ts";
import { monitorStates } from "./schema.ts";

const MonitorId = IdText({
  maxLength: 100,
  description: "Id of the monitor, from list_monitors or get_org_health",
});
const MonitorName = customerText("name of the monitor");
const State = Type.Enum([...monitorStates], {
  type: "string",
  description: "Current state; unknown: no result lately; paused: it is not checked",
});
const Tags = Type.Array(customerText("a tag"), { description: "Tags of the monitor" });
const LastChecked = nullable(
  Type.Unsafe<string>({ ...Timestamp, description: "Time of the newest result; null before the first one" }),
);
const Kind = Type.Enum([...checkTypes], { type: "string", description: "Kind of the check" });

const closed = { additionalProperties: false } as const;
export const NoInput = Type.Object({}, closed);

const pct = (span: string) =>
  nullable(
    Type.Number({ description: `Share of successful checks in the last ${span}, percent; null without checks` }),
  );

export const HealthOutput = Type.Object(
  {
    totals: Type.Object(
      Object.fromEntries(
        monitorStates.map((state) => [state, Type.Integer({ description: `Monitors that are ${state}` })]),
      ) as Record<(typeof monitorStates)[number], ReturnType<typeof Type.Integer>>,
      { ...closed, description: "Monitors in each state" },
    ),
    failing: Type.Array(
      Type.Object(
        {
          monitor_id: Type.String({ description: "Id of the monitor" }),
          name: MonitorName,
          state: State,
          down_for_secs: nullable(Type.Integer({ description: "How long it has been failing, seconds" })),
          error: nullable(customerText("error of the newest failing check")),
          incident_id: nullable(
            Type.String({ description: "Its open incident; null for a monitor that is on no status page" }),
          ),
        },
        closed,
      ),
      { description: "The 10 worst failing monitors: down before error before degraded, then the longest failure" },
    ),
    failing_total: Type.Integer({ description: "Failing monitors in all" }),
  },
  closed,
);

export const ListInput = Type.Object(
  {
    state: Type.Optional(Type.Enum([...monitorStates], { type: "string", description: "Only monitors in this state" })),
    type: Type.Optional(
      Type.Enum([...checkTypes], { type: "string", description: "Only monitors with this kind of check" }),
    ),
    tag: Type.Optional(Type.String({ maxLength: 200, description: "Only monitors with exactly this tag" })),
    limit: Type.Integer({ minimum: 1, maximum: 100, default: 20, description: "Rows per page" }),
    cursor: Type.Optional(
      Type.String({ maxLength: 500, description: "next_cursor of the page before, with the same filters" }),
    ),
  },
  closed,
);

export const ListOutput = Type.Object(
  {
    monitors: Type.Array(
      Type.Object(
        {
          monitor_id: Type.String({ description: "Id of the monitor" }),
          name: MonitorName,
          type: Kind,
          state: State,
          tags: Tags,
          last_checked_at: LastChecked,
        },
        closed,
      ),
      { description: "Newest monitor first" },
    ),
    total: Type.Integer({ description: "Monitors that match, on all pages" }),
    left_out: Type.Integer({ description: "Rows of this page that did not fit; next_cursor begins with them" }),
    next_cursor: nullable(Type.String({ description: "For the next page; null on the last one" })),
  },
  closed,
);

const text = (description: string) => nullable(customerText(description));
const whole = (description: string) => nullable(Type.Integer({ description }));
const flag = (description: string) => nullable(Type.Boolean({ description }));

/** The visible part of a check: a list of allowed fields, so that a new field with a secret stays hidden. */
export const Config = Type.Object(
  {
    interval_secs: Type.Integer({ description: "Time between two checks, seconds" }),
    timeout_ms: Type.Integer({ description: "Time limit of a check, milliseconds" }),
    regions: Type.Array(Type.String({ description: "Id of a region" }), { description: "Where it is checked from" }),
    region_policy: Type.String({ description: "Regions that must agree on a failure: any, majority, all or a number" }),
    alert_confirmations: Type.Integer({ description: "Failing checks in a row before an incident opens" }),
    notify_recovery: Type.Boolean({ description: "Whether the end of an incident is notified" }),
    renotify_interval_secs: Type.Integer({ description: "Time between reminders, seconds; 0: none" }),
    alert_channels: Type.Integer({ description: "Notification channels that are alerted" }),
    url: text("address that is requested"),
    method: text("HTTP method"),
    expected_status: text("status codes that count as up"),
    expected_body_contains: text("text that the body must contain"),
    follow_redirects: flag("Whether redirects are followed"),
    verify_tls: flag("Whether the certificate is verified"),
    host: text("host that is connected to"),
    port: whole("Port"),
    server_name: text("name in the TLS handshake, where it is not the host"),
    domain: text("domain that is looked up"),
    record_type: text("DNS record type"),
    resolver: text("DNS server that is asked; null: that of the agent"),
    expected_contains: text("text that an answer must contain"),
    warn_days: whole("Days before expiry from which it is degraded"),
    critical_days: whole("Days before expiry from which it is down"),
  },
  { ...closed, description: "Configuration without credentials, headers and body; null where the kind has no such" },
);

export const MonitorOutput = Type.Object(
  {
    monitor_id: Type.String({ description: "Id of the monitor" }),
    name: MonitorName,
    type: Kind,
    state: State,
    state_since: nullable(Type.Unsafe<string>({ ...Timestamp, description: "Begin of the state" })),
    tags: Tags,
    config: Config,
    last_checked_at: LastChecked,
    last_error: nullable(customerText("error of the newest check; null when it succeeded")),
    http_status: nullable(Type.Integer({ description: "Status code of the newest check; null for other kinds" })),
    uptime_24h_pct: pct("24 hours"),
    uptime_30d_pct: pct("30 days"),
  },
  closed,
);

export const SwitchInput = Type.Object({ monitor_id: MonitorId }, closed);
export const SwitchOutput = Type.Object(
  {
    monitor_id: Type.String({ description: "Id of the monitor" }),
    state: Type.Enum(["paused", "active"], { type: "string", description: "Whether it is checked now" }),
    changed: Type.Boolean({ description: "False when it was in that state already" }),
  },
  closed,
);
