import Type, { type Static } from "typebox";
import { idPattern } from "./ids.ts";
import { measurementFields } from "./result.ts";

/**
 * What an agent and the control plane say to each other: `POST /api/agent/pull` and `POST /api/agent/results`, JSON,
 * `Authorization: Bearer sm_agent_…`. Times here are Unix milliseconds (they are computed with, never shown).
 *
 * The version rises when an old agent could no longer do the right thing; both sides refuse another version by name.
 */
export const protocolVersion = 1;

const Id = Type.String({ pattern: idPattern });
const UnixMs = Type.Integer({ minimum: 0, maximum: 8_640_000_000_000 });

/** The agent asks what it is due to run. The control plane answers at once when there is news, else after at most 25 s. */
export const PullRequest = Type.Object(
  {
    protocol: Type.Integer({ minimum: 1, maximum: 1000 }),
    agent_version: Type.String({ minLength: 1, maxLength: 40 }),
    /** Opaque; from the last answer that was applied. Null asks for everything. */
    cursor: Type.Union([Type.String({ maxLength: 4000 }), Type.Null()]),
    /** How many on-demand runs the agent can take now. */
    capacity: Type.Integer({ minimum: 0, maximum: 10_000 }),
  },
  { additionalProperties: false },
);
export type PullRequest = Static<typeof PullRequest>;

/** A check that this agent runs from now on. `check` has its secrets opened: it is never logged or written to disk. */
export const AssignedCheck = Type.Object({
  target_id: Id,
  org_id: Id,
  /** Grows with every change of the target; an agent keeps the higher one. */
  version: Type.String({ pattern: "^[0-9]{1,20}$" }),
  interval_ms: Type.Integer({ minimum: 1000 }),
  /** When to run next. Off the target's grid only for a target without any result yet, which runs at once. */
  next_due_at: UnixMs,
  check: Type.Object({ type: Type.String() }, { additionalProperties: true }),
});
export type AssignedCheck = Static<typeof AssignedCheck>;

/**
 * Stands in place of a check whose secrets the control plane cannot open: each run of it is a skipped `error` with this
 * reason, no evidence about the target. An agent that does not know it reports the same of a kind that it cannot run.
 */
export const WithheldCheck = Type.Object({ type: Type.Literal("withheld"), reason: Type.String({ maxLength: 500 }) });
export type WithheldCheck = Static<typeof WithheldCheck>;

/** One run on demand: check-now (with a target) or a test of a check that is not stored (without). */
export const OnDemandRun = Type.Object({
  run_id: Id,
  org_id: Id,
  target_id: Type.Union([Id, Type.Null()]),
  /** The slot under which a check-now is recorded. */
  scheduled_at: UnixMs,
  check: Type.Object({ type: Type.String() }, { additionalProperties: true }),
});
export type OnDemandRun = Static<typeof OnDemandRun>;

export const PullReply = Type.Object({
  protocol: Type.Integer(),
  region: Type.String(),
  /** The control plane's clock when it answered: the agent schedules by this clock, not by its own. */
  server_time: UnixMs,
  cursor: Type.String(),
  jitter_pct: Type.Number({ minimum: 0, maximum: 100 }),
  per_host_max_inflight: Type.Integer({ minimum: 1 }),
  /** True: `checks` is everything this agent runs, and whatever it has beside that is dropped. */
  full: Type.Boolean(),
  checks: Type.Array(AssignedCheck),
  /** Targets to run no longer. Empty when `full`. */
  drop: Type.Array(Id),
  runs: Type.Array(OnDemandRun),
});
export type PullReply = Static<typeof PullReply>;

/** One result of one slot. The region is not in it: it comes from the token. */
export const AgentResult = Type.Object(
  {
    target_id: Id,
    /** The slot: results of a target and region are ordered by it, and it is half of their key. */
    scheduled_at: UnixMs,
    /** When the probe really started, by the control plane's clock as the agent knows it. */
    timestamp: UnixMs,
    /** True for a run that says nothing about the target (throttled, agent trouble): recorded, but no evidence. */
    skip: Type.Boolean(),
    ...measurementFields,
  },
  { additionalProperties: false },
);
export type AgentResult = Static<typeof AgentResult>;

/** The answer to an {@link OnDemandRun}. A check-now's result is also sent as an {@link AgentResult}. */
export const RunReply = Type.Object(
  {
    run_id: Id,
    timestamp: UnixMs,
    matched_expectations: Type.Boolean(),
    warnings: Type.Array(Type.String({ maxLength: 500 }), { maxItems: 20 }),
    ...measurementFields,
  },
  { additionalProperties: false },
);
export type RunReply = Static<typeof RunReply>;

/** The largest batch that the control plane takes. */
export const maxBatch = 1000;

export const ResultsRequest = Type.Object(
  {
    protocol: Type.Integer({ minimum: 1, maximum: 1000 }),
    results: Type.Array(AgentResult, { maxItems: maxBatch }),
    runs: Type.Array(RunReply, { maxItems: maxBatch }),
  },
  { additionalProperties: false },
);
export type ResultsRequest = Static<typeof ResultsRequest>;

/** Every result sent is in exactly one of the four counts; the agent forgets the whole batch on a 200. */
export const ResultsReply = Type.Object({
  stored: Type.Integer(),
  duplicates: Type.Integer(),
  dropped_future: Type.Integer(),
  dropped_unassigned: Type.Integer(),
});
export type ResultsReply = Static<typeof ResultsReply>;
