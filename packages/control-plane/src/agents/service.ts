import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import type { AgentCtx, System } from "../context.ts";
import { hashToken, newToken } from "../crypto/token.ts";
import { iso, isoOrNull, type Page } from "../http/wire.ts";
import { regionExists } from "../regions/service.ts";
import * as queries from "./queries.ts";
import type { Agent, AgentCreate, AgentWithToken } from "./schema.ts";

/**
 * An agent counts as live for this long after its last sign of life. While a pull is held open it gives one every few
 * seconds; a connection that died unnoticed is held for at most 25 s, so targets are taken over within 60 s.
 */
export const agentLiveMs = 25_000;

/** The door of `/api/agent`: an `sm_agent_` token and nothing else. */
export async function authenticateAgent(system: System, token: string | null): Promise<AgentCtx> {
  const found = token?.startsWith("sm_agent_") ? await queries.selectAgentByToken(system.sql, hashToken(token)) : null;
  if (found == null) throw new AppError("UNAUTHENTICATED", "The agent token is unknown or was deleted. Ask the operator of the control plane for a new one.");
  return { ...system, agentId: found.id, region: found.region_id };
}

/** Notes a sign of life. */
export async function agentSeen(ctx: AgentCtx, version: string | null): Promise<void> {
  await queries.touchAgent(ctx.sql, ctx.agentId, version, new Date(ctx.clock.now()));
}

/** Ids of the live agents of a region. */
export async function liveAgents(system: Pick<System, "sql" | "clock">, region: string): Promise<string[]> {
  return await queries.selectLiveAgents(system.sql, region, new Date(system.clock.now() - agentLiveMs));
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
    live: row.last_seen_at !== null && row.last_seen_at.getTime() > now - agentLiveMs,
    version: row.version,
    created_at: iso(row.created_at),
    last_seen_at: isoOrNull(row.last_seen_at),
  };
}

/** Every agent of the instance, by region and name. For operators. */
export async function listAgents(system: System, input: { limit: number; offset: number }): Promise<Page<Agent>> {
  const [rows, total] = await Promise.all([queries.selectAgents(system.sql, input.limit, input.offset), queries.countAgents(system.sql)]);
  return { items: rows.map((row) => present(row, system.clock.now())), total, limit: input.limit, offset: input.offset };
}

/** Makes an agent and its token, which is answered this once. For operators. */
export async function createAgent(system: System, input: AgentCreate): Promise<AgentWithToken> {
  if (!(await regionExists(system, input.region))) throw new AppError("REGION_NOT_FOUND", `There is no region "${input.region}". Create it first.`, { field: "/region" });
  const token = newToken("sm_agent_");
  const row = await queries.insertAgent(system.sql, {
    id: newId(),
    regionId: input.region,
    name: input.name.trim(),
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
  const row = isId(id) ? await queries.renameAgent(system.sql, id, name.trim()) : null;
  if (row === null) throw notFound();
  return present(row, system.clock.now());
}

/** Deletes an agent; its token fails on its next request. For operators. */
export async function deleteAgent(system: System, id: string): Promise<void> {
  if (!isId(id) || !(await queries.deleteAgent(system.sql, id))) throw notFound();
}

/** Makes sure that the built-in agent of this control plane may pull with `token`. */
export async function ensureBuiltInAgent(system: System, token: string, name: string): Promise<void> {
  const now = new Date(system.clock.now());
  await queries.upsertBuiltInAgent(system.sql, { id: newId(), regionId: system.config.scheduler.region, name, hash: hashToken(token), now });
  await queries.deleteStaleBuiltIns(system.sql, new Date(now.getTime() - 7 * 86_400_000));
}
