import type { OrgReader } from "../../platform/context.ts";
import * as queries from "./reported-queries.ts";

export type { ReportedRow } from "./reported-queries.ts";

/*
 * Monitors of reports. Without a scope check: reports check theirs, and those that are sent by mail have no caller.
 */

/** Ids of the monitors of the organisation by name. */
export const reportedIds = async ({ sql, orgId }: OrgReader, { limit, offset }: { limit: number; offset: number }) =>
  await queries.selectIdsByName(sql, orgId, limit, offset);

/** The monitors with one of the tags, unsorted. */
export const reportedOfTags = async ({ sql, orgId, clock }: OrgReader, tags: readonly string[]) =>
  await queries.selectReportedOfTags(sql, orgId, tags, new Date(clock.now()));

/** The given monitors by name. */
export const reportedTargets = async ({ sql, orgId, clock }: OrgReader, ids: readonly string[]) =>
  await queries.selectReported(sql, orgId, ids, new Date(clock.now()));

/** Tags by name, or `only` one, and how many there are. */
export const reportedTags = async (
  { sql, orgId }: OrgReader,
  paging: { limit: number; offset: number; only: string | null },
) => await queries.selectTagNames(sql, orgId, paging);
