import { type AgentResult, protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import type { AgentCtx, Ctx, System } from "../platform/context.ts";
import { listEvents } from "../alerting/incidents/timeline/service.ts";
import { listIncidents } from "../alerting/incidents/service.ts";
import type { Incident } from "../alerting/incidents/schema.ts";
import { openIngest } from "../monitoring/pipeline/ingest.ts";
import { createTarget } from "../monitoring/targets/write/service.ts";
import { second } from "./clock.ts";
import { addMaintenance, admit, agentResult, webhookTo } from "./scene.ts";
import { newAgent, newOrg, openWorld, type World } from "./world.ts";
import type { Teardown } from "./database.ts";

/** A database with agents of two regions and an organisation whose monitors notify one channel. */
export interface Outages extends World {
  readonly owner: Ctx;
  readonly eu: AgentCtx;
  readonly us: AgentCtx;
  readonly channelId: string;
  /** A monitor that every run of `any` region can open an incident of, unless `changes` say otherwise. */
  monitor(changes?: object): Promise<string>;
  /**
   * Moves the clock by a second for each run and reports them, the last one now: `F` is down, `P` is up, `D` is
   * degraded.
   */
  report(targetId: string, verdicts: string, agent?: AgentCtx): Promise<void>;
  /** Ingests results as they are; `system` is another replica. */
  send(agent: AgentCtx, results: readonly AgentResult[], system?: System): Promise<void>;
  incidents(targetId: string): Promise<Incident[]>;
  /** Reasons of the deliveries of a target, in order. */
  notices(targetId: string): Promise<string[]>;
  /** Kinds of the events of an incident, in order. */
  events(incidentId: string): Promise<string[]>;
  /** A maintenance window of the target, in ms from now. Returns its id. */
  maintain(targetId: string, from: number, to: number): Promise<string>;
}

const statusOf = { P: "up", F: "down", D: "degraded" } as const;

export async function openOutages(t: Teardown, env: Record<string, string> = {}): Promise<Outages> {
  const world = await openWorld(t, { env });
  const { sql, clock, system } = world;
  const [eu, us] = [await newAgent(system, "eu"), await newAgent(system, "us")];
  const owner = await newOrg(system);
  const channelId = await webhookTo(owner, "https://hooks.example.org/");
  const ingest = openIngest(async () => {});
  const send = async (agent: AgentCtx, results: readonly AgentResult[], replica: System = system) => {
    await admit(system, agent.region, results);
    await ingest({ ...agent, ...replica }, { protocol: protocolVersion, results: [...results], runs: [] });
  };
  return {
    ...world,
    owner,
    eu,
    us,
    channelId,
    send,
    async monitor(changes = {}) {
      const check = { type: "tcp", host: "db.example.org", port: 5432, timeout: 10_000 } as const;
      const alerts = [{ channel_id: channelId }];
      // Tests report a day's outages within minutes.
      const quiet = { flap_detection: false };
      return (
        await createTarget(owner, { name: "Database", check, region_policy: "any", alerts, ...quiet, ...changes })
      ).id;
    },
    async report(targetId, verdicts, agent = eu) {
      clock.advance(verdicts.length * second);
      const results = [...verdicts].map((verdict, at) =>
        agentResult(targetId, clock.now() - (verdicts.length - 1 - at) * second, {
          status: statusOf[verdict as keyof typeof statusOf],
        }),
      );
      await send(agent, results);
    },
    incidents: async (targetId) =>
      (await listIncidents(owner, { state: "all", target_id: targetId, limit: 50, offset: 0 })).items,
    async notices(targetId) {
      const rows = await sql<{ reason: string }[]>`
        select d.reason from deliveries d join incidents i on i.id = d.incident_id where i.target_id = ${targetId}
        order by d.created_at, d.id`;
      return rows.map(({ reason }) => reason);
    },
    events: async (incidentId) =>
      (await listEvents(owner, incidentId, { limit: 100, offset: 0 })).items.map(({ kind }) => kind),
    maintain: async (targetId, from, to) =>
      await addMaintenance(owner, [targetId], { start: clock.now() + from, end: clock.now() + to }),
  };
}
