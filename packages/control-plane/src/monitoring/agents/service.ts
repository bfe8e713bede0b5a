import { protocolVersion, type PullRequest, type WhoAmIReply } from "@statusmesh/shared/protocol/agent-protocol";
import { type CheckSpec, type CheckType, probedTypes } from "@statusmesh/shared/checks";
import { inabilityFor, isAble, neededName } from "@statusmesh/shared/checks/abilities";
import { AppError } from "@statusmesh/shared/errors";
import { minuteMs } from "@statusmesh/shared/time";
import { type AgentCtx, type Ctx, requireScope, type System } from "../../platform/context.ts";
import { hashToken } from "../../platform/crypto/token.ts";
import { iso, isoOrNull } from "../../platform/http/wire.ts";
import type { Region } from "../regions/schema.ts";
import { listRegions, wakePulls } from "../regions/service.ts";
import { version } from "../../platform/program.ts";
import * as queries from "./queries.ts";
import type { Agent } from "./schema.ts";
import { agentLiveMs, isLive, liveSince, isOlder, present } from "./registration/service.ts";

const unknownToken = () =>
  new AppError(
    "UNAUTHENTICATED",
    "The agent token is unknown or was deleted. Ask the operator of the control plane for a new one.",
  );

/** Authentication of `/api/agent`: an `sm_agent_` token and nothing else. */
export async function authenticateAgent(system: System, token: string | null): Promise<AgentCtx> {
  const found = token?.startsWith("sm_agent_") ? await queries.selectAgentByToken(system.sql, hashToken(token)) : null;
  if (found == null) throw unknownToken();
  return { ...system, agentId: found.id, region: found.region_id };
}

/** The agent of the token, and this control plane. Does not count as seen. */
export async function whoAmI(ctx: AgentCtx): Promise<WhoAmIReply> {
  const row = await queries.selectAgent(ctx.sql, ctx.agentId);
  if (row === null) throw unknownToken();
  return {
    name: row.name,
    region: row.region_id,
    version,
    protocol: protocolVersion,
    server_time: Math.round(ctx.clock.now()),
  };
}

/** Marks the agent as seen. Throws UNAUTHENTICATED for an agent that was deleted while its pull was held. */
export async function agentSeen(ctx: AgentCtx): Promise<void> {
  if (!(await queries.touchAgent(ctx.sql, ctx.agentId, new Date(ctx.clock.now())))) throw unknownToken();
}

/**
 * Stores the state that an agent reports. `impairedSince` (Unix ms) is null while its own network works. An agent that
 * joins, or whose state changes the assignment, wakes the other agents of its region, to keep double runs short; one
 * that joins wakes the callers that wait for an agent.
 */
export async function agentPulls(
  ctx: AgentCtx,
  says: { version: string; impairedSince: number | null; load?: PullRequest["load"] } & Pick<PullRequest, "kinds">,
): Promise<void> {
  const impairedSince = says.impairedSince === null ? null : new Date(says.impairedSince);
  const before = await queries.updateAgentState(ctx.sql, ctx.agentId, {
    version: says.version,
    impairedSince,
    load: says.load ?? null,
    kinds: says.kinds,
    now: new Date(ctx.clock.now()),
  });
  if (before === null) return;
  const turned = (before.impaired_since === null) !== (impairedSince === null);
  const joins = !isLive(before, ctx.clock.now());
  if (turned || joins || before.otherKinds) await wakePulls(ctx.sql);
  if (joins || before.otherKinds) await queries.wakeCallers(ctx.sql, ctx.region);
  if (!turned) return;
  const about = { agent: ctx.agentId, region: ctx.region };
  if (impairedSince !== null)
    ctx.log.warn(
      { ...about, since: iso(impairedSince) },
      "an agent's own network is down: its failed runs do not count",
    );
  else ctx.log.info(about, "an agent's own network works again");
}

/** Deregisters the agent: its targets move to the others of its region at once. */
export async function agentLeaves(ctx: AgentCtx): Promise<void> {
  await queries.markAgentLeft(ctx.sql, ctx.agentId, new Date(ctx.clock.now()));
  await wakePulls(ctx.sql);
  ctx.log.info({ agent: ctx.agentId, region: ctx.region }, "an agent has stopped");
}

export { hasJoinedAgent, type LiveAgent } from "./queries.ts";

/** The agents of a region that are connected, in a stable order. */
export async function liveAgents(system: Pick<System, "sql" | "clock">, region: string): Promise<queries.LiveAgent[]> {
  return await queries.selectLiveAgents(system.sql, region, liveSince(system));
}

/** Regions with a connected agent. */
export async function servedRegions(system: Pick<System, "sql" | "clock">): Promise<Set<string>> {
  return new Set((await queries.selectLiveAgents(system.sql, null, liveSince(system))).map(({ region }) => region));
}

/** Ids of the agents that share targets: those that are not impaired, or all where all are. */
export function sharersOf(agents: readonly queries.LiveAgent[]): string[] {
  const works = agents.filter(({ impaired }) => !impaired);
  return (works.length > 0 ? works : agents).map(({ id }) => id);
}

/** What the connected agents of all regions cannot run. */
export interface Inabilities {
  /** Regions with a connected agent. */
  readonly regions: readonly string[];
  /** Kinds of which some agent does not run every check. */
  readonly kinds: readonly CheckType[];
  /** Why no agent of the region runs the check, in words; null where one does, and where none is connected. */
  reasonOf(region: string, spec: CheckSpec): string | null;
}

export async function readInabilities(system: Pick<System, "sql" | "clock">): Promise<Inabilities> {
  const agents = await queries.selectLiveAgents(system.sql, null, liveSince(system));
  const known = new Map<string, string | null>();
  const look = (region: string, spec: CheckSpec): string | null =>
    inabilityOfAll(
      agents.filter((agent) => agent.region === region),
      spec,
    );
  return {
    regions: [...new Set(agents.map(({ region }) => region))],
    kinds: probedTypes.filter((type) => agents.some(({ kinds }) => Object.keys(kinds[type] ?? { "": 0 }).length > 0)),
    reasonOf(region, spec) {
      const key = `${region} ${spec.type} ${neededName(spec) ?? ""}`;
      if (!known.has(key)) known.set(key, look(region, spec));
      return known.get(key) ?? null;
    },
  };
}

/** Why none of the agents runs the check: each cause once. */
export function inabilityOfAll(agents: readonly queries.LiveAgent[], spec: CheckSpec): string | null {
  if (agents.some(({ kinds }) => isAble(kinds, spec))) return null;
  const reasons = agents.flatMap(({ kinds, version }) => inabilityFor(kinds, spec, version) ?? []);
  return reasons.length === 0 ? null : [...new Set(reasons)].join("; ");
}

/**
 * True when an agent of one of the regions is likely to connect soon: the built-in agent of a control plane that
 * started within the last minute, or an agent that was connected within it.
 */
export async function isAgentExpected(
  system: Pick<System, "sql" | "clock">,
  regions: readonly string[],
): Promise<boolean> {
  return await queries.hasExpectedAgent(system.sql, regions, new Date(system.clock.now() - patienceMs));
}

/** A region from which nothing is checked at present. */
export interface SilentRegion {
  id: string;
  name: string;
  /** `network`: all its agents are impaired; `agents`: none pulls; `none`: it has none. */
  why: "network" | "agents" | "none";
  /** RFC 3339; null when there never was an agent. */
  since: string | null;
}

/**
 * Regions with targets of the caller's organisation that cannot probe at present. An agent that has just gone away has
 * a minute.
 */
export async function silentRegions(ctx: Ctx): Promise<SilentRegion[]> {
  requireScope(ctx, "targets:read");
  return (await queries.selectSilentRegions(ctx.sql, ctx.orgId, new Date(ctx.clock.now() - patienceMs))).map(
    silentRegion,
  );
}

/** Agents leave and join when they are updated. */
const patienceMs = minuteMs;

/** Problems of agents and regions for the operator. Used by the job that sends notices. */
export async function agentProblems(
  system: Pick<System, "sql" | "clock">,
): Promise<{ regions: SilentRegion[]; impaired: { id: string; name: string; region: string; since: string }[] }> {
  const [regions, agents] = await Promise.all([
    queries.selectSilentRegions(system.sql, null, liveSince(system)),
    queries.selectImpairedAgents(system.sql, liveSince(system)),
  ]);
  return {
    regions: regions.map(silentRegion),
    impaired: agents.map((row) => ({
      id: row.id,
      name: row.name,
      region: row.region_id,
      since: iso(row.impaired_since!),
    })),
  };
}

function silentRegion({
  region_id,
  name,
  unserved_since,
  impaired_since,
  has_agents,
}: queries.SilentRegionRow): SilentRegion {
  if (impaired_since !== null) return { id: region_id, name, why: "network", since: iso(impaired_since) };
  return { id: region_id, name, why: has_agents ? "agents" : "none", since: isoOrNull(unserved_since) };
}

/** A region and its agents, for the members of an organisation. */
export interface RegionWithAgents extends Pick<Region, "id" | "name" | "location" | "enabled"> {
  /** Enabled monitors of the organisation that are probed from it. */
  targets: number;
  kinds: readonly string[];
  agents: (Agent & { is_behind: boolean; has_left: boolean })[];
}

/** Every region of the installation with its agents. `is_behind`: an older release than this control plane. */
export async function regionsWithAgents(ctx: Ctx): Promise<RegionWithAgents[]> {
  requireScope(ctx, "targets:read");
  const [regions, { rows: agents }, counts] = await Promise.all([
    listRegions(ctx, { limit: 1000, offset: 0 }),
    queries.selectAgents(ctx.sql, { limit: 1000, offset: 0 }),
    queries.countTargetsByRegion(ctx.sql, ctx.orgId),
  ]);
  const counted = new Map(counts.map((row) => [row.region_id, row]));
  const now = ctx.clock.now();
  return regions.items.map(({ id, name, location, enabled }) => ({
    id,
    name,
    location,
    enabled,
    targets: counted.get(id)?.targets ?? 0,
    kinds: counted.get(id)?.kinds ?? [],
    agents: agents
      .filter((row) => row.region_id === id)
      .map((row) => ({
        ...present(row, now),
        is_behind: row.version !== null && isOlder(row.version, version),
        has_left: row.left_at !== null,
      })),
  }));
}

/** Targets of each enabled region and the number of its live agents. For operators. */
export async function regionCover(system: Pick<System, "sql" | "clock">): Promise<queries.RegionCoverRow[]> {
  return await queries.selectRegionCover(system.sql, new Date(system.clock.now() - agentLiveMs));
}
