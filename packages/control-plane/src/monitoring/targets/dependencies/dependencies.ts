import { AppError } from "@statusmesh/shared/errors";
import type { ActorCtx, Ctx } from "../../../platform/context.ts";
import * as queries from "./queries.ts";
import { selectExisting } from "../queries.ts";

const shownChildren = 8;

/** The ids as they are stored: each once. */
export const dependenciesOf = (ids: readonly string[]): string[] => [...new Set(ids.map((id) => id.toLowerCase()))];

/** Keeps the dependencies of the organisation as they are until the transaction ends. Before any target is locked. */
export async function keepDependencies({ sql, orgId }: ActorCtx): Promise<void> {
  await queries.lockDependencies(sql, orgId);
}

/**
 * Has targets depend on exactly these; `base` is the pointer of each in the request. Throws INVALID_DEPENDENCY for one
 * that the organisation does not have, and DEPENDENCY_CYCLE. The caller keeps the dependencies.
 */
export async function writeDependencies(
  { sql, orgId }: ActorCtx,
  targets: readonly (queries.Dependencies & { base: string })[],
): Promise<void> {
  const asked = targets.reduce((sum, { parents }) => sum + parents.length, 0);
  if ((await queries.replaceDependencies(sql, orgId, targets)) < asked) {
    const known = new Set(await selectExisting(sql, orgId, [...new Set(targets.flatMap(({ parents }) => parents))]));
    for (const { base, parents } of targets) {
      const at = parents.findIndex((id) => !known.has(id));
      if (at >= 0)
        throw new AppError("INVALID_DEPENDENCY", "There is no monitor with this id.", {
          field: `${base}/depends_on/${at}`,
        });
    }
  }
  const cycle =
    asked === 0
      ? null
      : await queries.findCycle(
          sql,
          targets.map(({ id }) => id),
        );
  if (cycle === null) return;
  const base = targets.find(({ id }) => id === cycle)!.base;
  throw new AppError("DEPENDENCY_CYCLE", "A monitor cannot depend on itself, directly or over others.", {
    field: `${base}/depends_on`,
  });
}

/** Monitors around a monitor in the graph of dependencies: what it depends on, and the first that depend on it. */
export async function neighboursOf(ctx: Ctx, id: string) {
  const at = new Date(ctx.clock.now());
  const [parents, children] = await Promise.all([
    queries.selectParents(ctx.sql, ctx.orgId, id, at),
    queries.selectChildren(ctx.sql, ctx.orgId, id, { at, limit: shownChildren }),
  ]);
  return { parents, children, childrenTotal: children[0]?.total ?? 0 };
}
