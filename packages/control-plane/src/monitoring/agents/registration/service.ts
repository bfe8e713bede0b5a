import { probedTypes } from "@statusmesh/shared/checks";
import { inability } from "@statusmesh/shared/checks/abilities";
import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { dayMs } from "@statusmesh/shared/time";
import type { System } from "../../../platform/context.ts";
import { hashToken, newToken } from "../../../platform/crypto/token.ts";
import type { Paging } from "../../../platform/db/client/sql.ts";
import { iso, isoOrNull, type Page } from "../../../platform/http/wire.ts";
import { regionExists, wakePulls } from "../../regions/service.ts";
import * as queries from "../queries.ts";
import type { Agent, AgentCreate, AgentWithToken } from "../schema.ts";

/**
 * An agent expires this long after it was last seen. A held pull updates that every few seconds; a connection that
 * died unnoticed is held for at most 25 s, so targets are taken over within 60 s.
 */
export const agentLiveMs = 25_000;

export const isLive = (row: Pick<queries.AgentRow, "last_seen_at" | "left_at">, now: number): boolean =>
  row.left_at === null && row.last_seen_at !== null && row.last_seen_at.getTime() > now - agentLiveMs;

export const liveSince = ({ clock }: Pick<System, "clock">): Date => new Date(clock.now() - agentLiveMs);

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

export function present(row: queries.AgentRow, now: number): Agent {
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
