import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { dayMs } from "@statusmesh/shared/time";
import { record } from "../../access/audit/service.ts";
import { type Ctx, inTransaction, requireScope } from "../../platform/context.ts";
import { iso, isoTimes, type Page, pageOf } from "../../platform/http/wire.ts";
import { callerOf } from "../incidents/timeline/service.ts";
import * as queries from "./queries.ts";
import type { Snooze, SnoozeCreate, SnoozeQuery } from "./schema.ts";

/*
 * A snooze holds the notifications of monitors until its end. What holds a notice is decided in
 * alerting/incidents/holds/hold-queries.ts, and the job `maintenance` sends what is still true when nothing holds it.
 */

const maxDays = 30;
/** Every notice of the organisation is compared with each. */
const maxSnoozes = 100;

const invalid = (message: string, field: string) => new AppError("INVALID_SNOOZE", message, { field });

/** The snoozes that last, the next to end first. */
export async function listSnoozes(ctx: Ctx, page: SnoozeQuery): Promise<Page<Snooze>> {
  requireScope(ctx, "incidents:read");
  return pageOf(await queries.selectSnoozes(ctx.sql, ctx.orgId, new Date(ctx.clock.now()), page), page, present);
}

/** The first snoozes that last, as the frame of the console shows them. */
export async function shownSnoozes(ctx: Ctx) {
  const { items } = await listSnoozes(ctx, { limit: 3, offset: 0 });
  return items.map(({ id, scope, reason, until }) => ({ id, reason, until, covers: coversOf(scope) }));
}

/** `all monitors`, `tag web` or `3 monitors`. */
export function coversOf({ all, tag, target_ids: ids = [] }: Snooze["scope"]): string {
  if (all) return "all monitors";
  return tag ? `tag ${tag}` : ids.length === 1 ? "1 monitor" : `${ids.length} monitors`;
}

/** Holds the notifications of monitors from now on. Throws INVALID_SNOOZE. */
export async function createSnooze(ctx: Ctx, { scope, until, reason = null }: SnoozeCreate): Promise<Snooze> {
  requireScope(ctx, "incidents:write");
  const now = ctx.clock.now();
  const end = Date.parse(until);
  if (Object.keys(scope).length !== 1)
    throw invalid("Give exactly one of all, tag and target_ids: what the snooze covers.", "/scope");
  if (!(end > now)) throw invalid("until must be in the future.", "/until");
  if (end > now + maxDays * dayMs) throw invalid(`A snooze lasts at most ${maxDays} days.`, "/until");
  return await inTransaction(ctx, async (tx) => {
    const ids = scope.target_ids?.map((id) => id.toLowerCase());
    if (ids !== undefined) {
      const known = await queries.selectTargets(tx.sql, tx.orgId, ids);
      const unknown = ids.findIndex((id) => !known.has(id));
      if (unknown >= 0) throw invalid("Monitor not found.", `/scope/target_ids/${unknown}`);
    }
    await queries.lockSnoozes(tx.sql, tx.orgId);
    await queries.dropEnded(tx.sql, tx.orgId, new Date(now));
    if ((await queries.countSnoozes(tx.sql, tx.orgId, new Date(now))) >= maxSnoozes)
      throw invalid(`The limit of ${maxSnoozes} active snoozes is reached: end one first.`, "/scope");
    const row: queries.SnoozeRow = {
      id: newId(),
      org_id: tx.orgId,
      scope: ids === undefined ? scope : { target_ids: [...new Set(ids)] },
      until: new Date(end),
      reason,
      created_by: await callerOf(tx),
      created_at: new Date(now),
    };
    await queries.insertSnooze(tx.sql, row);
    await record(tx, { resourceId: row.id, after: await auditable(tx, row) });
    return present(row);
  });
}

/** Ends a snooze: what it held and is still true is sent within seconds. Throws SNOOZE_NOT_FOUND. */
export async function endSnooze(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "incidents:write");
  await inTransaction(ctx, async (tx) => {
    const row = isId(id) ? await queries.deleteSnooze(tx.sql, tx.orgId, id) : null;
    if (row === null) throw new AppError("SNOOZE_NOT_FOUND", "Snooze not found.");
    await record(tx, { resourceId: id, before: await auditable(tx, row) });
  });
}

/** With the names of the monitors at this time: `Website`, `Website and API` or `Website and 4 others`. */
async function auditable({ sql, orgId }: Ctx, { scope, until, reason }: queries.SnoozeRow): Promise<object> {
  const { target_ids: ids = [] } = scope;
  const names = await queries.selectTargets(sql, orgId, ids);
  const [first, second] = ids.flatMap((id) => names.get(id) ?? []);
  const others = ids.length > 2 ? `${ids.length - 1} others` : second;
  const covers = first === undefined ? coversOf(scope) : others === undefined ? first : `${first} and ${others}`;
  return { covers, scope, until: iso(until), reason };
}

const present = ({ org_id: _, ...row }: queries.SnoozeRow): Snooze => isoTimes(row);
