import { AppError } from "@statusmesh/shared/errors";
import { inColumns } from "@statusmesh/shared/shell/terminal";
import { suggestion } from "@statusmesh/shared/text";
import { validate } from "@statusmesh/shared/schema/validate";
import { changePlan, getAnyOrg, listAllOrgs } from "../../access/orgs/operator/service.ts";
import type { OperatorOrg } from "../../access/orgs/schema.ts";
import { boundsOf, type Limit, limitNames, PlanOverrides } from "../../access/plans/schema.ts";
import type { System } from "../../platform/context.ts";

type Say = (line: string) => void;

const pageSize = 1000;

/** `statusmesh orgs`: prints all organisations, or those whose name or slug has the text `q`, as lines or as JSON. */
export async function printOrgs(
  system: Pick<System, "sql" | "clock">,
  { q, json }: { q: string; json: boolean },
  say: Say,
): Promise<void> {
  const orgs: OperatorOrg[] = [];
  for (let more = true; more;) {
    const page = await listAllOrgs(system, { q, limit: pageSize, offset: orgs.length });
    orgs.push(...page.items);
    more = page.items.length > 0 && orgs.length < page.total;
  }
  if (json) return say(JSON.stringify(orgs, null, 2));
  if (orgs.length === 0) return say(q === "" ? "There are no organisations." : `No organisation matches ${q}.`);
  const used = ({ usage, limits }: OperatorOrg, limit: "max_targets" | "max_members") =>
    `${usage[limit]}/${limitText(limits[limit])}`;
  const rows = orgs.map((org) => [
    org.slug,
    org.plan,
    used(org, "max_targets"),
    used(org, "max_members"),
    overridesText(org) || "-",
    printable(org.name) + (org.deleted_at === null ? "" : " (deleted)"),
  ]);
  for (const line of inColumns([["SLUG", "PLAN", "TARGETS", "MEMBERS", "OVERRIDES", "NAME"], ...rows])) say(line);
}

/**
 * `statusmesh set-plan`: moves an organisation (id or slug) to a plan. `overrides` are texts `limit=value`, where the
 * value is a number, `unlimited`, or `plan` for the limit of the plan; other overrides stay. Throws AppError for an
 * unknown organisation or plan, and for a wrong override.
 */
export async function setPlan(
  system: System,
  { org, plan, overrides }: { org: string; plan: string; overrides: readonly string[] },
  say: Say,
): Promise<void> {
  const changes = overrides.map(overrideOf);
  await getAnyOrg(system, org).catch((error: unknown) => {
    if (!(error instanceof AppError) || error.code !== "ORG_NOT_FOUND") throw error;
    throw new AppError("ORG_NOT_FOUND", `There is no organisation with the id or slug ${JSON.stringify(org)}.`);
  });
  const changed = await changePlan(system, org, {
    plan,
    overrides: (before) => changes.reduce(withOverride, before),
  });
  say(`${changed.slug} is on the plan ${changed.plan}. Overrides: ${overridesText(changed) || "none"}.`);
}

interface Override {
  readonly limit: Limit;
  /** Null is unlimited, undefined that of the plan. */
  readonly value: number | null | undefined;
}

/** One text `limit=value`. Throws AppError. */
function overrideOf(text: string): Override {
  const wrong = (message: string) => new AppError("INVALID_BODY", `--override ${text}: ${message}`);
  const [, name, value] = /^([^=]*)=(.*)$/s.exec(text) ?? [];
  if (name === undefined || value === undefined) throw wrong("write limit=value, for example max_targets=50.");
  const limit = limitNames.find((known) => known === name);
  if (limit === undefined)
    throw wrong(`there is no limit ${name}.${suggestion(name, limitNames)} The limits are ${limitNames.join(", ")}.`);
  if (value === "plan") return { limit, value: undefined };
  const { min, max, nullable } = boundsOf(limit);
  if (value === "unlimited" && nullable) return { limit, value: null };
  const number = /^\d{1,9}$/.test(value) ? Number(value) : NaN;
  if (number >= min && number <= max) return { limit, value: number };
  const words = [`a whole number from ${min} to ${max}`, ...(nullable ? ["unlimited"] : []), "plan"];
  throw wrong(`use ${words.slice(0, -1).join(", ")} or ${words.at(-1)}.`);
}

function withOverride(before: PlanOverrides, { limit, value }: Override): PlanOverrides {
  const { [limit]: _, ...others } = before;
  return validate(PlanOverrides, value === undefined ? others : { ...others, [limit]: value });
}

const limitText = (limit: number | null): string => (limit === null ? "unlimited" : String(limit));

function overridesText(org: OperatorOrg): string {
  const overrides: PlanOverrides = org.overrides;
  const set = limitNames.filter((limit) => overrides[limit] !== undefined);
  return set.map((limit) => `${limit}=${limitText(overrides[limit] ?? null)}`).join(",");
}

/** Names are text of customers: nothing in them may move the cursor of a terminal. */
const printable = (text: string): string => text.replaceAll(/\p{C}/gu, "\u{fffd}");
