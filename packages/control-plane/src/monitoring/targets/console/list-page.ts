import { checkKinds, isCheckType, isProbed, kindOf } from "@statusmesh/shared/checks";
import { normaliseText } from "@statusmesh/shared/text";
import { dayMs } from "@statusmesh/shared/time";
import { silentRegions } from "../../agents/service.ts";
import type { Ctx } from "../../../platform/context.ts";
import {
  causeKey,
  causeName,
  causeTitle,
  namesOf,
  readCause,
  shareOf,
  withRegionName,
} from "../../../alerting/causes/service.ts";
import { inLines } from "../../../platform/db/lines.ts";
import { numbered, stateWords } from "../../../platform/html/format.ts";
import { type PageCall, wholeNumber } from "../../../platform/html/pages.ts";
import { ranks } from "../list/cause-queries.ts";
import { rankOf } from "../list/monitors.ts";
import { setupSteps } from "./setup.ts";
import { flapping, openCounts, regionNamer } from "../../../alerting/incidents/service.ts";
import { activeWindows } from "../../../alerting/maintenance/calendar/service.ts";
import { recentHistory, throttledTargets } from "../../results/service.ts";
import { monitorOrders, monitorSorts } from "../list/list-schema.ts";
import {
  listMonitors,
  type MonitorCause,
  type MonitorRow,
  monitorsOverview,
  prefixesOf,
  tagGroups,
} from "../list/service.ts";
import { listTags } from "../service.ts";
import {
  detail,
  expiryWords,
  isWaiting,
  overview,
  shownState,
  shownStates,
  silenceWords,
  throttledWords,
  statesInWords,
} from "./words.ts";

const pageSize = 50;
/** Tags to choose from; search finds the others. */
const tagChips = 68;
/** Groups of a page: the worst ones. */
const mostGroups = 100;
/** Value of `in` for the monitors without a tag of the group. */
const untagged = "-";

type Query = Readonly<Record<string, string>>;

/** The query of the list as far as it makes sense. */
function readQuery(query: Query) {
  const text = (name: string, length = 200) => normaliseText(query[name] ?? "").slice(0, length);
  const cause = readCause(text("cause", 300));
  const group = text("group", 50);
  return {
    q: text("q"),
    tag: text("tag"),
    kind: isCheckType(query["kind"]) ? query["kind"] : "",
    state: shownStates.find((known) => known === query["state"]) ?? ("" as const),
    cause: cause === null ? "" : causeKey(cause),
    /** `none`: only monitors without an enabled channel. */
    channels: query["channels"] === "none" ? ("none" as const) : ("" as const),
    sort: monitorSorts.find((known) => known === query["sort"]) ?? ("" as const),
    order: monitorOrders.find((known) => known === query["order"]) ?? ("" as const),
    group,
    /** The group that is open: a tag, or {@link untagged}. */
    in: group === "" ? "" : text("in"),
    offset: wholeNumber(query["offset"], 0, 1_000_000),
  };
}
export type ListQuery = ReturnType<typeof readQuery>;

/** The lines of a page. Monitors that fail together are one line, unless a search or another order asks for each. */
async function linesOf(ctx: Ctx, asked: ListQuery) {
  const { q, state, kind, sort, order, offset } = asked;
  const tag = asked.in !== "" && asked.in !== untagged ? asked.in : asked.tag;
  const cause = readCause(asked.cause);
  return await listMonitors(ctx, {
    ...(q === "" ? {} : { q }),
    ...(tag === "" ? {} : { tag }),
    ...(kind === "" ? {} : { kind }),
    ...(state === "" ? {} : { state }),
    ...(cause === null ? {} : { cause }),
    ...(sort === "" ? {} : { sort }),
    ...(order === "" ? {} : { order }),
    ...(asked.channels === "" ? {} : { notified: false }),
    ...(asked.in === untagged ? { lacksPrefix: asked.group } : {}),
    grouped: q === "" && cause === null && (sort === "" || sort === "state") && order === "",
    pins: !isNarrowed(asked) && sort === "" && order === "" && offset === 0,
    limit: pageSize,
    offset,
  });
}

/**
 * The lines of a page under headings: pinned, unacknowledged, acknowledged, the rest. One section without a heading
 * where a search or another order asks for a plain list.
 */
function sectionsOf<C extends MonitorCause, R extends MonitorRow>(
  causes: readonly C[],
  rows: readonly R[],
  pinned: ReadonlySet<string>,
  { q, cause, sort, order }: ListQuery,
) {
  const isPlain = q !== "" || cause !== "" || (sort !== "" && sort !== "state") || order !== "";
  // A plain list has an order of its own.
  if (isPlain) return [{ name: "all" as const, lines: inLines(causes, rows, () => ranks.rest) }];
  const others = inLines(
    causes,
    rows.filter((row) => !pinned.has(row.target.id)),
    rankOf,
  );
  const stored = rows.filter((row) => pinned.has(row.target.id));
  return [
    { name: "pinned" as const, lines: inLines<C, R>([], stored, () => ranks.rest) },
    { name: "waiting" as const, lines: others.filter(({ rank }) => rank < ranks.acknowledged) },
    { name: "taken" as const, lines: others.filter(({ rank }) => rank === ranks.acknowledged) },
    { name: "rest" as const, lines: others.filter(({ rank }) => rank === ranks.rest) },
  ].filter(({ lines }) => lines.length > 0);
}

const isNarrowed = (asked: ListQuery): boolean =>
  [asked.q, asked.tag, asked.kind, asked.state, asked.cause, asked.channels, asked.in].some((value) => value !== "");

/** A line of monitors with a common cause, in words. */
const shownCause = (cause: MonitorCause) => ({
  ...cause,
  lead: causeTitle(cause),
  detail: [shareOf(cause, "monitor"), statesInWords(cause), namesOf(cause.names, cause.count)]
    .filter((part) => part !== null)
    .join(" · "),
  word: stateWords[cause.state],
});

/** Filters in words, for the sentence of an empty list. */
function filtersInWords({ q, tag, kind, state, cause, channels, group, in: open }: ListQuery): string[] {
  const known = readCause(cause);
  return [
    ...(q === "" ? [] : [`search "${q}"`]),
    ...(state === "" ? [] : [`state ${stateWords[state]}`]),
    ...(tag === "" ? [] : [`tag ${tag}`]),
    ...(kind === "" || !isCheckType(kind) ? [] : [`type ${checkKinds[kind].label}`]),
    ...(known === null ? [] : [`failing together: ${causeName(known)}`]),
    ...(channels === "" ? [] : ["no notifications"]),
    ...(open === "" ? [] : [open === untagged ? `no tag ${group}/…` : `tag ${open}`]),
  ];
}

/** `GET /targets` with the same filters; empty where the API has no such filter. */
function apiAddress(asked: ListQuery): string {
  if (asked.in === untagged) return "";
  const { q, kind, state, cause } = asked;
  const notified = asked.channels === "" ? "" : "false";
  const params = Object.entries({ q, kind, state, cause, notified, tag: asked.in === "" ? asked.tag : asked.in });
  return `/api/v1/targets?${new URLSearchParams(params.filter(([, value]) => value !== "")).toString()}`;
}

/** The tags as chips, the chosen one first, and the number of all others. */
function chipsOf(chosen: string, { items, total }: Awaited<ReturnType<typeof listTags>>) {
  const names = [...new Set([...(chosen === "" ? [] : [chosen]), ...items.map(({ name }) => name)])];
  return {
    tags: names.slice(0, tagChips),
    hiddenTags: Math.max(0, total - tagChips),
  };
}

/** The list of monitors, which is also the start page. */
export async function monitorsPage({ ctx, query }: PageCall<"tenant">) {
  const asked = readQuery(query);
  const grouping = asked.group !== "" && asked.in === "";
  const plain = !isNarrowed(asked) && !grouping && asked.sort === "" && asked.order === "" && asked.offset === 0;
  const [region, open, list, overviewOfAll, tags, groups, silent, setup, maintenance] = await Promise.all([
    regionNamer(ctx),
    openCounts(ctx),
    linesOf(ctx, asked),
    plain ? null : monitorsOverview(ctx),
    listTags(ctx, { limit: 1000, offset: 0 }),
    grouping ? tagGroups(ctx, asked.group) : [],
    silentRegions(ctx),
    setupSteps(ctx),
    activeWindows(ctx),
  ]);
  // The sentence on top describes all monitors, whatever the list is narrowed to.
  const all = overviewOfAll ?? list;
  const now = ctx.clock.now();
  const rows = grouping ? [] : [...list.pinned, ...list.items];
  const lines = grouping ? [] : list.causes.map((line) => withRegionName(line, region));
  const [history, flaps, throttled] = await Promise.all([
    recentHistory(ctx, [...rows.map((row) => row.target.id), ...lines.map(({ exampleId }) => exampleId)]),
    flapping(
      ctx,
      rows.map((row) => row.target.id),
    ),
    throttledOf(ctx, rows),
  ]);
  const shownRows = rows.map((row) => ({
    ...row,
    ...shown(row, now, throttled(row), history.get(row.target.id)?.inMaintenance),
    flapping: flaps.get(row.target.id) ?? null,
    history: history.get(row.target.id) ?? null,
    daysLeft: row.expires_at === null ? null : Math.floor((row.expires_at.getTime() - now) / dayMs),
  }));
  const causes = lines.map((line) => ({
    ...shownCause(line),
    strip: history.get(line.exampleId)?.strip ?? [],
  }));
  return {
    view: "targets/list" as const,
    fragment: "targets/list-live" as const,
    data: {
      rows: shownRows,
      causes,
      sections: sectionsOf(causes, shownRows, new Set(list.pinned.map((row) => row.target.id)), asked),
      list: { total: list.lines, limit: list.limit, offset: list.offset },
      matching: list.total,
      withoutChannel: list.silent,
      allTargets: apiAddress(asked),
      grouping,
      groups: groups.slice(0, mostGroups),
      hiddenGroups: Math.max(0, groups.length - mostGroups),
      prefixes: [...new Set([...(asked.group === "" ? [] : [asked.group]), ...prefixesOf(tags.items)])],
      states: shownStates.map((name) => ({ name, word: stateWords[name], count: list.counts[name] })),
      ...chipsOf(asked.tag, tags),
      overview: overview({
        ...all,
        items:
          overviewOfAll === null ? [...list.pinned, ...list.items].sort((a, b) => rankOf(a) - rankOf(b)) : all.items,
        causes: all.causes.map((line) => withRegionName(line, region)),
      }),
      title: numbered("Monitors", open.waiting),
      waiting: open.waiting,
      everything: shownStates.reduce((sum, name) => sum + all.counts[name], 0),
      lastCheck: all.last_check_at,
      silent: silent.map((region) => ({ ...region, ...silenceWords(region) })),
      maintenance,
      query: asked,
      filters: filtersInWords(asked),
      showsDays: asked.sort === "days_left" || rows.some((row) => row.expires_at !== null),
      setup,
      isOwner: ctx.role === "owner",
      origin: ctx.config.server.public_url,
    },
  };
}

const waitingWord = ({ target }: MonitorRow): string =>
  isProbed(target.check) ? "Pending first check" : "Waiting for the first ping";

/** Words and state of a row, decided here so that templates only place them. */
export function shown(row: MonitorRow, now: number, throttled: string | null, inMaintenance = false) {
  const state = inMaintenance && !row.paused ? ("maintenance" as const) : shownState(row);
  const waiting = isWaiting(row);
  return {
    state,
    word:
      state === "maintenance"
        ? "Maintenance"
        : waiting
          ? waitingWord(row)
          : throttled === null
            ? stateWords[state]
            : "Throttled",
    throttled,
    since: state === "down" || state === "error" ? (row.open_incident?.outage_since ?? row.status_since) : null,
    detail: throttled ?? detail(row, now),
    expiry: expiryWords(row, now),
    kind: kindOf(row.target.check).label,
  };
}

/** Says for each row why it has no data, where its runs are throttled; null for any other. */
export async function throttledOf(ctx: Ctx, rows: readonly MonitorRow[]): Promise<(row: MonitorRow) => string | null> {
  const silent = rows.filter((row) => shownState(row) === "unknown" && row.probed && row.last_result_at !== null);
  const ids = await throttledTargets(
    ctx,
    silent.map((row) => row.target.id),
  );
  const words = throttledWords(ctx.config.checker.per_host_max_inflight);
  return (row) => (ids.has(row.target.id) ? words : null);
}
