import Type, { type Static } from "typebox";
import { Abilities } from "../checks/abilities.ts";
import { ReportedComponents } from "../checks/status-page.ts";
import { DiagnosisCode } from "./diagnosis.ts";
import { FailureSnapshot } from "./failure-snapshot.ts";
import { idPattern } from "../ids.ts";
import { pingKinds } from "../pings/address.ts";
import { Cause, Details, measurementFields } from "./result.ts";
import { Closed, described, Flag, Integer, nullable, OneOf, Shape, Text } from "../schema/shapes.ts";
import { dayMs } from "../time.ts";

/**
 * Messages between agent and control plane: `POST /api/agent/pull` and `POST /api/agent/results`, JSON,
 * `Authorization: Bearer sm_agent_…`. Times here are Unix milliseconds (they are computed with, never shown).
 *
 * The version rises when an old agent could no longer do the right thing; both sides refuse another version by name.
 */
export const protocolVersion = 1;

const Id = described(Type.String({ pattern: idPattern }), "UUIDv7", "01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90");
const unixMs = (description: string) =>
  Type.Integer({ minimum: 0, maximum: 8_640_000_000_000, description, examples: [1_795_253_400_000] });
const UnixMs = unixMs("Unix milliseconds");
/** A field that is there when it is true. */
const mark = (description: string) => Type.Optional(Type.Literal(true, { description }));
const Protocol = described(Type.Integer({ minimum: 1, maximum: 1000 }), "Version of the protocol", protocolVersion);
const AnyCheck = Type.Object(
  { type: Text("Kind of the check", "tcp") },
  { additionalProperties: true, description: "A check with its secrets opened" },
);

/**
 * Requests the checks to run. The control plane replies at once when something changed, else after at most 25 s.
 */
export const PullRequest = Shape("PullRequest", "State and capacity of the agent", {
  protocol: Protocol,
  agent_version: described(Type.String({ minLength: 1, maxLength: 40 }), "Version of sm-agent", "0.1.0"),
  kinds: Abilities,
  cursor: described(
    nullable(Type.String({ maxLength: 4000 })),
    "Opaque cursor of the last applied reply. Null requests the complete list",
    null,
  ),
  capacity: described(
    Type.Integer({ minimum: 0, maximum: 10_000 }),
    "Number of on-demand runs that the agent can take now",
    10,
  ),
  impaired_since: Type.Optional(unixMs("Start of the outage of the agent's own network; absent while it works")),
  load: Type.Optional(
    Closed(
      {
        waiting: described(Type.Integer({ minimum: 0, maximum: 1_000_000_000 }), "Results that wait in the spool", 12),
        lag_ms: described(
          Type.Integer({ minimum: 0, maximum: 3_600_000 }),
          "99th percentile of the scheduling lag, milliseconds",
          4,
        ),
      },
      { description: "Load of the agent, shown to operators" },
    ),
  ),
  leaving: mark("The agent stops: its targets move to the others of its region. Answered at once, with no checks"),
});
export type PullRequest = Static<typeof PullRequest>;

/** A check that this agent runs from now on. `check` has its secrets opened: it is never logged or written to disk. */
export const AssignedCheck = Type.Object({
  target_id: Id,
  org_id: Id,
  /** An agent keeps the higher one. */
  version: described(Type.String({ pattern: "^[0-9]{1,20}$" }), "Grows with every change of the target", "42"),
  interval_ms: Type.Integer({ minimum: 1000, description: "Time between two runs, milliseconds", examples: [60_000] }),
  /** When to run next. Off the target's grid only for a target without any result yet, which runs at once. */
  next_due_at: UnixMs,
  recheck_ms: described(
    Type.Integer({ minimum: 1000 }),
    "Time between rechecks, milliseconds: they run at `slot + j × recheck_ms` until the next slot",
    10_000,
  ),
  check: AnyCheck,
});
export type AssignedCheck = Static<typeof AssignedCheck>;

/**
 * Stands in place of a check whose secrets the control plane cannot open: each run of it is a skipped `error` with this
 * reason, no evidence about the target. An agent that does not know it reports the same of a kind that it cannot run.
 */
export const WithheldCheck = Type.Object({ type: Type.Literal("withheld"), reason: Type.String({ maxLength: 500 }) });
export type WithheldCheck = Static<typeof WithheldCheck>;

/** Material of certificates that checks of the same reply name, opened: it is never logged or written to disk. */
export const SentCertificate = Type.Object({
  id: Id,
  certificate: Type.String({ maxLength: 131_072, description: "PEM", examples: ["-----BEGIN CERTIFICATE-----…"] }),
  private_key: nullable(
    described(Type.String({ maxLength: 65_536 }), "PEM, without a passphrase; null for an authority", null),
  ),
});
export type SentCertificate = Static<typeof SentCertificate>;

/** One run on demand: check-now (with a target) or a test of a check that is not stored (without). */
export const OnDemandRun = Type.Object({
  run_id: Id,
  org_id: Id,
  target_id: Type.Union([Id, Type.Null()], { description: "Null for a check that is not stored" }),
  /** The slot under which a check-now is recorded. */
  scheduled_at: UnixMs,
  check: AnyCheck,
});
export type OnDemandRun = Static<typeof OnDemandRun>;

export const PullReply = Type.Object(
  {
    protocol: Protocol,
    region: Text("Region of the agent, by its token", "frankfurt"),
    /** Time of the control plane at the reply: the agent schedules by that clock. */
    server_time: UnixMs,
    cursor: Text("To send with the next pull", "MTczMjA5"),
    jitter_pct: described(Type.Number({ minimum: 0, maximum: 100 }), "Spread of starts, percent of the interval", 10),
    per_host_max_inflight: described(Type.Integer({ minimum: 1 }), "Checks at a time per host and port", 2),
    rdap_max_inflight: described(
      Type.Integer({ minimum: 1 }),
      "Concurrent queries to the registry of one top-level domain",
      1,
    ),
    full: Flag("True: `checks` is the complete list of this agent"),
    checks: Type.Array(AssignedCheck, { description: "Checks to run from now on" }),
    /** Once a reply, however many checks name it: a check has only its id. */
    certificates: Type.Optional(
      Type.Array(SentCertificate, { description: "Certificates that `checks` and `runs` name; absent: none" }),
    ),
    /** Empty when `full`. */
    drop: Type.Array(Id, { description: "Targets to run no longer" }),
    runs: Type.Array(OnDemandRun, { description: "On-demand runs" }),
    /** Those of all targets of the agent, so that an agent that restarts or takes targets over knows them. */
    rechecks: Type.Array(Id, {
      description: "Targets whose last run contradicts the vote of the region: to run once more soon",
    }),
  },
  { title: "PullReply", description: "Changes of the checks of the agent" },
);
export type PullReply = Static<typeof PullReply>;

/**
 * The answer to `GET /api/agent/whoami`, which changes nothing: an agent that only asks who it is does not count as
 * live.
 */
export const WhoAmIReply = Type.Object(
  {
    name: Text("Name of the agent, by its token", "fra-1"),
    region: Text("Region of the agent", "frankfurt"),
    version: Text("Release of the control plane", "0.1.0"),
    protocol: Protocol,
    server_time: UnixMs,
  },
  { title: "WhoAmIReply", description: "The agent of the token, and the control plane" },
);
export type WhoAmIReply = Static<typeof WhoAmIReply>;

/** Warnings of one run. */
export const warningLimits = { count: 10, length: 500 };

const Warnings = Type.Array(Type.String({ maxLength: warningLimits.length }), {
  maxItems: warningLimits.count,
  description: "Warnings that do not change the status",
  examples: [[]],
});

/** Result of one slot. The region follows from the token. */
export const AgentResult = Closed({
  target_id: Id,
  /** Absent for a run on demand, whose slot is the time of the request. */
  version: Type.Optional(
    described(Type.String({ pattern: "^[0-9]{1,20}$" }), "`version` of the check that was run", "42"),
  ),
  /** The slot: order and part of the key of a result. */
  scheduled_at: UnixMs,
  /** Start of the probe, by the control plane's clock as the agent estimates it. */
  timestamp: UnixMs,
  /** True for a run that is no evidence (throttled, or a failure of the agent): recorded only. */
  skip: Flag("True: recorded, but no evidence about the target", false),
  ...measurementFields,
  details: Type.Optional(Details),
  cause: Type.Optional(Cause),
  http: Type.Optional(
    Closed(
      {
        certificate_not_after: Type.Optional(
          unixMs("End of validity of the certificate that expires first among those of the request and its redirects"),
        ),
      },
      { description: "What an HTTP run found beside its measurement" },
    ),
  ),
  /** What kept a failed run from its destination; absent where nothing says it. */
  diagnosis: Type.Optional(DiagnosisCode),
  /** Of the first failing run of a streak that received a response. */
  snapshot: Type.Optional(FailureSnapshot),
  /** Absent where there are none. */
  warnings: Type.Optional(Warnings),
});
export type AgentResult = Static<typeof AgentResult>;

/** The answer to an {@link OnDemandRun}. A check-now's result is also sent as an {@link AgentResult}. */
export const RunReply = Closed({
  run_id: Id,
  timestamp: UnixMs,
  matched_expectations: Flag("Everything was as the check expects it"),
  skip: mark("The run was no evidence about the target, as the error says"),
  warnings: Warnings,
  ...measurementFields,
  details: Type.Optional(Details),
  diagnosis: Type.Optional(DiagnosisCode),
  components: Type.Optional(ReportedComponents),
  busy: mark("The agent had no place for the run: nothing was checked, and `error` has the reason"),
});
export type RunReply = Static<typeof RunReply>;

/** Maximum number of results in a batch. */
export const maxBatch = 1000;

export const ResultsRequest = Shape("ResultsRequest", "Results of the agent", {
  protocol: Protocol,
  results: Type.Array(AgentResult, { maxItems: maxBatch, description: "Of the schedule" }),
  runs: Type.Array(RunReply, { maxItems: maxBatch, description: "Of runs on demand" }),
});
export type ResultsRequest = Static<typeof ResultsRequest>;

/** Every result sent is in exactly one of the five counts. A 200 acknowledges the whole batch. */
export const ResultsReply = Type.Object(
  {
    stored: Integer("New results", 98),
    duplicates: Integer("Results that were stored already", 2),
    dropped_future: Integer("Results with an impossible time", 0),
    dropped_unassigned: Integer("Results of targets that the region does not probe", 0),
    dropped_off_schedule: Integer(
      "Results that fit no schedule: of a slot that the target does not have, of before it existed, or of a" +
        " run that did not start near its slot",
      0,
    ),
    /** Also for duplicates: the reply to the first attempt may have been lost. */
    rechecks: Type.Array(Id, {
      description:
        "Those targets of the batch whose last run contradicts the vote of the region: to run once more in " +
        "their next recheck slot",
      examples: [[]],
    }),
  },
  { title: "ResultsReply", description: "Every result sent is in exactly one of the counts" },
);
export type ResultsReply = Static<typeof ResultsReply>;

/** Digest of an address of pings, {@link digestOf}: the agent keeps and sends no address. */
const PingAddress = described(
  Type.String({ pattern: "^[0-9a-f]{64}$" }),
  "SHA-256 of the address that the job used, in hex",
  "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
);

/** A ping of a job that the agent has answered. */
export const AgentPing = Closed(
  {
    /** By which a ping that is sent twice is stored once. */
    id: Id,
    address: PingAddress,
    at: unixMs("When the agent took it, Unix milliseconds"),
    method: OneOf(["HEAD", "GET", "POST"], "Method of the job's request", "POST"),
    kind: OneOf(pingKinds, "What the job said", "success"),
    exit_code: described(
      nullable(Type.Integer({ minimum: 0, maximum: 255 })),
      "Exit code of the job, where it gave one",
      0,
    ),
    run_id: described(
      nullable(Type.String({ pattern: "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$" })),
      "UUID of the run, where the job gave one",
      null,
    ),
    source_ip: Type.String({ maxLength: 64, description: "Address of the job", examples: ["10.1.2.3"] }),
    user_agent: Type.String({ maxLength: 200, description: "Its User-Agent", examples: ["curl/8.14.1"] }),
    message: Type.Optional(
      Type.String({ minLength: 1, maxLength: 600, description: "Why the job failed", examples: ["disk is full"] }),
    ),
    duration_ms: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: dayMs,
        description: "How long the job took by its own account",
        examples: [41],
      }),
    ),
    beyond_rate: mark("A sign of life of a job that sends too many: it counts, and is not listed"),
  },
  { description: "A ping of a job that the agent has answered" },
);
export type AgentPing = Static<typeof AgentPing>;

/** The body of a ping, which arrives after it. */
export const AgentPingBody = Closed(
  {
    id: Type.Unsafe<string>({ ...Id, description: "Of the ping" }),
    address: PingAddress,
    body: Type.String({ minLength: 1, maxLength: 10_000, description: "The first 10 kB", examples: ["done"] }),
  },
  { description: "The body of a ping" },
);
export type AgentPingBody = Static<typeof AgentPingBody>;

/** Maximum number of pings, and of bodies, in a batch. */
export const maxPingBatch = 500;

/** Sent every few seconds, also without a ping: `until` tells the control plane that none is under way. */
export const PingsRequest = Shape("PingsRequest", "Pings that the agent took", {
  protocol: Protocol,
  listening_since: unixMs("Since when the agent takes pings without a gap, Unix milliseconds"),
  until: unixMs("Every ping that the agent took before is in this batch or an earlier one, Unix milliseconds"),
  pings: Type.Array(AgentPing, { maxItems: maxPingBatch, description: "In the order in which they came" }),
  bodies: Type.Array(AgentPingBody, {
    maxItems: maxPingBatch,
    description: "Bodies of these pings or earlier ones",
    examples: [[]],
  }),
});
export type PingsRequest = Static<typeof PingsRequest>;

/** Every ping sent is in exactly one of the counts. A 200 acknowledges the whole batch. */
export const PingsReply = Type.Object(
  {
    stored: Integer("New pings", 3),
    duplicates: Integer("Pings that were stored already", 0),
    dropped_unknown: Integer("Pings of unknown addresses", 0),
    dropped_method: Integer("Pings without POST of monitors that take POST only", 0),
    dropped_time: Integer("Pings older than 7 days, or more than 5 minutes in the future", 0),
    unknown: Type.Array(PingAddress, { description: "Addresses of the batch that no monitor has", examples: [[]] }),
  },
  { title: "PingsReply", description: "Every ping sent is in exactly one of the counts" },
);
export type PingsReply = Static<typeof PingsReply>;
