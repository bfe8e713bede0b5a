import type { Fragment } from "postgres";
import { groupRegion } from "@statusmesh/shared/checks/group";
import { newId } from "@statusmesh/shared/ids";
import { getOrMake } from "../../../platform/caches.ts";
import { beforeCommit, inTransaction, type System } from "../../../platform/context.ts";
import type { Db } from "../../../platform/db/client/sql.ts";
import { addRuns, applyEvidence, type EvidenceChange, type LockedEvidence } from "../evidence/evidence.ts";
import * as queries from "./queries.ts";
import type { GroupRow } from "./queries.ts";
import { groupError, groupStatus } from "./state.ts";
import { closeByHand, withRaise } from "../evaluation/overrides.ts";
import { current, evaluate } from "../evaluation/replay.ts";

/*
 * Groups are judged as the last part of the transaction that changes a member, once, however many members it changes.
 * Their evidence is locked by level: a group after its members, and groups of one level in the order of ids. So no two
 * transactions wait for each other, and the second one reads the states that the first has written.
 */

interface Marks {
  readonly members: Set<string>;
  readonly groups: Set<string>;
}

/** By the list of what a transaction does last. */
const marksOf = new WeakMap<object, Marks>();

function marks(tx: System): Marks {
  const known = marksOf.get(tx.closing ?? {});
  if (known !== undefined) return known;
  const made = { members: new Set<string>(), groups: new Set<string>() };
  beforeCommit(tx, async (end) => await judgeMarked(end, made));
  marksOf.set(tx.closing!, made);
  return made;
}

/** Has the groups of monitors that this transaction changes judged at its end. */
export function markMembers(tx: System, ids: readonly string[]): void {
  for (const id of ids) marks(tx).members.add(id);
}

/** Has groups judged at the end of the transaction: their members or their rule have changed. */
export function markGroups(tx: System, ids: readonly string[]): void {
  for (const id of ids) marks(tx).groups.add(id);
}

async function judgeMarked(tx: System, { members, groups }: Marks): Promise<void> {
  const levels = new Map<number, Set<string>>();
  const add = (found: readonly queries.GroupLevel[]): void => {
    for (const { id, level } of found) getOrMake(levels, level, () => new Set()).add(id);
  };
  if (groups.size > 0) add(await queries.selectLevels(tx.sql, [...groups]));
  if (members.size > 0) add(await queries.selectGroupsOf(tx.sql, [...members]));
  // A group stands above its members, so that a lower level never comes back.
  while (levels.size > 0) {
    const level = Math.min(...levels.keys());
    const ids = [...levels.get(level)!].sort();
    levels.delete(level);
    const moved = await judge(tx, ids);
    if (moved.length > 0) add(await queries.selectGroupsOf(tx.sql, moved));
  }
}

/** Judges groups of one level. Returns those of which something has changed for groups above them. */
async function judge(tx: System, ids: readonly string[]): Promise<readonly string[]> {
  const now = tx.clock.now();
  const at = new Date(now);
  const judged: GroupRow[] = [];
  const select = async (sql: Db, wanted: readonly string[]) => {
    const rows = await queries.selectGroups(sql, wanted, at);
    judged.push(...rows);
    return rows.map((row) => ({ ...row, severity: row.critical ? ("critical" as const) : row.severity }));
  };
  const { moved } = await applyEvidence(tx, ids, select, async (evidence) => {
    const changes = new Map<string, EvidenceChange>();
    for (const [id, locked] of evidence) {
      const change = changeOf(locked, now);
      if (change !== null) changes.set(id, change);
    }
    return { changes, result: undefined };
  });
  if (judged.length > 0)
    await queries.writeJudged(
      tx.sql,
      judged.map((row) => ({ ...row, error: errorOf(row) })),
      at,
    );
  if (judged.length < ids.length) await queries.endSpans(tx.sql, ids, at);
  return moved;
}

/** What is wrong with a group now; null where nothing is. */
function errorOf(group: GroupRow): string | null {
  const status = groupStatus(group, group);
  if (status === "up" || status === "unknown") return null;
  return groupError(
    group,
    group.first.map(({ monitor_name: name }) => name),
  );
}

/** What follows for a group from the states of its members; null where nothing does. */
function changeOf(locked: LockedEvidence<GroupRow>, now: number): EvidenceChange | null {
  const by = { closedBy: "engine", lastResultAt: now } as const;
  const { target, policy, state } = locked;
  const status = groupStatus(target, target);
  const { incident } = current(policy, state.evaluation);
  const isOpen = incident !== null && incident.closedAt === null;
  const latest = state.latest[groupRegion];
  if (status === "unknown") {
    // What is only unknown or under maintenance may still be down: the incident stays.
    if (isOpen && incident.manual !== true && target.present === 0)
      return {
        evaluation: closeByHand(policy, state.evaluation, { at: now, notify: false }),
        latest: {},
        ...by,
        closedBy: "pause",
      };
    if (latest === undefined) return null;
    const evaluation = evaluate(policy, state.evaluation, [], { freshAfter: now, newId });
    return { evaluation, latest: {}, ...by };
  }
  const error = errorOf(target);
  const isRaised = isOpen && status === "down" && target.severity === "critical" && target.open_severity === "major";
  const matches = isOpen && incident.manual === true ? true : isOpen === (status !== "up");
  if (matches && latest?.status === status && latest.error === error && !isRaised) return null;
  const { recent, horizon } = state.evaluation;
  const slot = Math.max(now, (recent.at(-1)?.[0] ?? horizon[0]) + 1);
  const change = addRuns(locked, groupRegion, [{ slot, status, error, cause: null }], now);
  if (!isRaised || "newest" in change || change.evaluation.notices.length > 0) return { ...change, ...by };
  const raised = withRaise(change.evaluation);
  const { updated, checkpoint } = raised;
  const written = updated.length > 0 || checkpoint.incident === null ? updated : [checkpoint.incident];
  return { ...change, evaluation: { ...raised, updated: written }, ...by };
}

/** Groups of one transaction. */
const batch = 50;

export const areGroupsDue = ({ sql, clock }: System): Fragment => queries.isAnyGroupDue(sql, new Date(clock.now()));

/** Judges groups of which a member changes with time: it is not heard any more, or a window begins or ends. */
export async function followGroups(system: System): Promise<void> {
  for (let size = batch; size === batch;) {
    const due = await queries.selectDueGroups(system.sql, new Date(system.clock.now()), batch);
    size = due.length;
    if (size > 0) await inTransaction(system, async (tx) => markGroups(tx, due));
  }
}
