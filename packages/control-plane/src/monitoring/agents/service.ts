import { protocolVersion, type PullRequest, type WhoAmIReply } from "@statusmesh/shared/protocol/agent-protocol";
import { type CheckSpec, type CheckType, probedTypes } from "@statusmesh/shared/checks";
import { inability, inabilityFor, isAble, neededName } from "@statusmesh/shared/checks/abilities";
import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { dayMs, minuteMs } from "@statusmesh/shared/time";
import { type AgentCtx, type Ctx, requireScope, type System } from "../../platform/context.ts";
import { hashToken, newToken } from "../../platform/crypto/token.ts";
import type { Paging } from "../../platform/db/client/sql.ts";
import { iso, isoOrNull, type Page } from "../../platform/http/wire.ts";
import type { Region } from "../regions/schema.ts";
import { listRegions, regionExists, wakePulls } from "../regions/service.ts";
import { version } from "../../platform/program.ts";
import * as queries from "./queries.ts";
import type { Agent, AgentCreate, AgentWithToken } from "./schema.ts";

/**
 * An agent expires this long after it was last seen. A held pull updates that every few seconds; a connection that
 * died unnoticed is held for at most 25 s, so targets are taken over within 60 s.
 */
export const agentLiveMs = 25_000;

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

const isLive = (row: Pick<queries.AgentRow, "last_seen_at" | "left_at">, now: number): boolean =>
  row.left_at === null && row.last_seen_at !== null && row.last_seen_at.getTime() > now - agentLiveMs;

const liveSince = ({ clock }: Pick<System, "clock">): Date => new Date(clock.now() - agentLiveMs);

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

/** True when release `a` is older than `b`: compares the numbers of `1.2.3`, and ignores what follows them. */
export function isOlder(a: string, b: string): boolean {
  const [left, right] = [numbersOf(a), numbersOf(b)];
  const at = left.findIndex((number, index) => number !== right[index]);
  return at >= 0 && left[at]! < right[at]!;
}

const numbersOf = (release: string): number[] => {
  const [, ...parts] = /^(\d+)\.(\d+)\.(\d+)/.exec(release) ?? [];
  return [0, 1, 2].map((at) => Number(parts[at] ?? 0));
};

/** Targets of each enabled region and the number of its live agents. For operators. */
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
    waiting: row.waiting,
    lag_ms: row.lag_ms,
    unable: unableOf(row),
  };
}

/** The kinds of which the agent runs no check, with the reasons. */
function unableOf({ kinds, version: release }: queries.AgentRow): Agent["unable"] {
  if (kinds === null) return [];
  return probedTypes.flatMap((type) => {
    const reason = inability(kinds, type, release ?? "");
    return reason === null ? [] : [{ kind: type, reason }];
  });
}

/** Every agent of the installation, by region and name. For operators. */
export async function listAgents(system: System, { limit, offset }: Paging): Promise<Page<Agent>> {
  const { rows, total } = await queries.selectAgents(system.sql, { limit, offset });
  return { items: rows.map((row) => present(row, system.clock.now())), total, limit, offset };
}

/** Creates an agent and its token, which only this reply has. For operators. */
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

const notFound = () => new AppError("AGENT_NOT_FOUND", "Agent not found.");

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

/**
 * Deletes an agent; its token fails on its next request. A connected agent is deleted with `force` only: it would probe
 * nothing any more. For operators. Throws AGENT_NOT_FOUND, RESOURCE_IN_USE.
 */
export async function deleteAgent(system: System, id: string, { force }: { force: boolean }): Promise<void> {
  if (!isId(id)) throw notFound();
  if (!(await queries.deleteAgent(system.sql, id, force ? null : liveSince(system)))) {
    const { name } = await getAgent(system, id);
    throw new AppError(
      "RESOURCE_IN_USE",
      `The agent ${name} is connected. Stop it first, or force the deletion with ?force=true.`,
    );
  }
  // Its own held pull ends, and the others of its region take over.
  await wakePulls(system.sql);
}

/** Registers the built-in agent of this control plane with `token`; it is expected to connect from now on. */
export async function ensureBuiltInAgent(system: System, token: string, name: string): Promise<void> {
  const now = new Date(system.clock.now());
  await queries.upsertBuiltInAgent(system.sql, {
    id: newId(),
    regionId: system.config.scheduler.region,
    name,
    hash: hashToken(token),
    now,
  });
  await queries.deleteStaleBuiltIns(system.sql, new Date(now.getTime() - 7 * dayMs));
}
