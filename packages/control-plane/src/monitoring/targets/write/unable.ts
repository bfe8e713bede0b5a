import { type CheckSpec, kindOf } from "@statusmesh/shared/checks";
import type { TestedComponent } from "@statusmesh/shared/checks/kind";
import { flapping } from "../../../alerting/incidents/service.ts";
import type { OrgReader, System } from "../../../platform/context.ts";
import { mapInTurns } from "../../../platform/process/turns.ts";
import { readInabilities } from "../../agents/service.ts";
import { selectWarnings } from "../../results/history/service.ts";
import { selectEnabledRegions, selectSpecsByRegion, selectTestedComponents } from "../queries.ts";
import type { Target } from "../schema.ts";

/** The targets with what their results say: warnings, flapping, and regions that cannot run their checks. */
export async function withFindings<T extends Target>(
  system: Pick<OrgReader, "sql" | "clock" | "orgId">,
  targets: readonly T[],
): Promise<T[]> {
  const ids = targets.map(({ id }) => id);
  const [warnings, flaps, found] = await Promise.all([
    selectWarnings(system.sql, ids),
    flapping(system, ids),
    withInabilities(system, targets),
  ]);
  return found.map((target) => ({
    ...target,
    warnings: warnings.get(target.id) ?? [],
    flapping: flaps.get(target.id) ?? null,
  }));
}

/** A target that was just changed, with what its kind says of its check besides. */
export async function withSavedFindings(
  system: Pick<OrgReader, "sql" | "clock" | "orgId">,
  target: Target,
): Promise<Target> {
  return (await withSavedWarnings(system, await withFindings(system, [target])))[0]!;
}

/** The same for targets that were just created, of which no result says anything yet. */
export const withCreatedFindings = async (
  system: Pick<OrgReader, "sql" | "clock" | "orgId">,
  targets: readonly Target[],
): Promise<Target[]> => await withSavedWarnings(system, await withInabilities(system, targets));

/** What the kind of a check says of it when it is saved, and of what a recent test has listed. */
export const savedWarnings = (check: CheckSpec, tested: readonly TestedComponent[] | null = null): readonly string[] =>
  kindOf(check).savedWarnings?.(check, tested) ?? [];

async function withSavedWarnings(
  { sql, orgId }: Pick<OrgReader, "sql" | "orgId">,
  targets: readonly Target[],
): Promise<Target[]> {
  const urlOf = ({ check }: Target): string | null => kindOf(check).testedUrl?.(check) ?? null;
  const urls = new Set(targets.map(urlOf).filter((url) => url !== null));
  const rows = urls.size === 0 ? [] : await selectTestedComponents(sql, orgId, [...urls]);
  const tested = new Map(rows.map(({ url, components }) => [url, components]));
  return await mapInTurns(targets, (target) => {
    const said = savedWarnings(target.check, tested.get(urlOf(target) ?? "") ?? null);
    return said.length === 0 ? target : { ...target, warnings: [...new Set([...target.warnings, ...said])] };
  });
}

/**
 * The targets, each with the regions whose agents cannot run its check. One query for the agents; a second one only
 * where some region cannot run one of the checks.
 */
async function withInabilities<T extends Target>(
  system: Pick<System, "sql" | "clock">,
  targets: readonly T[],
): Promise<T[]> {
  const { regions, kinds, reasonOf } = await readInabilities(system);
  const lacking = targets.filter(
    ({ check }) => kinds.includes(check.type) && regions.some((region) => reasonOf(region, check) !== null),
  );
  if (lacking.length === 0) return [...targets];
  const regionsOf = await selectEnabledRegions(
    system.sql,
    lacking.map(({ id }) => id),
  );
  return targets.map((target) => {
    const unable = (regionsOf.get(target.id) ?? []).flatMap((region) => {
      const reason = reasonOf(region, target.check);
      return reason === null ? [] : [{ region, reason }];
    });
    return unable.length === 0 ? target : { ...target, regions_unable: unable };
  });
}

/** Enabled targets of the instance that a region cannot run, by region and reason. For the doctor. */
export async function unableTargets(
  system: Pick<System, "sql" | "clock">,
): Promise<{ region: string; reason: string; targets: number }[]> {
  const { kinds, reasonOf } = await readInabilities(system);
  const found = new Map<string, { region: string; reason: string; targets: number }>();
  for (const { region, spec } of kinds.length === 0 ? [] : await selectSpecsByRegion(system.sql, kinds)) {
    const reason = reasonOf(region, spec);
    if (reason === null) continue;
    const key = `${region} ${reason}`;
    found.set(key, { region, reason, targets: (found.get(key)?.targets ?? 0) + 1 });
  }
  return [...found.values()];
}

/** The target as it is stored: without what its agents decide. */
export function asStored({ regions_unable: _, ...target }: Target): Target {
  return { ...target, warnings: [], flapping: null };
}
