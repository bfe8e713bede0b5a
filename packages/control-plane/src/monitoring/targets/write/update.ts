import { budgetMs, isGroup, isHeartbeat, isProbed } from "@statusmesh/shared/checks";
import { isId } from "@statusmesh/shared/ids";
import { differences, record, sameJson } from "../../../access/audit/service.ts";
import { type Ctx, inTransaction, requireScope } from "../../../platform/context.ts";
import { requireMatch } from "../../../platform/http/reply/etag.ts";
import {
  closeSilently,
  reevaluate,
  rescheduleLadders,
  rescheduleReminders,
} from "../../../alerting/incidents/evidence/service.ts";
import { reconsiderDependencies } from "../../../alerting/incidents/holds/service.ts";
import { reopenWindows, replaceAddresses, shownOf } from "../../heartbeats/service.ts";
import { mapInTurns, portionsOf } from "../../../platform/process/turns.ts";
import { forgetDetails } from "../../results/history/service.ts";
import { keepDependencies, writeDependencies } from "../dependencies/dependencies.ts";
import { followPause, writeMembers } from "../dependencies/group-members.ts";
import * as queries from "../queries.ts";
import { notFound, present } from "./rules.ts";
import type { Target, TargetPatch } from "../schema.ts";
import { asShown } from "./as-shown.ts";
import { withFindings, withSavedFindings } from "./unable.ts";
import { targetTag, tagOf, type TargetEdit, type Edited, editContext, edited, isChanged, isElsewhere } from "./edit.ts";

/**
 * Changes what the patch names. Fields of `check` that it leaves out stay, secrets included: SECRET_UNREADABLE where
 * one of those cannot be opened, CREDENTIALS_REQUIRED where one would be sent to another server. PRECONDITION_FAILED
 * where `ifMatch` names an older state than the stored one (empty: any).
 */
export async function updateTarget(ctx: Ctx, id: string, patch: TargetPatch, ifMatch = ""): Promise<Target> {
  const made = await updateTargets(ctx, [{ id, patch }], async (tx, [before]) => {
    if (ifMatch === "") return;
    const [found] = await withFindings(tx, [before!]);
    requireMatch(ifMatch, targetTag(before!), tagOf(found!), tagOf(await asShown(tx, found!)));
  });
  return await withSavedFindings(ctx, made[0]!);
}

/** Edits of one statement. */
const statementRows = 500;

/**
 * {@link updateTarget} for many, all or none, in the same few statements; an id occurs once. `check` sees the
 * targets as they were. Throws the first fault.
 */
export async function updateTargets(
  ctx: Ctx,
  edits: readonly TargetEdit[],
  check: (tx: Ctx, before: readonly Target[]) => Promise<void> = async () => {},
): Promise<Target[]> {
  requireScope(ctx, "targets:write");
  if (!edits.every(({ id }) => isId(id))) throw notFound();
  return await inTransaction(ctx, async (tx) => {
    const ids = edits.map(({ id }) => id);
    const dependent = edits.filter(({ patch }) => patch.depends_on !== undefined);
    const joining = edits.filter(({ patch }) => patch.tags !== undefined || patch.check !== undefined);
    // Before any target is locked: an apply does the same.
    if (dependent.length + joining.length > 0) await keepDependencies(tx);
    const rows = new Map((await queries.lockTargets(tx.sql, ctx.orgId, ids)).map((row) => [row.id, row]));
    if (rows.size < ids.length) throw notFound();
    await check(
      tx,
      edits.map(({ id }) => present(rows.get(id)!)),
    );
    const known = await editContext(tx, edits);
    const done = await mapInTurns(edits, (edit): Edited => {
      const before = rows.get(edit.id)!;
      return { edit, before, ...edited(tx, before, edit, known) };
    });
    for (const some of portionsOf(done, statementRows)) await store(tx, some);
    if (dependent.length > 0) {
      const parentsOf = new Map(done.map(({ edit, after }) => [edit.id, after.depends_on]));
      await writeDependencies(
        tx,
        dependent.map(({ id }) => ({ id, parents: parentsOf.get(id)!, base: "" })),
      );
      await reconsiderDependencies(
        tx.sql,
        dependent.map(({ id }) => id),
      );
    }
    const written = done.map(({ edit: { id, patch }, check, after }) => ({ id, base: "", patch, check, after }));
    await writeMembers(tx, {
      groups: written.filter(({ check, after }) => check !== null && isGroup(after.spec)),
      monitors: written.filter(({ patch }) => patch.tags !== undefined),
    });
    await queries.announceTargets(tx.sql);
    const shown = await mapInTurns(done, ({ before, after }) => [present(before), present(after)] as const);
    if (tx.recordedAsWhole !== true)
      for (const [at, { edit, check: real }] of done.entries()) {
        const [old, fresh] = shown[at]!;
        await record(tx, {
          resourceId: edit.id,
          ...differences(
            { before: old, after: fresh },
            real === null
              ? undefined
              : { before: { ...old, check: real.before }, after: { ...fresh, check: real.after } },
          ),
        });
      }
    return shown.map(([, after]) => after);
  });
}

/** Writes edits of targets that the caller has locked, and what follows from them. */
async function store(tx: Ctx, edits: readonly Edited[]): Promise<void> {
  const { sql, orgId } = tx;
  const restarted = edits.filter(({ after, check }) => isProbed(after.spec) && check !== null && isChanged(check));
  await queries.updateTargets(
    sql,
    orgId,
    edits.map(({ after }) => after),
    restarted.map(({ edit }) => edit.id),
  );
  const rebound = edits.filter(({ edit }) => edit.patch.alerts !== undefined);
  await queries.replaceAlerts(
    sql,
    rebound.map(({ edit }) => edit.id),
    rebound.flatMap(({ edit, after }) => queries.bindingsOf(edit.id, after.alerts)),
  );
  for (const { edit } of edits)
    if (edit.regions !== undefined) await queries.replaceRegions(sql, edit.id, edit.regions);
  for (const { edit, after, check } of edits)
    if (check !== null && isElsewhere(check)) await forgetDetails(sql, orgId, edit.id, after.updated_at);
  const idsOf = (list: readonly Edited[]): string[] => list.map(({ edit }) => edit.id);
  await closeSilently(tx, idsOf(edits.filter(({ before, after }) => before.enabled && !after.enabled)));
  followPause(tx, idsOf(edits.filter(({ before, after }) => before.enabled !== after.enabled)));
  await reevaluate(
    tx,
    new Map(
      edits
        .map((one) => ({ ...one, restarts: restarted.includes(one) }))
        .filter(({ after, restarts }) => after.enabled || restarts)
        .map(({ edit, before, regions, restarts }) => [
          edit.id,
          { ...before, timeout: budgetMs(before.spec), regions, restarts },
        ]),
    ),
  );
  for (const { edit, before, after } of edits) {
    const { heartbeat_addresses: addresses } = edit.patch;
    const { renotify_interval_secs: renotify } = after;
    if (addresses !== undefined) {
      await replaceAddresses(tx, edit.id, addresses);
      after.heartbeat_addresses = await shownOf(tx, edit.id);
    }
    if (renotify !== before.renotify_interval_secs) await rescheduleReminders(tx, edit.id, renotify);
  }
  const climbing = edits.filter(({ before, after }) => !sameJson(before.escalation, after.escalation));
  if (climbing.length > 0) await rescheduleLadders(tx, orgId, idsOf(climbing));
  const reported = edits.filter(
    ({ before, after, check }) => isHeartbeat(before.spec) && (check !== null || after.enabled !== before.enabled),
  );
  for (const resumed of [false, true])
    await reopenWindows(
      tx,
      idsOf(reported.filter(({ before, after }) => (after.enabled && !before.enabled) === resumed)),
      { resumed },
    );
}
