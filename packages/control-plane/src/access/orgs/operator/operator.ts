import { AppError } from "@statusmesh/shared/errors";
import { suggestion } from "@statusmesh/shared/text";
import { record } from "../../audit/service.ts";
import { asSystem, inTransaction, type System } from "../../../platform/context.ts";
import { isoTimes, type Page, pageOf } from "../../../platform/http/wire.ts";
import type { PlanOverrides, Quota } from "../../plans/schema.ts";
import { listPlans } from "../../plans/service.ts";
import * as queries from "./queries.ts";
import { countUsage } from "../queries.ts";
import type { OperatorOrg, OperatorOrgPatch, OperatorOrgQuery } from "../schema.ts";

/** Organisations of the installation, oldest first, deleted ones too. For operators. */
export async function listAllOrgs(
  { sql, clock }: Pick<System, "sql" | "clock">,
  { q: text = "", ...paging }: OperatorOrgQuery,
): Promise<Page<OperatorOrg>> {
  const listed = await queries.selectOrgs(sql, text, paging);
  const ids = listed.rows.map(({ id }) => id);
  const counts = await countUsage(sql, ids, new Date(clock.now()));
  return pageOf(listed, paging, (row) => present(row, counts.get(row.id)!));
}

/** One organisation, by its id or its slug. For operators. Throws ORG_NOT_FOUND. */
export async function getAnyOrg({ sql, clock }: Pick<System, "sql" | "clock">, org: string): Promise<OperatorOrg> {
  const row = await queries.selectOrg(sql, org.toLowerCase());
  if (row === null) throw noOrg();
  const counts = await countUsage(sql, [row.id], new Date(clock.now()));
  return present(row, counts.get(row.id)!);
}

interface OrgPlanPatch extends Omit<OperatorOrgPatch, "overrides"> {
  overrides?: PlanOverrides | ((before: PlanOverrides) => PlanOverrides);
}

/**
 * Moves an organisation to another plan, or replaces its overrides; `overrides` may be a function of those before. What
 * it has beyond a lower limit stays; only additions are refused. Its owners see the change in their audit log. For
 * operators. Throws ORG_NOT_FOUND, INVALID_BODY for an unknown plan.
 */
export async function changePlan(system: System, id: string, patch: OrgPlanPatch): Promise<OperatorOrg> {
  return await inTransaction(system, async (tx) => {
    const { id: orgId } = await getAnyOrg(tx, id);
    const before = await queries.lockOrgPlan(tx.sql, orgId);
    if (before === null) throw noOrg();
    const after = {
      plan_id: patch.plan ?? before.plan_id,
      plan_overrides:
        typeof patch.overrides === "function"
          ? patch.overrides(before.plan_overrides)
          : (patch.overrides ?? before.plan_overrides),
    };
    const known = (await listPlans(tx)).map((plan) => plan.id);
    if (!known.includes(after.plan_id))
      throw new AppError(
        "INVALID_BODY",
        `There is no plan ${JSON.stringify(after.plan_id)}.${suggestion(after.plan_id, known)} ` +
          `The plans are ${known.join(", ")}.`,
        { field: "/plan" },
      );
    await queries.updateOrgPlan(tx.sql, orgId, after, new Date(tx.clock.now()));
    // Without the address of the operator, which is not the organisation's business.
    await record(asSystem(tx, orgId, "PATCH /operator/orgs/{id}"), {
      resourceId: orgId,
      before: auditable(before),
      after: auditable(after),
    });
    return await getAnyOrg(tx, orgId);
  });
}

const noOrg = () => new AppError("ORG_NOT_FOUND", "There is no such organisation.");

const auditable = ({ plan_id, plan_overrides }: queries.OrgPlanRow) => ({ plan: plan_id, overrides: plan_overrides });

function present(row: queries.OperatorOrgRow, usage: Record<Quota, number>): OperatorOrg {
  const { created_at, deleted_at, ...shown } = isoTimes(row);
  const { id: _id, name: _name, ...limits } = row.limits;
  return { ...shown, limits, usage, created_at, deleted_at };
}
