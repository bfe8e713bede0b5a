import { Readable } from "node:stream";
import { checkKinds, isGroup, isHeartbeat, isProbed, kindOf } from "@statusmesh/shared/checks";
import type { Json } from "@statusmesh/shared/json";
import { pointerSegment } from "@statusmesh/shared/secrets";
import { sameJson } from "../../access/audit/service.ts";
import { channelKindOf } from "../../alerting/channels/kinds/service.ts";
import { openedConfig, type StoredChannel, storedChannels } from "../../alerting/channels/config/service.ts";
import { type StoredWindow, storedWindows } from "../../alerting/maintenance/service.ts";
import { probeRegionIds } from "../../monitoring/regions/service.ts";
import { completedCheck } from "../../monitoring/targets/write/service.ts";
import { notifiedChannels, openedCheck, storedNames } from "../../monitoring/targets/stored/service.ts";
import { type Ctx, requireScope } from "../../platform/context.ts";
import type { Managed } from "../../platform/db/managed-queries.ts";
import { stringified } from "../../platform/http/reply/reply.ts";
import { mapInTurns } from "../../platform/process/turns.ts";
import { iso } from "../../platform/http/wire.ts";
import { isPrivate } from "../../publishing/status-pages/access/service.ts";
import { pageRules, type StoredPage, storedPages } from "../../publishing/status-pages/service.ts";
import { unusualShow } from "../../publishing/status-pages/components/service.ts";
import { sorted } from "./plan/compare.ts";
import type { Section } from "@statusmesh/shared/declared/files";
import type { StoredMonitor } from "./kinds/monitors.ts";
import type { ExportQuery } from "./schema.ts";
import { monitorsInPortions } from "./plan/state.ts";

/** Marks a variable, which is not escaped as texts are. No stored text has this character. */
const marker = "\0";

/**
 * Stored objects as a document: those of a project, the monitors with a tag and what they notify, or all. What no
 * project declares has `adopt`; what another project declares is left out, and named by its id. Secrets are variables.
 * JSON of an {@link ExportReply}, read while it is sent.
 */
export async function exportConfig(ctx: Ctx, { project: asked, tag }: ExportQuery): Promise<Readable> {
  for (const scope of ["targets:read", "channels:read", "status_page:read", "maintenance:read"] as const)
    requireScope(ctx, scope);
  const notified = tag === undefined ? null : await notifiedChannels(ctx, tag);
  const chosen = {
    channels: (await storedChannels(ctx)).filter(({ id }) => notified?.has(id) ?? true),
    monitors: await storedNames(ctx, { tag }),
    status_pages: tag === undefined ? await storedPages(ctx) : [],
    maintenance: tag === undefined ? (await storedWindows(ctx)).filter(({ state }) => state !== "past") : [],
  };
  const regions = await probeRegionIds(ctx);
  const project = asked ?? mainProject(Object.values(chosen).flat());
  const isOurs = ({ managed }: { managed: Managed | null }): boolean =>
    managed === null ? asked === undefined : managed.project === project;
  const channels = chosen.channels.filter((row) => isOurs(row) && channelKindOf(row.config).managed !== true);
  const monitors = chosen.monitors.filter(isOurs);
  const pages = chosen.status_pages.filter(isOurs);
  const windows = chosen.maintenance.filter(isOurs);
  const keys: Record<Section, Map<string, string>> = {
    channels: await keysOf(channels, ({ name }) => name),
    monitors: await keysOf(monitors, ({ name }) => name),
    status_pages: await keysOf(pages, ({ slug }) => slug),
    maintenance: await keysOf(windows, ({ title }) => title),
  };
  const shared = new Set(chosen.channels.map(({ id }) => id));
  const exporting: Exporting = { ctx, keys, regions, shared, unused: freeNames(), secrets: [] };
  async function* written<T extends { id: string; managed: Managed | null }>(
    section: Section,
    parts: Iterable<readonly T[]> | AsyncIterable<readonly T[]>,
    bodyOf: (row: T, exporting: Exporting) => Json,
  ): AsyncGenerator<string> {
    let begin = `,${JSON.stringify(section)}:{`;
    for await (const rows of parts) {
      const entries = await mapInTurns(rows, (row) => {
        const { managed } = row;
        const kept = managed === null || managed.on_remove === "delete" ? {} : { on_remove: managed.on_remove };
        const body = { ...(managed === null ? { adopt: row.id } : {}), ...kept, ...bodyOf(row, exporting) };
        return `${JSON.stringify(keys[section].get(row.id)!)}:${JSON.stringify(escaped(body))}`;
      });
      if (entries.length === 0) continue;
      yield begin + entries.join();
      begin = ",";
    }
    if (begin === ",") yield "}";
  }
  const ids = monitors.map(({ id }) => id);
  return Readable.from(
    (async function* () {
      yield `{"document":${JSON.stringify({ version: 1, project }).slice(0, -1)}`;
      yield* written("channels", [channels], channelBody);
      yield* written("monitors", monitorsInPortions(ctx, ids), monitorBody);
      yield* written("status_pages", [pages], pageBody);
      yield* written("maintenance", [windows], windowBody);
      yield '},"secrets":';
      yield await stringified(exporting.secrets);
      yield "}";
    })(),
  );
}

interface Exporting {
  readonly ctx: Ctx;
  readonly keys: Readonly<Record<Section, ReadonlyMap<string, string>>>;
  readonly regions: readonly string[];
  /** Channels of the organisation: devices of people are in no file. */
  readonly shared: ReadonlySet<string>;
  /** Names of variables. */
  readonly unused: ReturnType<typeof freeNames>;
  readonly secrets: { name: string; path: string }[];
}

/** The project that declares most of the objects; `main` where none does. */
function mainProject(rows: readonly { managed: Managed | null }[]): string {
  const counts = new Map<string, number>();
  for (const { managed } of rows)
    if (managed !== null) counts.set(managed.project, (counts.get(managed.project) ?? 0) + 1);
  return [...counts].toSorted(([a, x], [b, y]) => y - x || (a < b ? -1 : 1))[0]?.[0] ?? "main";
}

/** The keys of objects: their own, or one made of the title, each once. */
async function keysOf<T extends { id: string; managed: Managed | null }>(
  rows: readonly T[],
  titleOf: (row: T) => string,
): Promise<Map<string, string>> {
  const unused = freeNames(rows.flatMap(({ managed }) => managed?.key ?? []));
  return new Map(
    await mapInTurns(rows, (row): [string, string] => {
      const { id, managed } = row;
      if (managed !== null) return [id, managed.key];
      const plain = titleOf(row)
        .normalize("NFKD")
        .toLowerCase()
        .replaceAll(/[^a-z0-9]+/g, "-");
      const start = plain.replaceAll(/^-+|-+$/g, "").slice(0, 100) || "object";
      return [id, unused(start, "-")];
    }),
  );
}

/** Names that are not taken: the asked one, else with the next free number. */
function freeNames(names: readonly string[] = []): (name: string, separator: string) => string {
  const taken = new Set(names);
  /** Ten thousand monitors may have one name. */
  const nextOf = new Map<string, number>();
  return (name, separator) => {
    let free = name;
    let number = nextOf.get(name) ?? 2;
    while (taken.has(free)) free = `${name}${separator}${number++}`;
    nextOf.set(name, number);
    taken.add(free);
    return free;
  };
}

/** A variable in place of the secret at a pointer below `base` of an object. */
function variable(exporting: Exporting, section: Section, id: string, base: string, pointer: string): string {
  const key = exporting.keys[section].get(id)!;
  const start = `${key}${pointer.replaceAll("~1", "/")}`.toUpperCase().replaceAll(/[^A-Z0-9]+/g, "_");
  const name = exporting.unused(/^[A-Z]/.test(start) ? start : `V_${start}`, "_");
  exporting.secrets.push({ name, path: `/${section}/${pointerSegment(key)}${base}${pointer}` });
  return `${marker}${name}`;
}

/** Texts as the document has them: a variable, or the text with its `${` escaped. */
function escaped(value: unknown): unknown {
  if (typeof value === "string")
    return value.startsWith(marker) ? `\${${value.slice(1)}}` : value.replaceAll("${", () => "$${");
  if (Array.isArray(value)) return value.map(escaped);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, escaped(item)]));
}

/** The fields that differ from their default. */
const but = (fields: Json, defaults: Json): Json =>
  Object.fromEntries(
    Object.entries(fields).filter(([name, value]) => value !== undefined && !sameJson(value, defaults[name] ?? null)),
  );

function channelBody(row: StoredChannel, exporting: Exporting): Json {
  const config = openedConfig(exporting.ctx, row);
  const shown = channelKindOf(config).mapSecrets(config, (_, pointer) =>
    variable(exporting, "channels", row.id, "/config", pointer),
  ) as unknown as Json;
  return {
    name: row.name,
    config: but(shown, {}),
    ...but(
      {
        enabled: row.enabled,
        is_default: row.is_default,
        active_hours: row.active_hours,
        route: row.route,
        min_severity: row.min_severity,
        rounds: row.rounds,
      },
      { enabled: true, is_default: false, min_severity: "minor" },
    ),
  };
}

function monitorBody(row: StoredMonitor, exporting: Exporting): Json {
  const { keys, regions, shared } = exporting;
  const check = openedCheck(exporting.ctx, row);
  const kind = kindOf(check);
  const shown = kind.mapSecrets(check, (_, pointer) =>
    variable(exporting, "monitors", row.id, "/check", pointer),
  ) as unknown as Json;
  if (isGroup(check))
    shown["members"] = check.members.map((member): Json => {
      const key = "tag" in member ? undefined : keys.monitors.get(member.target_id);
      return key === undefined ? member : { monitor: key };
    });
  const properties = checkKinds[check.type].schema.properties as Record<string, { default?: unknown }>;
  const defaults = Object.fromEntries(Object.entries(properties).map(([name, node]) => [name, node.default ?? null]));
  // The grace of a heartbeat has a default that follows from its period.
  const automatic = isHeartbeat(check)
    ? { grace: (completedCheck({ ...check, grace: null }) as { grace: number }).grace }
    : {};
  const probed = isProbed(check)
    ? but(
        {
          interval: row.interval_secs,
          alert_confirmations: row.alert_confirmations,
          region_policy: row.region_policy,
          regions: regions.every((region) => row.regions.includes(region)) ? undefined : sorted(row.regions),
        },
        { interval: kind.defaultIntervalSecs, alert_confirmations: 2, region_policy: "majority" },
      )
    : but(
        {
          heartbeat_addresses: row.addresses.map((address, at) => ({
            kind: address.kind,
            value: variable(exporting, "monitors", row.id, "", `/heartbeat_addresses/${at}/value`),
          })),
        },
        { heartbeat_addresses: [] },
      );
  return {
    name: row.name,
    check: { type: check.type, ...but(shown, { ...defaults, ...automatic, type: check.type }) },
    alerts: row.alerts.flatMap(({ channel_id: id, ...more }): (Json | string)[] => {
      const key = keys.channels.get(id);
      if (!shared.has(id)) return [];
      if (key !== undefined && Object.keys(more).length === 0) return [key];
      return [{ ...(key === undefined ? { channel_id: id } : { channel: key }), ...more }];
    }),
    ...but(
      {
        escalation: row.escalation
          ?.map((level) => ({ ...level, channel_ids: level.channel_ids.filter((id) => shared.has(id)) }))
          .filter(({ channel_ids: ids }) => ids.length > 0)
          .map(({ after_minutes, channel_ids: ids, ...more }) => ({
            after_minutes,
            ...more,
            channels: ids.map((id) => keys.channels.get(id) ?? { channel_id: id }),
          })),
      },
      {},
    ),
    ...(row.depends_on.length === 0
      ? {}
      : { depends_on: row.depends_on.map((id) => keys.monitors.get(id) ?? { target_id: id }) }),
    ...probed,
    ...but(
      {
        enabled: row.enabled,
        tags: row.tags,
        notify_recovery: row.notify_recovery,
        renotify_interval_secs: row.renotify_interval_secs,
        severity: row.severity,
        flap_detection: row.flap_detection,
      },
      {
        enabled: true,
        tags: [],
        notify_recovery: true,
        renotify_interval_secs: 3600,
        severity: "major",
        flap_detection: true,
      },
    ),
  };
}

/** Fields of an access that a file leaves out. */
const usualAccess: Json = { email_domains: [], groups: [], open_networks: [], keep_subscribers: false };

function pageBody(row: StoredPage, { keys }: Exporting): Json {
  const usual = pageRules({ slug: row.slug, name: row.name }) as unknown as Json;
  const texts = (component: StoredPage["components"][number]): Json =>
    but(
      {
        public_name: component.public_name,
        public_description: component.public_description,
        public_group: component.public_group,
        show: unusualShow(component.show),
      },
      {},
    );
  return {
    slug: row.slug,
    name: row.name,
    ...but(
      {
        enabled: row.enabled,
        subscriptions_enabled: row.subscriptions_enabled,
        embed_origins: row.embed_origins,
        custom_css: row.custom_css,
        branding: but(row.branding as unknown as Json, usual),
        // Without its password, which nobody reads back: an apply keeps the stored one.
        access: isPrivate(row) ? { mode: row.access.mode, ...but(row.access, usualAccess) } : undefined,
        publish: row.publish.mode === "always" ? undefined : but(row.publish, { after_minutes: null }),
        custom_domain: row.custom_domain,
        components: row.components.map((component) => {
          const { target_id: id, state } = component;
          if (id === null) return { manual: true, ...texts(component), ...but({ state }, { state: "operational" }) };
          const key = keys.monitors.get(id);
          return { ...(key === undefined ? { target_id: id } : { monitor: key }), ...texts(component) };
        }),
      },
      { enabled: true, subscriptions_enabled: true, embed_origins: [], branding: {}, components: [] },
    ),
  };
}

function windowBody(row: StoredWindow, { keys }: Exporting): Json {
  return {
    title: row.title,
    starts_at: iso(row.starts_at),
    ends_at: iso(row.ends_at),
    ...but(
      {
        description: row.description,
        recurrence:
          row.recurrence_rule === null ? null : { rule: row.recurrence_rule, time_zone: row.recurrence_time_zone },
        monitors: row.target_ids.flatMap((id) => keys.monitors.get(id) ?? []),
        component_ids: row.target_ids.filter((id) => !keys.monitors.has(id)),
      },
      { monitors: [], component_ids: [] },
    ),
  };
}
