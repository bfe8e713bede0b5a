import Type from "typebox";
import { type CheckSpec, kindOf } from "@statusmesh/shared/checks";
import {
  PingsReply,
  PingsRequest,
  PullReply,
  PullRequest,
  ResultsReply,
  ResultsRequest,
  type RunReply,
} from "@statusmesh/shared/protocol/agent-protocol";
import { ReportedComponents } from "@statusmesh/shared/checks/status-page";
import { AppError } from "@statusmesh/shared/errors";
import { measuredPart } from "@statusmesh/shared/protocol/result";
import { record } from "../../access/audit/service.ts";
import { requireScope } from "../../platform/context.ts";
import type { Hub } from "../../platform/db/notify.ts";
import { ok, route, type Route } from "../../platform/http/route.ts";
import { Closed, described, Flag, nullable, Shape } from "../../platform/http/wire.ts";
import { certificateRule, knownCertificates } from "../certificates/service.ts";
import { probeRegionIds } from "../regions/service.ts";
import { CheckResult } from "../results/schema.ts";
import { diagnosisField } from "../results/service.ts";
import { Check, checkErrors } from "../targets/schema.ts";
import { checkRules } from "../targets/write/service.ts";
import type { TakeAgentPings } from "../heartbeats/intake/engine.ts";
import { pull } from "./assign.ts";
import type { Ingest } from "./ingest.ts";
import { checkNow, runOnDemand } from "./on-demand.ts";
import { protocolOfInvalidBody } from "./protocol.ts";

const TestResult = Shape("TestResult", "The result, and whether it meets the expectations of the check", {
  result: Closed(
    {
      ...CheckResult.properties,
      target_id: nullable(described(CheckResult.properties.target_id, "Null: nothing is stored", null)),
    },
    { description: "Status of the run" },
  ),
  matched_expectations: Flag("True when the result meets every expectation of the check"),
  warnings: Type.Array(Type.String(), {
    description: "Warnings that do not change the status",
    examples: [["the certificate expires in 9 days"]],
  }),
  components: Type.Optional(ReportedComponents),
});

function present(reply: RunReply & { region: string }, targetId: string | null) {
  return {
    target_id: targetId,
    region: reply.region,
    timestamp: new Date(reply.timestamp).toISOString(),
    ...measuredPart(reply),
    details: reply.details ?? null,
    ...diagnosisField(reply),
    recheck: false,
    ...(reply.skip === true ? { skipped: true as const } : {}),
  };
}

/** Routes of the pipeline: the agent protocol and on-demand runs. `draining` ends held pulls. */
export const pipelineRoutes = (hub: Hub, ingest: Ingest, draining: AbortSignal): Route[] => [
  ...agentRoutes(hub, ingest, draining),
  ...onDemandRoutes(hub),
];

function agentRoutes(hub: Hub, ingest: Ingest, draining: AbortSignal): Route[] {
  return [
    route("POST", "/api/agent/pull", {
      auth: "agent",
      tag: "Agents",
      summary: "Checks of the agent (long poll)",
      body: PullRequest,
      onInvalidBody: protocolOfInvalidBody,
      replies: { 200: PullReply },
      errors: ["AGENT_PROTOCOL_MISMATCH"],
      handle: async ({ ctx, body, http }) => {
        const gone = new AbortController();
        http.res.once("close", () => gone.abort());
        return ok(await pull(ctx, hub, body, AbortSignal.any([gone.signal, draining])));
      },
    }),
    route("POST", "/api/agent/results", {
      auth: "agent",
      tag: "Agents",
      summary: "Report results",
      bodyLimit: 32 * 1_048_576,
      body: ResultsRequest,
      onInvalidBody: protocolOfInvalidBody,
      replies: { 200: ResultsReply },
      errors: ["AGENT_PROTOCOL_MISMATCH", "INGEST_BUSY"],
      handle: async ({ ctx, body }) => ok(await ingest(ctx, body)),
    }),
  ];
}

export const agentPingRoutes = (take: TakeAgentPings): Route[] => [
  route("POST", "/api/agent/pings", {
    auth: "agent",
    tag: "Agents",
    summary: "Deliver pings of jobs that the agent took",
    description:
      "From `sm-agent run --heartbeats`. A ping counts for the monitor of its address, of whichever organisation, " +
      "as if the job had sent it here at that time; duplicates change nothing.",
    bodyLimit: 32 * 1_048_576,
    body: PingsRequest,
    onInvalidBody: protocolOfInvalidBody,
    replies: { 200: PingsReply },
    errors: ["AGENT_PROTOCOL_MISMATCH", "INGEST_BUSY"],
    handle: async ({ ctx, body }) => ok(await take(ctx, body)),
  }),
];

const expectedAgent =
  "A region whose agent starts or restarts (the built-in one after a start of the control plane, or one that was " +
  "connected within the last minute) is waited for, up to 10 s; 503 PROBE_UNAVAILABLE after that, or at once " +
  "where no agent is expected.";

const trial =
  "While the circuit breaker of the destination is open, this run is its trial: a connection closes it. While " +
  "another trial is in flight, the error of the result is `circuit_open`.";

function onDemandRoutes(hub: Hub): Route[] {
  return [
    route("POST", "/api/v1/targets/test", {
      auth: "tenant",
      scope: "targets:execute",
      category: "test_now",
      tag: "Targets",
      summary: "Run a check once without storing anything",
      description:
        "The run waits for capacity at the host (checker.per_host_max_inflight) for as long as the timeout of " +
        "the check, and then has the whole timeout: it is never throttled. 503 PROBE_BUSY when there is no " +
        `place. ${trial} A test of an exec check is in the audit log. ${expectedAgent}`,
      query: Closed({
        region: Type.Optional(
          Type.String({
            maxLength: 40,
            description: "Run from this region; default: the first",
            examples: ["default"],
          }),
        ),
      }),
      body: Check,
      replies: { 200: TestResult },
      errors: ["PROBE_UNAVAILABLE", "PROBE_BUSY", "NOT_PROBED", "REGION_INVALID", ...checkErrors],
      handle: async ({ ctx, body, query }) => {
        requireScope(ctx, "targets:execute");
        const spec = body as CheckSpec;
        checkRules(ctx, spec, "");
        certificateRule(spec, await knownCertificates(ctx, [spec], false), "");
        if (kindOf(spec).testIsAudited === true) await record(ctx, { resourceId: null, after: { check: spec } });
        const enabled = await probeRegionIds(ctx);
        if (query.region !== undefined && !enabled.includes(query.region))
          throw new AppError("REGION_INVALID", `There is no enabled region "${query.region}".`);
        const regions = query.region === undefined ? enabled : [query.region];
        const reply = await runOnDemand(ctx, hub, { spec, targetId: null, regions });
        return ok({
          result: present(reply, null),
          matched_expectations: reply.matched_expectations,
          warnings: reply.warnings,
          ...(reply.components === undefined ? {} : { components: reply.components }),
        });
      },
    }),
    route("POST", "/api/v1/targets/{id}/check-now", {
      auth: "tenant",
      scope: "targets:execute",
      category: "check_now",
      tag: "Targets",
      summary: "Run a target's check now; the result is stored",
      description:
        "The run waits for capacity at the host (checker.per_host_max_inflight) for as long as the timeout of " +
        "the check, and then has the whole timeout: it is never throttled. 503 PROBE_BUSY when there is no " +
        `place. ${trial} ${expectedAgent}`,
      replies: { 200: CheckResult },
      errors: ["TARGET_NOT_FOUND", "SECRET_UNREADABLE", "NOT_PROBED", "PROBE_UNAVAILABLE", "PROBE_BUSY"],
      handle: async ({ ctx, params }) => ok(present(await checkNow(ctx, hub, params.id), params.id)),
    }),
  ];
}
