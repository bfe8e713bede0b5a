import postgres from "postgres";
import { reservedRegions } from "@statusmesh/shared/checks";
import { AppError } from "@statusmesh/shared/errors";
import { type Ctx, inTransaction, requireScope, type System } from "../../platform/context.ts";
import type { Paging } from "../../platform/db/client/sql.ts";
import { iso, type Page } from "../../platform/http/wire.ts";
import * as queries from "./queries.ts";
import type { ProbeRegion, Region, RegionCreate, RegionPatch } from "./schema.ts";

export { wakePulls } from "./queries.ts";

const notFound = () => new AppError("REGION_NOT_FOUND", "Region not found.");

/** The regions that targets can be probed from. */
export async function listProbeRegions(ctx: Ctx, part: Paging): Promise<Page<ProbeRegion>> {
  requireScope(ctx, "targets:read");
  return await pageOf(ctx, true, part, ({ id, name, location }) => ({ id, name, location }));
}

async function pageOf<T>(
  { sql }: System,
  onlyEnabled: boolean,
  { limit, offset }: Paging,
  presented: (row: queries.RegionRow) => T,
): Promise<Page<T>> {
  const { rows, total } = await queries.selectRegionPage(sql, onlyEnabled, { limit, offset });
  return { items: rows.map(presented), total, limit, offset };
}

/** The enabled regions and, of the disabled ones, those in `own`, oldest first: what a form lets people choose from. */
export async function listRegionChoices(
  ctx: Ctx,
  own: readonly string[],
): Promise<(ProbeRegion & { enabled: boolean })[]> {
  requireScope(ctx, "targets:read");
  const rows = await queries.selectRegions(ctx.sql, false, { limit: 10_000, offset: 0 });
  return rows
    .filter((row) => row.enabled || own.includes(row.id))
    .map(({ id, name, location, enabled }) => ({ id, name, location, enabled }));
}

/** Ids of the enabled regions, oldest first. For internal use, without a scope. */
export async function probeRegionIds(system: System): Promise<string[]> {
  return (await queries.selectRegions(system.sql, true, { limit: 1000, offset: 0 })).map((region) => region.id);
}

const present = (row: queries.RegionRow): Region => ({
  id: row.id,
  name: row.name,
  location: row.location,
  enabled: row.enabled,
  created_at: iso(row.created_at),
  updated_at: iso(row.updated_at),
});

/** Every region of the installation, oldest first. For operators. */
export async function listRegions(system: System, part: Paging): Promise<Page<Region>> {
  return await pageOf(system, false, part, present);
}

/** One region. For operators. */
export async function getRegion(system: System, id: string): Promise<Region> {
  const row = await queries.selectRegion(system.sql, id);
  if (row === null) throw notFound();
  return present(row);
}

export async function regionExists(system: System, id: string): Promise<boolean> {
  return (await queries.selectRegion(system.sql, id)) !== null;
}

/** The enabled regions among `ids`, for the transaction that binds them: they are not deleted before it ends. */
export async function enabledRegionIds(system: System, ids: readonly string[]): Promise<Set<string>> {
  return new Set(await queries.keepEnabledRegions(system.sql, ids));
}

/** The regions that the operator has disabled. */
export async function disabledRegionIds(system: Pick<System, "sql">): Promise<Set<string>> {
  return new Set(await queries.selectDisabledRegions(system.sql));
}

/** Creates a region; targets created from now on are probed from it. For operators. */
export async function createRegion(system: System, input: RegionCreate): Promise<Region> {
  const row = await queries.insertRegion(system.sql, {
    id: input.id,
    name: input.name,
    location: input.location ?? null,
    now: new Date(system.clock.now()),
  });
  const isReserved = reservedRegions.includes(input.id);
  if (row === null)
    throw new AppError(
      "REGION_ID_TAKEN",
      isReserved
        ? `"${input.id}" is reserved for heartbeat monitors and groups. Choose another id.`
        : `There is a region "${input.id}" already.`,
      { field: "/id" },
    );
  return present(row);
}

/**
 * Changes the given fields. For operators. A disabled region stops its probes, an enabled one starts them, at the
 * commit; incidents stay as they are.
 */
export async function updateRegion(system: System, id: string, patch: RegionPatch): Promise<Region> {
  return await inTransaction(system, async ({ sql, clock }) => {
    const before = await queries.selectRegion(sql, id, { lock: true });
    if (before === null) throw notFound();
    const after = await queries.updateRegion(sql, {
      id,
      name: patch.name ?? before.name,
      location: patch.location === undefined ? before.location : patch.location,
      enabled: patch.enabled ?? before.enabled,
      now: new Date(clock.now()),
    });
    if (after.enabled !== before.enabled) await queries.wakePulls(sql);
    return present(after);
  });
}

/** Deletes a region that nothing uses. For operators. */
export async function deleteRegion(system: System, id: string): Promise<void> {
  try {
    if (!(await queries.deleteRegion(system.sql, id))) throw notFound();
  } catch (error) {
    // foreign_key_violation
    if (error instanceof postgres.PostgresError && error.code === "23503") {
      throw new AppError("RESOURCE_IN_USE", "Targets or agents are still in this region. Move or delete them first.", {
        cause: error,
      });
    }
    throw error;
  }
}

/** Creates the control plane's own region if it is absent. */
export async function ensureRegion(system: System, id: string): Promise<void> {
  await queries.insertRegion(system.sql, { id, name: id, location: null, now: new Date(system.clock.now()) });
}
