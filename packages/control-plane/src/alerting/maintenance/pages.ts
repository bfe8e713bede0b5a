import { dayMs, utcDay } from "@statusmesh/shared/time";
import type { Paging } from "../../platform/db/client/sql.ts";
import type { Ctx } from "../../platform/context.ts";
import { zoneNames } from "../../platform/zoned.ts";
import { formPage, page } from "../../platform/html/pages.ts";
import { isoTimes } from "../../platform/http/wire.ts";
import type { Maintenance } from "./schema.ts";
import * as calendarService from "./calendar/service.ts";
import * as service from "./service.ts";
import { recurrenceWords, ruleParts } from "./words.ts";
import { templatesFor } from "../update-templates/service.ts";

const pageSize = 50;
/** Occurrences that a month shows. */
const maxCalendar = 500;
/** Tags that the form offers. */
const maxTags = 100;
/** Occurrences on the page of a window. */
const nextOccurrences = 10;

const withWords = (one: Maintenance) => ({
  ...one,
  repeats: one.recurrence === null ? null : recurrenceWords(one.recurrence),
});

async function listOf(ctx: Ctx, past: boolean, offset: number) {
  const now = new Date(ctx.clock.now()).toISOString();
  if (past) {
    const list = await service.listWindows(ctx, { status: "past", limit: pageSize, offset });
    return { now, active: [], list: { ...list, items: list.items.map(withWords) } };
  }
  const [active, list] = await Promise.all([
    service.listWindows(ctx, { status: "active", limit: pageSize, offset: 0 }, "soonest"),
    service.listWindows(ctx, { status: "upcoming", limit: pageSize, offset }, "soonest"),
  ]);
  return { now, active: active.items.map(withWords), list: { ...list, items: list.items.map(withWords) } };
}

/** The days of a month in whole weeks, Monday first, as UTC dates. */
function monthOf(text: string | undefined, now: number) {
  const given = /^(20\d\d|21\d\d)-(0[1-9]|1[0-2])$/.test(text ?? "") ? text! : new Date(now).toISOString().slice(0, 7);
  const first = Date.parse(`${given}-01T00:00:00Z`);
  const at = new Date(first);
  const next = Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 1);
  const from = first - ((at.getUTCDay() + 6) % 7) * dayMs;
  const days: { date: string; outside: boolean }[] = [];
  for (let day = from; day < next || days.length % 7 !== 0; day += dayMs)
    days.push({ date: utcDay(day), outside: day < first || day >= next });
  const shifted = (by: number) =>
    new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + by, 1)).toISOString().slice(0, 7);
  return { month: given, first, from, to: from + days.length * dayMs, days, previous: shifted(-1), next: shifted(1) };
}

async function calendarOf(ctx: Ctx, month: string | undefined) {
  const { from, to, ...shape } = monthOf(month, ctx.clock.now());
  // One day more on both sides, because days of the reader's zone are not days of UTC.
  const rows = await calendarService.calendar(ctx, {
    from: new Date(from - dayMs),
    to: new Date(to + dayMs),
    limit: maxCalendar,
  });
  const events = rows.map(isoTimes);
  const onDay = (date: string) => {
    const start = Date.parse(`${date}T00:00:00Z`);
    return events.filter((one) => Date.parse(one.starts_at) < start + dayMs && Date.parse(one.ends_at) > start);
  };
  return {
    ...shape,
    today: utcDay(ctx.clock.now()),
    days: shape.days.map((day) => ({ ...day, events: onDay(day.date) })),
    events,
  };
}

/** Tags of the monitors, which a window can name in place of monitors. */
type TagList = (ctx: Ctx, page: Paging) => Promise<{ items: { name: string; count: number }[] }>;

/** Data of the form: of a window, or of a new one. */
async function formOf(ctx: Ctx, listTags: TagList, window: Maintenance | null, chosen: { id: string; name: string }[]) {
  const tags = await listTags(ctx, { limit: maxTags, offset: 0 });
  const templates = ctx.scopes.has("incidents:read") ? await templatesFor(ctx, "maintenance") : [];
  return {
    templates,
    window,
    chosen,
    tags: tags.items,
    repeat: ruleParts(window?.recurrence?.rule ?? null),
    rule: window?.recurrence?.rule ?? "",
    zone: window?.recurrence?.time_zone ?? "",
    zones: zoneNames,
  };
}

export const maintenancePages = (listTags: TagList) => [
  page("/maintenance", "tenant", async ({ ctx, query, offset }) => {
    const view = query["view"] === "past" || query["view"] === "calendar" ? query["view"] : "scheduled";
    const calendar = view === "calendar" ? await calendarOf(ctx, query["month"]) : null;
    return {
      view: "maintenance/list",
      fragment: "maintenance/list-live",
      data: {
        view,
        calendar,
        ...(await listOf(ctx, view === "past", offset)),
        offset,
        origin: ctx.config.server.public_url,
      },
    };
  }),
  formPage("/maintenance/new", async ({ ctx }) => {
    return { view: "maintenance/form", data: await formOf(ctx, listTags, null, []) };
  }),
  page("/maintenance/{id}", "tenant", async ({ ctx, params }) => {
    const id = params["id"]!;
    const window = await service.getWindow(ctx, id);
    const [occurrences, scope] = await Promise.all([
      service.listOccurrences(ctx, id, { limit: nextOccurrences, offset: 0 }),
      calendarService.windowScope(ctx, id),
    ]);
    return {
      view: "maintenance/show",
      fragment: "maintenance/show-live",
      data: { window: withWords(window), occurrences, ...scope, now: new Date(ctx.clock.now()).toISOString() },
    };
  }),
  formPage("/maintenance/{id}/edit", async ({ ctx, params }) => {
    const window = await service.getWindow(ctx, params["id"]!);
    const { monitors } = await calendarService.windowScope(ctx, window.id);
    return { view: "maintenance/form", data: await formOf(ctx, listTags, window, monitors) };
  }),
];
