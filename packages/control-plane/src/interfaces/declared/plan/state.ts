import { type Plan, planOf } from "../../../access/plans/service.ts";
import { type StoredChannel, storedChannels } from "../../../alerting/channels/config/service.ts";
import { type StoredWindow, storedWindows } from "../../../alerting/maintenance/service.ts";
import { type KnownCertificates, knownCertificates } from "../../../monitoring/certificates/service.ts";
import { addressesOf } from "../../../monitoring/heartbeats/service.ts";
import { probeRegionIds } from "../../../monitoring/regions/service.ts";
import {
  existingTargetIds,
  storedNames,
  type StoredName,
  storedTargets,
  taggedTargets,
  targetCount,
} from "../../../monitoring/targets/stored/service.ts";
import type { Ctx } from "../../../platform/context.ts";
import { slugsElsewhere, type StoredPage, storedPages } from "../../../publishing/status-pages/service.ts";
import type { Section } from "@statusmesh/shared/declared/files";
import { portionsOf } from "../../../platform/process/turns.ts";
import type { Document } from "../document/document.ts";
import type { StoredMonitor } from "../kinds/monitors.ts";
import { digestOf } from "../token.ts";

/** What is stored, as far as a plan reads it. */
export interface State {
  readonly plan: Plan;
  readonly regions: readonly string[];
  readonly certificates: KnownCertificates;
  /** All of the organisation. */
  readonly channels: readonly StoredChannel[];
  readonly pages: readonly StoredPage[];
  readonly windows: readonly StoredWindow[];
  /** Those of the project and those to adopt; a plan reads each whole when it judges it. */
  readonly monitors: readonly StoredName[];
  /** Monitors outside of the document that it names. */
  readonly outside: ReadonlySet<string>;
  readonly tagged: readonly { id: string; tags: readonly string[] }[];
  readonly targets: number;
  /** Slugs of the document that other organisations have. */
  readonly takenSlugs: ReadonlySet<string>;
}

/** The kinds that a document or its project has; the others are not read, and need no scope. */
export type Kinds = ReadonlySet<Section>;

/** Reads what a plan of a document compares with. */
export async function readState(ctx: Ctx, project: string, document: Document, kinds: Kinds): Promise<State> {
  const { objects, facts } = document;
  const outside = [...facts.outside];
  const tags = [...facts.tags];
  const slugs = [...facts.slugs];
  const adopted = [...objects.monitors.values()].flatMap(({ adopt }) => adopt ?? []);
  return {
    plan: await planOf(ctx),
    regions: await probeRegionIds(ctx),
    certificates: await knownCertificates(ctx, facts.certified === null ? [] : [facts.certified], false),
    monitors: kinds.has("monitors") ? await storedNames(ctx, { project, ids: adopted }) : [],
    channels: await storedChannels(ctx),
    pages: kinds.has("status_pages") ? await storedPages(ctx) : [],
    windows: kinds.has("maintenance") ? await storedWindows(ctx) : [],
    outside: outside.length === 0 ? new Set() : await existingTargetIds(ctx, outside),
    tagged: tags.length === 0 ? [] : await taggedTargets(ctx, tags),
    targets: kinds.has("monitors") ? await targetCount(ctx) : 0,
    takenSlugs: slugs.length === 0 ? new Set() : await slugsElsewhere(ctx, slugs),
  };
}

/** Monitors that are read at once: all 10,000 took 83 MB. */
const portion = 250;

/** Stored monitors whole, in portions. */
export async function* monitorsInPortions(ctx: Ctx, ids: readonly string[]): AsyncGenerator<StoredMonitor[]> {
  for (const part of portionsOf(ids, portion)) yield await readMonitors(ctx, part);
}

/** Stored monitors with the addresses of heartbeats. */
export async function readMonitors(ctx: Ctx, ids: readonly string[]): Promise<StoredMonitor[]> {
  const rows = await storedTargets(ctx, ids);
  const reported = rows.flatMap(({ id, heartbeat_addresses: shown }) => (shown === null ? [] : [id]));
  const addresses = await addressesOf(ctx, reported);
  return rows.map((row) => ({ ...row, addresses: addresses.get(row.id) ?? [] }));
}

/** Digest of the configuration in a state: never of what the engine writes. */
export async function stateDigest(ctx: Ctx, state: State): Promise<string> {
  const { plan, regions, outside, tagged, takenSlugs, targets } = state;
  async function* parts(): AsyncGenerator<unknown> {
    // Counts matter where the plan limits them.
    yield [plan, regions, [...outside].sort(), tagged, [...takenSlugs].sort(), plan.max_targets === null || targets];
    const ids = state.monitors.map(({ id }) => id);
    for await (const monitors of monitorsInPortions(ctx, ids))
      for (const { heartbeat_addresses: _, ...monitor } of monitors) yield monitor;
    for (const {
      id,
      name,
      kind,
      config,
      enabled,
      is_default,
      active_hours,
      route,
      min_severity,
      rounds,
      managed,
    } of state.channels)
      yield [id, name, kind, config, enabled, is_default, active_hours, route, min_severity, rounds, managed];
    for (const { revision: _, logo_hash: _hash, components, ...page } of state.pages)
      yield [page, components.map(({ state: _state, ...component }) => component)];
    for (const window of state.windows)
      yield [
        [window.id, window.title, window.description, window.starts_at, window.ends_at, window.recurrence_rule],
        [window.recurrence_time_zone, window.target_ids, window.managed],
      ];
  }
  return await digestOf(ctx, parts());
}
