import Type, { type Static } from "typebox";
import { addressKinds, pingKinds } from "@statusmesh/shared/pings/address";
import { Closed, Id, nullable, OneOf, PageOf, paging, Text, Timestamp } from "../../platform/http/wire.ts";
import { heartbeatStates } from "./schedule/windows.ts";

export { heartbeatStates };

const errorCode = "INVALID_HEARTBEAT";

/** Addresses of one monitor. */
const maxAddresses = 20;

export const HeartbeatAddresses = Type.Array(
  Closed(
    {
      kind: Type.Enum([...addressKinds], {
        errorCode,
        description: "The product that the job reported to",
        examples: ["healthchecks"],
      }),
      value: Type.String({
        minLength: 3,
        maxLength: 300,
        errorCode,
        secret: true,
        description:
          "UUID or key/slug of healthchecks, push token of Uptime Kuma, token of Better Stack, key:token of Gatus. " +
          "Shown as ***, which keeps the stored one",
        examples: ["6e1a4b7c-2f1d-4f3e-9a55-0c6f6a2b7d10"],
      }),
      hint: Type.Optional(
        Type.String({ maxLength: 4, description: "The last four characters. Decided by the server; names a kept one" }),
      ),
    },
    { errorCode },
  ),
  {
    maxItems: maxAddresses,
    errorCode,
    description:
      "Addresses that jobs use with another product: they report here once its host name leads to this installation",
  },
);
export type HeartbeatAddresses = Static<typeof HeartbeatAddresses>;

const Ms = (description: string) => Type.Integer({ minimum: 0, description, examples: [92_000] });

const HeartbeatPing = Closed(
  {
    at: Timestamp,
    kind: OneOf(pingKinds, "Event that the job reported", "success"),
    exit_code: Type.Union([Type.Integer({ minimum: 0, maximum: 255 }), Type.Null()], {
      description: "Exit code of the job, if it reported one",
      examples: [null],
    }),
    duration_ms: nullable(Ms("Duration of the run that ended, where its start was reported; milliseconds")),
    run_id: Type.Union([Id, Type.Null()], { description: "The run, where the job gave an id" }),
    source_ip: nullable(Text("Address of the job; null for viewers", "192.0.2.7")),
    user_agent: Text("Its User-Agent", "curl/8.14.1"),
    body: nullable(Text("The first 10 kB of the body of a POST; null for viewers", "backup of 3 databases done")),
  },
  { title: "HeartbeatPing" },
);

export const Heartbeat = Closed(
  {
    ping_url: Text(
      "Address of the job's reports; needs targets:write, else ***",
      "https://status.example.org/hb/3q2-7w",
    ),
    token: Text("The last part of ping_url; needs targets:write, else ***", "***"),
    previous_token_valid_until: Type.Union([Timestamp, Type.Null()], {
      description: "Until then the token before the last rotation also works",
    }),
    state: OneOf(heartbeatStates, "The first that holds", "up"),
    last_ping: nullable(HeartbeatPing),
    last_duration_ms: nullable(Ms("Duration of the last run whose start was reported, milliseconds")),
    next_due_at: Type.Union([Timestamp, Type.Null()], { description: "When the next report is expected" }),
    down_at: Type.Union([Timestamp, Type.Null()], { description: "When the monitor is down without another report" }),
    suggestion: nullable(
      Closed(
        {
          period: Ms("Milliseconds"),
          grace: Ms("Milliseconds"),
          reason: Text("What was observed", "it reports about every 10 min"),
        },
        { description: "A period that matches the reports of the job" },
      ),
    ),
  },
  { title: "Heartbeat" },
);
export type Heartbeat = Static<typeof Heartbeat>;

export const PingQuery = Closed(paging(50, 1000));
export const PingPage = PageOf(HeartbeatPing);
