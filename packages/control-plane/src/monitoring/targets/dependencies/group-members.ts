import { maxDepth } from "@statusmesh/shared/checks/group";
import { AppError } from "@statusmesh/shared/errors";
import { markGroups, markMembers, writeLevels } from "../../../alerting/incidents/groups/service.ts";
import type { ActorCtx } from "../../../platform/context.ts";
import { findCycle } from "./queries.ts";
import * as queries from "./group-member-queries.ts";

/** Names of monitors that a group lists. */
export const namesOf = async ({ sql, orgId }: ActorCtx, ids: readonly string[]) =>
  ids.length === 0 ? [] : await queries.selectNamesOf(sql, orgId, ids);

/** A written group or monitor, with its pointer in the request. */
interface Written {
  readonly id: string;
  readonly base: string;
}

/**
 * Writes who is a member of which group after groups, or tags or dependencies of monitors, have been written, and has
 * the groups that this changes judged. Throws INVALID_GROUP, GROUP_CYCLE, DEPENDENCY_CYCLE and GROUP_TOO_DEEP. The
 * caller keeps the dependencies.
 */
export async function writeMembers(
  tx: ActorCtx,
  { groups, monitors }: { groups: readonly Written[]; monitors: readonly Written[] },
): Promise<void> {
  const { sql, orgId } = tx;
  if (groups.length + monitors.length === 0 || !(await queries.hasGroups(sql, orgId))) return;
  const groupIds = groups.map(({ id }) => id);
  const changed = await queries.replaceGroups(
    sql,
    orgId,
    monitors.map(({ id }) => id),
  );
  if (groups.length + changed.length === 0) return;
  if (groups.length > 0) {
    const unknown = await queries.findUnknown(sql, orgId, groupIds);
    if (unknown !== null) {
      const { base } = groups.find(({ id }) => id === unknown.id)!;
      throw new AppError("INVALID_GROUP", "There is no monitor with this id.", {
        field: `${base}/check/members/${unknown.position}`,
      });
    }
    await queries.replaceMembers(sql, orgId, groupIds);
  }
  const written = [...groups, ...monitors];
  const fieldOf = (id: string): string => {
    const group = groups.find((one) => one.id === id);
    return group === undefined ? `${written.find((one) => one.id === id)!.base}/tags` : `${group.base}/check/members`;
  };
  const ids = written.map(({ id }) => id);
  const own = await findCycle(sql, ids, "groups");
  if (own !== null)
    throw new AppError(
      "GROUP_CYCLE",
      "A group cannot be a member of itself, directly, over other groups or by a tag.",
      {
        field: fieldOf(own),
      },
    );
  const mixed = await findCycle(sql, ids);
  if (mixed !== null)
    throw new AppError("DEPENDENCY_CYCLE", "A group cannot have a member that depends on the group.", {
      field: fieldOf(mixed),
    });
  const heights = await queries.selectHeights(sql, orgId);
  const tooDeep = heights.some(({ level }) => level > maxDepth);
  if (tooDeep)
    throw new AppError("GROUP_TOO_DEEP", `At most ${maxDepth} groups may stand above each other.`, {
      field: fieldOf(ids[0]!),
    });
  await writeLevels(sql, heights);
  markGroups(tx, [...groupIds, ...changed]);
}

/** Has groups follow a pause or its end: of their members, or their own. */
export function followPause(tx: ActorCtx, ids: readonly string[]): void {
  markMembers(tx, ids);
  markGroups(tx, ids);
}

/** Takes monitors out of their groups, in the transaction that deletes them and before it does. */
export async function leaveGroups(tx: ActorCtx, ids: readonly string[]): Promise<void> {
  markGroups(tx, await queries.leaveGroups(tx.sql, tx.orgId, ids));
}
