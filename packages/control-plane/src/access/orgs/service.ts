import { randomInt } from "node:crypto";
import { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { dayMs } from "@statusmesh/shared/time";
import { differences, getEntry, listAudit as listEntries, record, recordedNames } from "../audit/service.ts";
import type { AuditEntry, AuditQuery } from "../audit/schema.ts";
import { hasProvenSecondFactor, requireFreshSession } from "../auth/second-factor/service.ts";
import { lockUser, slugOf } from "../auth/service.ts";
import { moveSession } from "../auth/sessions/service.ts";
import { type Ctx, inTransaction, requireScope, type System } from "../../platform/context.ts";
import { type Paging, unlessTaken } from "../../platform/db/client/sql.ts";
import { iso, isoOrNull, type Page, pageOf } from "../../platform/http/wire.ts";
import { checkedZone } from "../../platform/zoned.ts";
import { PlanRefusal, refusalsOf } from "../plans/service.ts";
import { asChangingOwner, asOwner, inOrg, notFound, tokenOf } from "./access.ts";
import { insertMembership } from "./members/queries.ts";
import * as queries from "./queries.ts";
import { quotas } from "../plans/schema.ts";
import type { Escalation, Org, OrgCreate, OrgPatch, Role, Usage } from "./schema.ts";
export { asOwner };

const graceMs = (system: System): number => system.config.tenancy.deletion_grace_period_days * dayMs;

/** The caller's organisations, oldest first. Owners also see those that they can restore. */
export async function listOrgs(ctx: Ctx, paging: Paging): Promise<Page<Org>> {
  requireScope(ctx, "org:read");
  const listed = await queries.selectOrgs(ctx.sql, ctx.userId, tokenOf(ctx), paging);
  return pageOf(listed, paging, (row) => present(ctx, row, row.role));
}

/** One organisation of the caller. Throws ORG_NOT_FOUND. */
export async function getOrg(ctx: Ctx, id: string): Promise<Org> {
  requireScope(ctx, "org:read");
  const own = await inOrg(ctx, id, true);
  return present(ctx, await queries.selectOrg(ctx.sql, id), own.role);
}

/**
 * Creates an organisation owned by the caller. Throws SLUG_TAKEN, QUOTA_EXCEEDED, and FORBIDDEN for a token that could
 * not use it.
 */
export async function createOrg(ctx: Ctx, input: OrgCreate): Promise<Org> {
  requireScope(ctx, "org:write");
  const { name } = input;
  const now = new Date(ctx.clock.now());
  const row: queries.OrgRow = {
    id: newId(),
    slug: input.slug ?? slugOf(name),
    name,
    plan_id: ctx.config.tenancy.default_plan,
    created_at: now,
    deleted_at: null,
    setup_dismissed_at: null,
    escalation: [],
    timezone: "UTC",
    require_second_factor: false,
  };
  const token = tokenOf(ctx);
  if (token !== null && (await queries.isBound(ctx.sql, token)))
    throw new AppError(
      "FORBIDDEN",
      "A token that is bound to an organisation cannot make another one. Use a session, or a token that is not bound.",
    );
  return await inTransaction(ctx, async (tx) => {
    await withinOwnerLimit(tx);
    while (!(await queries.insertOrg(tx.sql, row))) {
      if (input.slug !== undefined) throw slugTaken(row.slug);
      row.slug = `${slugOf(name).slice(0, 24)}-${randomInt(10_000, 100_000)}`;
    }
    await insertMembership(tx.sql, { org_id: row.id, user_id: ctx.userId, role: "owner", created_at: now });
    await record({ ...tx, orgId: row.id }, { resourceId: row.id, after: auditable(row) });
    return present(tx, row, "owner");
  });
}

/** Time zone of an organisation. Without a scope check. */
export const timezoneOf = async ({ sql }: System, orgId: string): Promise<string> =>
  (await queries.selectOrg(sql, orgId)).timezone;

/** What a change of the default ladder needs of other domains, in the same transaction. */
export interface LadderEffects {
  /** The channels of the organisation among `ids`. */
  existingChannels(tx: Ctx, orgId: string, ids: readonly string[]): Promise<ReadonlySet<string>>;
  /** Has open incidents follow the changed ladder. */
  rescheduleLadders(tx: System, orgId: string): Promise<unknown>;
}

/**
 * Throws FRESH_SIGN_IN_REQUIRED, and FORBIDDEN for an owner without a second factor who requires one of the members: it
 * must be proven in the session, or be set up for the user of a token.
 */
async function secondFactorRule(own: Ctx, required: boolean): Promise<void> {
  await requireFreshSession(own);
  if (!required || (await hasProvenSecondFactor(own))) return;
  throw new AppError(
    "FORBIDDEN",
    "Set up a second factor for your own account, and sign in with it, before you require one of everybody.",
  );
}

/**
 * Changes the given fields of an organisation, effective at once. For owners. `require_second_factor` throws
 * FRESH_SIGN_IN_REQUIRED, and FORBIDDEN for an owner without one.
 */
export async function updateOrg(ctx: Ctx, id: string, patch: OrgPatch, effects: LadderEffects): Promise<Org> {
  requireScope(ctx, "org:write");
  const { escalation } = patch;
  const channels = escalation?.flatMap((level) => level.channel_ids) ?? [];
  return await change(
    ctx,
    id,
    false,
    async (own, before) => {
      const required = patch.require_second_factor ?? before.require_second_factor;
      if (required !== before.require_second_factor) await secondFactorRule(own, required);
      if (escalation !== undefined) ladderRule(escalation, await effects.existingChannels(own, id, channels));
      return {
        ...before,
        name: patch.name ?? before.name,
        slug: patch.slug ?? before.slug,
        setup_dismissed_at:
          patch.setup_dismissed === undefined
            ? before.setup_dismissed_at
            : patch.setup_dismissed
              ? (before.setup_dismissed_at ?? new Date(own.clock.now()))
              : null,
        escalation: escalation ?? before.escalation,
        timezone: patch.timezone === undefined ? before.timezone : checkedZone(patch.timezone, "/timezone"),
        require_second_factor: required,
      };
    },
    async (own) => escalation !== undefined && (await effects.rescheduleLadders(own, id)),
  );
}

/** What deleting and restoring an organisation do in other domains, in the same transaction. */
export interface OrgEffects {
  /** Has the agents of its monitors start or stop their checks. */
  announceTargets(tx: System, orgId: string): Promise<unknown>;
  /** Drops cached status pages on every replica. */
  refreshPages(tx: System, orgId: string): Promise<unknown>;
  /** Notices that waited while the organisation was deleted are out of date. */
  dropHeldNotices(tx: System, orgId: string): Promise<unknown>;
}

/**
 * Soft-deletes an organisation for the grace period: members and tokens are refused, checks stop, pages are gone,
 * deliveries are held, late results are dropped. No data is deleted yet. For owners. Throws FRESH_SIGN_IN_REQUIRED.
 */
export async function deleteOrg(ctx: Ctx, id: string, effects: Omit<OrgEffects, "dropHeldNotices">): Promise<void> {
  requireScope(ctx, "org:write");
  await change(ctx, id, false, async (own, before) => {
    await requireFreshSession(own);
    await effects.announceTargets(own, id);
    await effects.refreshPages(own, id);
    return { ...before, deleted_at: new Date(own.clock.now()) };
  });
}

/** Restores a deleted organisation. For owners; ORG_NOT_FOUND after the grace period. */
export async function restoreOrg(ctx: Ctx, id: string, effects: OrgEffects): Promise<Org> {
  requireScope(ctx, "org:write");
  return await change(ctx, id, true, async (own, before) => {
    if (before.deleted_at === null) return before;
    if (before.deleted_at.getTime() + graceMs(own) <= own.clock.now()) throw notFound();
    await withinOwnerLimit(own);
    await effects.announceTargets(own, id);
    await effects.refreshPages(own, id);
    await effects.dropHeldNotices(own, id);
    return { ...before, deleted_at: null };
  });
}

/** Switches the session of the caller to another organisation of its user. Throws FORBIDDEN without a session. */
export async function switchOrg(ctx: Ctx, id: string): Promise<Org> {
  if (ctx.actor.type !== "session")
    throw new AppError(
      "FORBIDDEN",
      "Only a session has an organisation to switch from. A token names one by the header X-Sm-Org.",
    );
  const own = await inOrg(ctx, id);
  await inTransaction(own, async (tx) => {
    await moveSession(tx, id);
    await record(tx, { resourceId: id, before: { org_id: ctx.orgId }, after: { org_id: id } });
  });
  return present(own, await queries.selectOrg(ctx.sql, id), own.role);
}

/** Plan limits and current usage. */
export async function usage(ctx: Ctx, id: string): Promise<Usage> {
  requireScope(ctx, "org:read");
  const own = await inOrg(ctx, id);
  return { ...(await usageOf(own)), refused_30d: await refusalsOf(own) };
}

/** Plan limits and current usage of the caller's organisation, for readers of its monitors. */
export async function ownUsage(ctx: Ctx): Promise<Pick<Usage, "plan" | "min_check_interval_secs" | "quotas">> {
  requireScope(ctx, "targets:read");
  return await usageOf(ctx);
}

async function usageOf({
  sql,
  orgId,
  clock,
}: Ctx): Promise<Pick<Usage, "plan" | "min_check_interval_secs" | "quotas">> {
  const [{ plan, min_check_interval_secs, limits }, counts] = await Promise.all([
    queries.selectLimits(sql, orgId),
    queries.countUsage(sql, [orgId], new Date(clock.now())),
  ]);
  const used = quotas.map((quota) => [quota, { current: counts.get(orgId)![quota], limit: limits[quota] }]);
  return { plan, min_check_interval_secs, quotas: Object.fromEntries(used) as Usage["quotas"] };
}

/** The audit log of an organisation, newest first. For owners. */
export async function listAudit(ctx: Ctx, id: string, query: AuditQuery): Promise<Page<AuditEntry>> {
  requireScope(ctx, "org:read");
  return await listEntries(await asOwner(ctx, id), query);
}
export { recordedNames };

/** One audit entry, with every id of a bulk request. For owners. */
export async function getAuditEntry(ctx: Ctx, id: string, entryId: string): Promise<AuditEntry> {
  requireScope(ctx, "org:read");
  return await getEntry(await asOwner(ctx, id), entryId);
}

/**
 * Deletes organisations whose grace period is over, with everything in them. Returns their number. `deleteTargets` is
 * called first, in the same transaction: rows keyed by target id alone follow its tombstones.
 */
export async function purgeDeletedOrgs(
  system: System,
  deleteTargets: (tx: System, orgId: string) => Promise<unknown>,
): Promise<number> {
  const cutoff = new Date(system.clock.now() - graceMs(system));
  let purged = 0;
  for (const id of await queries.selectPurgeable(system.sql, cutoff)) {
    await inTransaction(system, async (tx) => {
      if (!(await queries.lockPurgeable(tx.sql, id, cutoff))) return;
      await deleteTargets(tx, id);
      await queries.deleteOrg(tx.sql, id);
      purged++;
    });
  }
  return purged;
}

/** A change of an organisation by an owner, recorded with before and after. */
async function change(
  ctx: Ctx,
  id: string,
  deletedToo: boolean,
  work: (own: Ctx, before: queries.OrgRow) => Promise<queries.OrgRow>,
  then: (own: Ctx) => Promise<unknown> = async () => {},
): Promise<Org> {
  return await inTransaction(ctx, async (tx) => {
    const own = await asChangingOwner(tx, id, deletedToo);
    const before = await queries.lockOrg(tx.sql, id);
    // Deleted or purged while this request waited for the lock.
    if (before === null || (!deletedToo && before.deleted_at !== null)) throw notFound();
    const after = await work(own, before);
    const written = queries.updateOrg(tx.sql, after, new Date(tx.clock.now()));
    await unlessTaken(written, (cause) => slugTaken(after.slug, cause));
    await then(own);
    const sides = { before: auditable(before), after: auditable(after) };
    // A deletion and a restore record the whole organisation.
    await record(own, {
      resourceId: id,
      ...(sides.before.deleted_at === sides.after.deleted_at ? differences(sides) : sides),
    });
    return present(ctx, after, own.role);
  });
}

async function withinOwnerLimit(tx: Ctx): Promise<void> {
  const limit = tx.config.tenancy.free_tier_owner_org_limit;
  await lockUser(tx.sql, tx.userId);
  const current = await queries.countOwnedOrgs(tx.sql, tx.userId);
  if (current < limit) return;
  const refused = { quota: "owned_orgs", current, limit, plan: tx.config.tenancy.default_plan };
  throw new PlanRefusal("QUOTA_EXCEEDED", `You own ${current} organisations, and ${limit} are allowed.`, refused);
}

const slugTaken = (slug: string, cause?: unknown) =>
  new AppError("SLUG_TAKEN", `The slug ${slug} belongs to another organisation. Choose a different one.`, { cause });

const auditable = ({ name, slug, plan_id, deleted_at, setup_dismissed_at, ...settings }: queries.OrgRow) => ({
  name,
  slug,
  plan: plan_id,
  setup_dismissed: setup_dismissed_at !== null,
  escalation: settings.escalation,
  timezone: settings.timezone,
  require_second_factor: settings.require_second_factor,
  deleted_at: isoOrNull(deleted_at),
});

function present(ctx: Ctx, row: queries.OrgRow, role: Role): Org {
  return {
    id: row.id,
    name: row.name,
    slug: row.slug,
    plan: row.plan_id,
    role,
    setup_dismissed: row.setup_dismissed_at !== null,
    escalation: row.escalation,
    timezone: row.timezone,
    require_second_factor: row.require_second_factor,
    current: ctx.unnamedOrg !== true && row.id === ctx.orgId,
    created_at: iso(row.created_at),
    deleted_at: isoOrNull(row.deleted_at),
    purged_at: row.deleted_at === null ? null : iso(new Date(row.deleted_at.getTime() + graceMs(ctx))),
  };
}

/** The levels of a ladder rise, and name each channel once. `known` are the channels of the organisation. */
export function ladderRule(ladder: Escalation, known: ReadonlySet<string>): void {
  for (const [at, { after_minutes: minutes, channel_ids: ids }] of ladder.entries()) {
    const before = ladder[at - 1]?.after_minutes ?? 0;
    if (minutes <= before)
      throw new AppError("INVALID_ALERT_CONFIG", `Each level is later than the one before: use more than ${before}.`, {
        field: `/escalation/${at}/after_minutes`,
      });
    for (const [place, id] of ids.entries()) {
      const field = `/escalation/${at}/channel_ids/${place}`;
      if (!known.has(id)) throw new AppError("INVALID_ALERT_CONFIG", "Channel not found.", { field });
      if (ids.indexOf(id) !== place)
        throw new AppError("INVALID_ALERT_CONFIG", "This level names the channel twice. List it once.", { field });
    }
  }
}
