import { AppError } from "@statusmesh/shared/errors";
import { type CheckSpec, isProbedType } from "@statusmesh/shared/checks";
import { existingChannelIds } from "../../../alerting/channels/service.ts";
import type { Ctx } from "../../../platform/context.ts";
import { type PolicyEdit, reevaluate } from "../../../alerting/incidents/evidence/service.ts";
import { notProbed } from "../../heartbeats/service.ts";
import { planOf } from "../../../access/plans/service.ts";
import { enabledRegionIds } from "../../regions/service.ts";
import * as queries from "./queries.ts";
import type { BulkAction } from "./schema.ts";
import { announceTargets } from "../queries.ts";
import { intervalRule, regionPolicyRule, regionsRule } from "../write/rules.ts";
import { maxAlerts } from "../schema.ts";

/** Targets that a bulk action refused, with the reason. */
export type Refusals = Map<string, AppError>;
type Rows = readonly queries.LockedTarget[];

function probedRule(kind: queries.LockedTarget["kind"], what: string): void {
  if (!isProbedType(kind)) throw notProbed(what);
}

/** The rows for which `rule` throws an error of the API. */
export function refusalsOf(rows: Rows, rule: (row: queries.LockedTarget) => void): Refusals {
  const refused: Refusals = new Map();
  for (const row of rows) {
    try {
      rule(row);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      refused.set(row.id, error);
    }
  }
  return refused;
}

const acceptedOf = (rows: Rows, refused: Refusals): string[] =>
  rows.filter(({ id }) => !refused.has(id)).map(({ id }) => id);

/** Binds or unbinds channels. INVALID_ALERT_CONFIG for the request with a channel that does not exist. */
export async function changeChannels(
  tx: Ctx,
  rows: Rows,
  action: Extract<BulkAction["action"], { channel_ids: string[] }>,
  write: queries.Write,
): Promise<Refusals> {
  const { type, channel_ids: channels } = action;
  const known = await existingChannelIds(tx, tx.orgId, channels);
  const unknown = channels.findIndex((id) => !known.has(id));
  if (unknown >= 0)
    throw new AppError("INVALID_ALERT_CONFIG", "Channel not found.", { field: `/action/channel_ids/${unknown}` });
  const ids = rows.map(({ id }) => id);
  if (type === "channel_remove") {
    await queries.removeChannels(write, ids, channels);
    return new Map();
  }
  const counts = new Map(
    (await queries.countChannelsWith(tx.sql, ids, channels)).map((it) => [it.target_id, it.count]),
  );
  const refused = refusalsOf(rows, ({ id }) => {
    const count = counts.get(id) ?? 0;
    if (count > maxAlerts)
      throw new AppError(
        "INVALID_ALERT_CONFIG",
        `A target has at most ${maxAlerts} channels; this one would have ${count}.`,
      );
  });
  await queries.addChannels(write, acceptedOf(rows, refused), channels);
  return refused;
}

/** Sets the interval, except where plan or kind ask for a longer one. */
export async function changeInterval(tx: Ctx, rows: Rows, interval: number, write: queries.Write): Promise<Refusals> {
  const plan = await planOf(tx);
  const refused = refusalsOf(rows, ({ kind }) => {
    probedRule(kind, "its interval is not a setting");
    intervalRule(plan, { type: kind } as CheckSpec, interval);
  });
  const changed = rows.filter(({ id, interval_secs }) => !refused.has(id) && interval_secs !== interval);
  await queries.setInterval(write, acceptedOf(rows, refused), interval);
  const regions = await regionsOf(tx, changed);
  await reevaluate(
    tx,
    editsOf(changed, (id) => regions.get(id) ?? []),
  );
  await announceTargets(tx.sql);
  return refused;
}

/** Sets the regions, except where the policy counts more of them. REGION_INVALID for a region that is not enabled. */
export async function changeRegions(
  tx: Ctx,
  rows: Rows,
  regions: readonly string[],
  write: queries.Write,
): Promise<Refusals> {
  regionsRule(regions, await enabledRegionIds(tx, regions), "/action/regions");
  const refused = refusalsOf(rows, (row) => {
    probedRule(row.kind, "it has no regions");
    regionPolicyRule(row.region_policy, regions.length);
  });
  const changed = rows.filter(({ id }) => !refused.has(id));
  await queries.setRegions(write, acceptedOf(rows, refused), regions);
  await reevaluate(
    tx,
    editsOf(changed, () => regions),
  );
  await announceTargets(tx.sql);
  return refused;
}

/** Sets what down means. An open incident that becomes more severe by it notifies its channels. */
export async function changeSeverity(
  tx: Ctx,
  rows: Rows,
  severity: queries.LockedTarget["severity"],
  write: queries.Write,
): Promise<void> {
  const changed = rows.filter((row) => row.severity !== severity);
  await queries.setSeverity(
    write,
    changed.map(({ id }) => id),
    severity,
  );
  const regions = await regionsOf(tx, changed);
  await reevaluate(
    tx,
    editsOf(changed, (id) => regions.get(id) ?? []),
  );
}

async function regionsOf(tx: Ctx, rows: Rows): Promise<Map<string, string[]>> {
  const ids = rows.map(({ id }) => id);
  return new Map((await queries.selectRegionsOfMany(tx.sql, ids)).map((it) => [it.target_id, it.regions]));
}

/** Only enabled targets have evidence that counts; a pause has closed the incidents of the others. */
const editsOf = (rows: Rows, regions: (id: string) => readonly string[]): Map<string, PolicyEdit> =>
  new Map(rows.filter(({ enabled }) => enabled).map((row) => [row.id, { ...row, regions: regions(row.id) }]));
