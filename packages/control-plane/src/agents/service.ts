import { protocolVersion, type WhoAmIReply } from "@statusmesh/shared/agent-protocol";
import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { type AgentCtx, type Ctx, requireScope, type System } from "../context.ts";
import { hashToken, newToken } from "../crypto/token.ts";
import { iso, isoOrNull, type Page } from "../http/wire.ts";
import { regionExists } from "../regions/service.ts";
import { version } from "../version.ts";
import * as queries from "./queries.ts";
import type { Agent, AgentCreate, AgentWithToken } from "./schema.ts";

/**
 * An agent counts as live for this long after its last sign of life. While a pull is held open it gives one every few
 * seconds; a connection that died unnoticed is held for at most 25 s, so targets are taken over within 60 s.
 */
export const agentLiveMs = 25_000;

const unknownToken = () =>
  new AppError(
    "UNAUTHENTICATED",
    "The agent token is unknown or was deleted. Ask the operator of the control plane for a new one.",
  );

/** The door of `/api/agent`: an `sm_agent_` token and nothing else. */
export async function authenticateAgent(system: System, token: string | null): Promise<AgentCtx> {
  const found = token?.startsWith("sm_agent_") ? await queries.selectAgentByToken(system.sql, hashToken(token)) : null;
  if (found == null) throw unknownToken();
  return { ...system, agentId: found.id, region: found.region_id };
}

/** Whose token it is, and who answers. Gives no sign of life. */
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

/** Notes a sign of life. Throws UNAUTHENTICATED for an agent that was deleted while its pull was held. */
export async function agentSeen(ctx: AgentCtx): Promise<void> {
  if (!(await queries.touchAgent(ctx.sql, ctx.agentId, new Date(ctx.clock.now())))) throw unknownToken();
}

/**
 * Notes what an agent says of itself. `impairedSince` (Unix ms) is null while its own network works. One that comes, or whose
 * word changes who probes what, wakes the others of its region: each target should be two agents' for as short as can be.
 */
export async function agentPulls(
  ctx: AgentCtx,
  says: { version: string; impairedSince: number | null },
): Promise<void> {
  const impairedSince = says.impairedSince === null ? null : new Date(says.impairedSince);
  const before = await queries.updateAgentState(ctx.sql, ctx.agentId, {
    version: says.version,
    impairedSince,
    now: new Date(ctx.clock.now()),
  });
  if (before === null) return;
  const turned = (before.impaired_since === null) !== (impairedSince === null);
  if (turned || !isLive(before, ctx.clock.now())) await queries.wakePulls(ctx.sql);
  if (!turned) return;
  const about = { agent: ctx.agentId, region: ctx.region };
  if (impairedSince !== null)
    ctx.log.warn(
      { ...about, since: iso(impairedSince) },
      "an agent's own network is down: what it fails to reach counts for nothing",
    );
  else ctx.log.info(about, "an agent's own network works again");
}

/** Notes that the agent stops: its targets go to the others of its region at once. */
export async function agentLeaves(ctx: AgentCtx): Promise<void> {
  await queries.markAgentLeft(ctx.sql, ctx.agentId, new Date(ctx.clock.now()));
  await queries.wakePulls(ctx.sql);
  ctx.log.info({ agent: ctx.agentId, region: ctx.region }, "an agent has stopped");
}

/** Ids of the agents that share a region's targets: those alive; not those whose own network is down, unless there are no others. */
export async function liveAgents(system: Pick<System, "sql" | "clock">, region: string): Promise<string[]> {
  const live = await queries.selectLiveAgents(system.sql, region, liveSince(system));
  const able = live.filter(({ impaired }) => !impaired);
  return (able.length > 0 ? able : live).map(({ id }) => id);
}

const isLive = (row: Pick<queries.AgentRow, "last_seen_at" | "left_at">, now: number): boolean =>
  row.left_at === null && row.last_seen_at !== null && row.last_seen_at.getTime() > now - agentLiveMs;

const liveSince = ({ clock }: Pick<System, "clock">): Date => new Date(clock.now() - agentLiveMs);

/** A region from which nothing is checked at present. */
export interface SilentRegion {
  id: string;
  name: string;
  /** `network`: the network of its agents is down; `agents`: none of them pulls; `none`: it has none. */
  why: "network" | "agents" | "none";
  /** RFC 3339; null when there never was an agent. */
  since: string | null;
}

/** The regions that probe something of the caller's organisation and cannot at present. An agent that has just gone away is given a minute. */
export async function silentRegions(ctx: Ctx): Promise<SilentRegion[]> {
  requireScope(ctx, "targets:read");
  return (await queries.selectSilentRegions(ctx.sql, ctx.orgId, new Date(ctx.clock.now() - patienceMs))).map(
    silentRegion,
  );
}

/** Agents come and go when they are updated. */
const patienceMs = 60_000;

/** What of agents and regions an operator has to see to. For the job that tells them. */
export async function agentTroubles(
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

/** What the agents of each enabled region have to probe, and how many of them are alive. For operators. */
export async function regionCover(system: Pick<System, "sql" | "clock">): Promise<queries.RegionCoverRow[]> {
  return await queries.selectRegionCover(system.sql, new Date(system.clock.now() - agentLiveMs));
}

function present(row: queries.AgentRow, now: number): Agent {
  return {
    id: row.id,
    name: row.name,
    region: row.region_id,
    built_in: row.built_in,
    live: isLive(row, now),
    version: row.version,
    created_at: iso(row.created_at),
    last_seen_at: isoOrNull(row.last_seen_at),
    impaired_since: isoOrNull(row.impaired_since),
  };
}

/** Every agent of the instance, by region and name. For operators. */
export async function listAgents(system: System, input: { limit: number; offset: number }): Promise<Page<Agent>> {
  const [rows, total] = await Promise.all([
    queries.selectAgents(system.sql, input.limit, input.offset),
    queries.countAgents(system.sql),
  ]);
  return {
    items: rows.map((row) => present(row, system.clock.now())),
    total,
    limit: input.limit,
    offset: input.offset,
  };
}

/** Makes an agent and its token, which is answered this once. For operators. */
export async function createAgent(system: System, input: AgentCreate): Promise<AgentWithToken> {
  if (!(await regionExists(system, input.region)))
    throw new AppError("REGION_NOT_FOUND", `There is no region "${input.region}". Create it first.`, {
      field: "/region",
    });
  const token = newToken("sm_agent_");
  const row = await queries.insertAgent(system.sql, {
    id: newId(),
    regionId: input.region,
    name: input.name,
    hash: hashToken(token),
    builtIn: false,
    now: new Date(system.clock.now()),
  });
  return { ...present(row, system.clock.now()), token };
}

const notFound = () => new AppError("AGENT_NOT_FOUND", "There is no such agent.");

/** One agent. For operators. */
export async function getAgent(system: System, id: string): Promise<Agent> {
  const row = isId(id) ? await queries.selectAgent(system.sql, id) : null;
  if (row === null) throw notFound();
  return present(row, system.clock.now());
}

/** Renames an agent. For operators. */
export async function renameAgent(system: System, id: string, name: string): Promise<Agent> {
  const row = isId(id) ? await queries.renameAgent(system.sql, id, name) : null;
  if (row === null) throw notFound();
  return present(row, system.clock.now());
}

/** Deletes an agent; its token fails on its next request. For operators. */
export async function deleteAgent(system: System, id: string): Promise<void> {
  if (!isId(id) || !(await queries.deleteAgent(system.sql, id))) throw notFound();
  // A pull of its own that is held ends, and the others of its region take over.
  await queries.wakePulls(system.sql);
}

/** Makes sure that the built-in agent of this control plane may pull with `token`. */
export async function ensureBuiltInAgent(system: System, token: string, name: string): Promise<void> {
  const now = new Date(system.clock.now());
  await queries.upsertBuiltInAgent(system.sql, {
    id: newId(),
    regionId: system.config.scheduler.region,
    name,
    hash: hashToken(token),
    now,
  });
  await queries.deleteStaleBuiltIns(system.sql, new Date(now.getTime() - 7 * 86_400_000));
}
