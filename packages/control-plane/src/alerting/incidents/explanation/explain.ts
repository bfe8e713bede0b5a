import { type Ctx, requireScope } from "../../../platform/context.ts";
import { iso, isoTimes } from "../../../platform/http/wire.ts";
import { deliveriesOf, standings } from "../../deliveries/engine.ts";
import { deviceNames } from "../../channels/devices/service.ts";
import { roundKinds } from "../../channels/sending/service.ts";
import { channelStates } from "./channel-states.ts";
import { selectNoticePlan } from "./channel-states-queries.ts";
import { current } from "../evaluation/replay.ts";
import { inWords } from "./words.ts";
import { findIncident, incidentNotFound, presentIncident } from "../find.ts";
import { selectHolds } from "../holds/hold-queries.ts";
import { selectActiveWindow } from "../holds/maintenance-queries.ts";
import * as queries from "../queries.ts";
import type { ChannelState, Explanation } from "../schema.ts";
import { parseState } from "../evaluation/stored-state.ts";
import { isLive, policyOf, type PolicyFields, quorum } from "../evaluation/policy.ts";

/** Deliveries that an explanation shows; the others are a list of their own. */
const explainedDeliveries = 100;

/**
 * Why the incident is as it is: the vote of every region, the policy, and the deliveries. Throws INCIDENT_NOT_FOUND.
 */
export async function explainIncident(ctx: Ctx, incidentId: string): Promise<Explanation> {
  requireScope(ctx, "incidents:read");
  const incident = await findIncident(ctx, incidentId);
  const now = ctx.clock.now();
  const rounds = { kinds: roundKinds(), secs: ctx.config.alerts.round_secs };
  const [[target], state, disabled, window, held, deliveries, plan, stands, regions] = await Promise.all([
    queries.selectPolicies(ctx.sql, ctx.orgId, [incident.target_id]),
    queries.selectState(ctx.sql, incident.target_id),
    queries.selectDisabledRegions(ctx.sql),
    selectActiveWindow(ctx.sql, ctx.orgId, incident.target_id, new Date(now)),
    selectHolds(ctx.sql, ctx.orgId, incidentId, new Date(now)),
    deliveriesOf(ctx, incidentId, { limit: explainedDeliveries, offset: 0 }),
    selectNoticePlan(ctx.sql, ctx.orgId, incidentId),
    standings(ctx.sql, { orgId: ctx.orgId, incidentId, at: new Date(now), rounds }),
    queries.selectRegionNames(ctx.sql),
  ]);
  if (target === undefined || state === null) throw incidentNotFound();
  const { severity, ended_at: endedAt } = incident;
  const channels = channelStates({ plan, standings: stands, holds: held, severity, isOpen: endedAt === null });
  const facts = {
    incident_id: incident.id,
    opened_at: iso(incident.opened_at),
    region_policy: target.region_policy,
    alert_confirmations: target.alert_confirmations,
    ...explainVotes(target, state, new Set(disabled), now),
    publications: presentIncident(incident, ctx).publications,
    maintenance: window === null ? null : { id: window.id, title: window.title, ends_at: iso(window.ends_at) },
    held: held.map(isoTimes),
    channels: await withDeviceNames(ctx, channels),
    deliveries: deliveries.items,
    deliveries_total: deliveries.total,
  };
  return { ...facts, in_words: inWords(facts, incident, (id) => regions.get(id) ?? id) };
}

/** A device is named to its person and to owners. */
async function withDeviceNames(ctx: Ctx, channels: readonly ChannelState[]): Promise<ChannelState[]> {
  const devices = channels.filter(({ channel_type: kind }) => kind === "web_push");
  const names = await deviceNames(
    ctx,
    devices.map(({ channel_id: id }) => id),
  );
  return channels.map((one) => ({ ...one, channel_name: names.get(one.channel_id) ?? one.channel_name }));
}

type Votes = Pick<
  Explanation,
  "regions" | "regions_live" | "regions_failing" | "regions_failing_silent" | "regions_needed"
>;

/** The votes of a target's regions at `now`. `stored` is its state row, `disabled` are region ids. */
export function explainVotes(
  target: PolicyFields,
  stored: queries.StateRow,
  disabled: ReadonlySet<string>,
  now: number,
): Votes {
  const policy = policyOf(target);
  const state = parseState(stored.state, stored.status_until);
  const checkpoint = current(policy, state.evaluation);
  const regions = Object.entries(checkpoint.regions)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([region, it]) => ({
      region,
      enabled: !disabled.has(region),
      vote: it.vote ?? ("none" as const),
      live: isLive(policy, it.last, now),
      consecutive: it.streak,
      consecutive_kind: it.kind,
      consecutive_since: new Date(it.since).toISOString(),
      last_slot: new Date(it.last).toISOString(),
      last_status: state.latest[region]?.status ?? null,
      last_error: state.latest[region]?.error ?? null,
    }));
  const live = regions.filter((it) => it.live).length;
  const failing = regions.filter((it) => it.vote === "failing");
  const failingLive = failing.filter((it) => it.live).length;
  return {
    regions,
    regions_live: live,
    regions_failing: failingLive,
    regions_failing_silent: failing.length - failingLive,
    regions_needed: quorum(policy.regionPolicy, live),
  };
}
