import Type from "typebox";
import { checkTypes } from "@statusmesh/shared/checks";
import { IdText, SearchText } from "@statusmesh/shared/text";
import { causePattern } from "../../alerting/causes/service.ts";
import { absent, ConsoleUrl, customerText } from "../../platform/http/tool-texts.ts";
import { Closed, described, Flag, Integer, nullable, Text, Timestamp } from "../../platform/http/wire.ts";
import { heartbeatStates } from "../heartbeats/schema.ts";
import { monitorStates } from "./schema.ts";

const MonitorId = IdText({ maxLength: 100, description: "Id of a monitor" });
const MonitorName = customerText("name of the monitor");
const State = Type.Enum([...monitorStates], {
  type: "string",
  description: "unknown: no result lately; paused: not checked",
});
const Tags = Type.Array(customerText("a tag"));
const time = (description: string) => described(Timestamp, description);
const LastChecked = absent(time("Newest result"));
/** Without the names of all kinds, which the input of list_monitors has. */
const Kind = Type.String();
const Since = absent(time("Begin of the failure"));
const Failure = absent(customerText("newest error of a failing check"));
const Host = absent(customerText("host that is checked"));
const CauseKey = absent(customerText("what it has in common with other failing monitors, as causes name it"));

export const NoInput = Closed({});

const pct = (span: string) => absent(Type.Number({ description: `Successful checks of the last ${span}, percent` }));

export const HealthOutput = Closed({
  totals: Closed(
    Object.fromEntries(monitorStates.map((state) => [state, Type.Integer()])) as Record<
      (typeof monitorStates)[number],
      ReturnType<typeof Type.Integer>
    >,
    { description: "Monitors in each state" },
  ),
  causes: Type.Array(
    Closed({
      cause: customerText("host, tag or region that failing monitors share; list_monitors takes it as cause"),
      monitors: Integer("Failing monitors with this cause"),
      state: State,
      in_state: absent(Integer("How many are in state, the worst; absent: all")),
      since: Since,
      error: absent(customerText("most frequent error")),
      same_error: Flag("All have this error"),
      names: Type.Array(customerText("name of one of the first three")),
      example_monitor_id: Text("The first one"),
    }),
    { description: "By common cause, most monitors first" },
  ),
  causes_total: Type.Integer(),
  without_cause: Integer('Failing monitors without one: list_monitors with cause "none"'),
  failing: Type.Array(
    Closed({
      monitor_id: Type.String(),
      name: MonitorName,
      state: State,
      since: Since,
      down_for_secs: absent(Type.Integer()),
      host: Host,
      error: Failure,
      cause: CauseKey,
      incident_id: nullable(Text("Open incident; null for a monitor that is on no status page")),
    }),
    { description: "The 10 worst: down, error, degraded, longest first" },
  ),
  failing_total: Type.Integer(),
  console_url: ConsoleUrl,
});

export const ListInput = Closed({
  q: Type.Optional(SearchText({ maxLength: 200, description: "Words in name, address or tags" })),
  state: Type.Optional(Type.Enum([...monitorStates], { type: "string", description: "Only in this state" })),
  failing: Type.Optional(Flag("True: only down, error and degraded")),
  cause: Type.Optional(
    SearchText({
      pattern: `^none$|${causePattern}`,
      expects: 'Use a cause of get_org_health, like host:db-1.example.org, or "none"',
      maxLength: 300,
      description: 'Failing monitors with this cause of get_org_health; "none": with no common cause',
    }),
  ),
  type: Type.Optional(Type.Enum([...checkTypes], { type: "string", description: "Only this kind of check" })),
  tag: Type.Optional(Type.String({ maxLength: 200, description: "Only with exactly this tag" })),
  limit: Type.Integer({ minimum: 1, maximum: 100, default: 20, description: "Rows per page" }),
  cursor: Type.Optional(
    Type.String({ maxLength: 500, description: "next_cursor of the page before, with the same filters" }),
  ),
});

export const ListOutput = Closed({
  monitors: Type.Array(
    Closed({
      monitor_id: Type.String(),
      name: MonitorName,
      type: Kind,
      state: State,
      since: Since,
      host: Host,
      error: Failure,
      cause: CauseKey,
      tags: absent(Tags),
      last_checked_at: LastChecked,
    }),
    {
      description: "Newest first. since, host, error, cause (unless it is host): of failing ones",
    },
  ),
  total: Integer("Matches on all pages"),
  left_out: Integer("Rows that did not fit; next_cursor begins with them"),
  next_cursor: absent(Text("For the next page")),
  console_url: ConsoleUrl,
});

const text = (description: string) => absent(customerText(description));
const whole = (description: string) => absent(Integer(description));
const flag = () => absent(Type.Boolean());

/** The visible part of a check: a list of allowed fields, so that a new field with a secret stays hidden. */
const checkFields = {
  url: text("address"),
  method: text("HTTP method"),
  expected_status: text("status codes that count as up"),
  expected_body_contains: text("expected text"),
  expected_body_absent: text("text that must be absent"),
  expected_body_matches: text("RE2 pattern of the body"),
  expected_body_not_matches: text("RE2 pattern that must not match"),
  expected_json: text("expected values, JSON"),
  expected_headers: text("expected headers, JSON"),
  degraded_above_ms: whole("Slower is degraded"),
  down_above_ms: whole("Slower is down"),
  follow_redirects: flag(),
  verify_tls: flag(),
  host: text("host"),
  port: whole("Port"),
  command: text("key of a command"),
  packets: whole("Echo requests"),
  max_loss_pct: whole("More loss is degraded, percent"),
  tls: text("encryption"),
  service: text("gRPC service"),
  period_ms: whole("Between two reports of a job"),
  schedule: text("when a job reports, JSON"),
  grace_ms: whole("How late a report may be"),
  expect: text("expected answer"),
  server_name: text("name in the TLS handshake"),
  domain: text("domain"),
  record_type: text("DNS record type"),
  resolver: text("DNS server"),
  expected_contains: text("expected text of an answer"),
  expected_exactly: text("expected answers, JSON"),
  expected_absent: text("what no answer may have, JSON"),
  expected_rcode: text("expected return code"),
  ip_version: text("address family"),
  warn_days: whole("Days before expiry: degraded"),
  critical_days: whole("Days before expiry: down"),
  expires_on: text("expiry date set by hand"),
  rule: text("rule of a group"),
  degraded_below: whole("Percent of up members below which a group is degraded"),
  hold_members: flag(),
};
export const checkFieldNames = Object.keys(checkFields) as (keyof typeof checkFields)[];

export const Config = Closed(
  {
    interval_secs: Type.Integer(),
    timeout_ms: absent(Type.Integer()),
    regions: Type.Array(Type.String()),
    region_policy: Text("Regions that must agree on a failure: any, majority, all or a number"),
    alert_confirmations: Integer("Failing checks in a row that open an incident"),
    notify_recovery: Type.Boolean(),
    renotify_interval_secs: Integer("Between reminders; 0: none"),
    alert_channels: Integer("Number of channels"),
    alerts_by_tag: text("those of them that the monitor notifies by its tags"),
    escalation: text("own escalation ladder, JSON"),
    depends_on: absent(
      Type.Array(Type.String(), { description: "Monitors: while one is down, notifications of failures are held" }),
    ),
    ...checkFields,
  },
  { brief: true, description: "Customer text: configuration, without credentials, headers and body" },
);

export const MonitorOutput = Closed({
  monitor_id: Type.String(),
  name: MonitorName,
  type: Kind,
  state: State,
  state_since: absent(time("Begin of the state")),
  cause: CauseKey,
  tags: absent(Tags),
  config: Config,
  heartbeat: absent(
    Closed(
      {
        state: Type.Enum([...heartbeatStates], { type: "string" }),
        next_due_at: absent(time("When the next report is due")),
        down_at: absent(time("Down unless it reports before")),
        last_duration_ms: whole("Of the last run"),
      },
      { brief: true, description: "Of a job: state, next_due_at" },
    ),
  ),
  members: absent(
    Closed(
      {
        known: Integer("Those that count"),
        down: Integer("Of the known"),
        degraded: Integer("Of the known"),
        first: Type.Array(Closed({ monitor_id: Type.String(), name: MonitorName, state: Type.String() }), {
          description: "The worst members",
        }),
      },
      { brief: true, description: "Of a group" },
    ),
  ),
  regions_unable: absent(Type.Array(Type.String(), { description: "Regions that cannot run it" })),
  last_checked_at: LastChecked,
  last_error: absent(customerText("newest error; absent while it is up")),
  http_status: absent(Integer("Of the newest check")),
  uptime_24h_pct: pct("24 hours"),
  uptime_30d_pct: pct("30 days"),
  console_url: ConsoleUrl,
});

export const SwitchInput = Closed({ monitor_id: MonitorId });
export const SwitchOutput = Closed({
  monitor_id: Type.String(),
  state: Type.Enum(["paused", "active"], { type: "string" }),
  changed: Flag("False when it was in that state already"),
});
