import { AppError } from "@statusmesh/shared/errors";
import { dayMs, utcDay } from "@statusmesh/shared/time";
import { listChannels } from "../../alerting/channels/service.ts";
import { timezoneOf } from "../../access/orgs/service.ts";
import type { Paging } from "../../platform/db/client/sql.ts";
import type { Ctx } from "../../platform/context.ts";
import * as format from "../../platform/html/format.ts";
import { page } from "../../platform/html/pages.ts";
import { localOf } from "@statusmesh/shared/zoned";
import { listPages } from "../status-pages/service.ts";
import { startOfMonth } from "./range.ts";
import { listRecipients } from "./recipients.ts";
import { groupings } from "./schema.ts";
import { uptimeOverview } from "./service.ts";
import { calendarOf, gapsOf } from "./words.ts";

const pageSize = 100;
/** Rows of a page that is printed. */
const mostRows = 1000;

/** Channels, status pages and tags that the form offers. */
const maxChoices = { limit: 1000, offset: 0 };

type TagList = (ctx: Ctx, page: Paging) => Promise<{ items: { name: string; count: number }[] }>;

export const reportPages = (listTags: TagList) => [
  page("/reports/uptime", "tenant", async ({ ctx, query, rows, offset }) => {
    const zone = await timezoneOf(ctx, ctx.orgId);
    const now = ctx.clock.now();
    const choices = choicesOf(now, zone);
    const group_by = groupings.find((known) => known === query["group_by"]) ?? "target";
    const asked = { from: query["from"] || choices[0]!.from, to: query["to"] || choices[0]!.to };
    const all = query["all"] === "1";
    const paging = { limit: all ? mostRows : pageSize, offset };
    let problem: string | null = null;
    const report = await uptimeOverview(ctx, { ...asked, group_by, ...paging }).catch((error: unknown) => {
      // An error of the form is shown beside it.
      if (!(error instanceof AppError) || !error.field?.startsWith("/query/")) throw error;
      problem = error.message;
      return null;
    });
    const worst = Math.max(0, ...(report?.items ?? []).map(({ downtime_secs: secs }) => secs ?? 0));
    const day = (at: string, before = 0) => format.day(new Date(localOf(Date.parse(at) - before, zone)));
    const hour = (at: string) => format.clock(new Date(localOf(Date.parse(at), zone)), localOf(now, zone));
    return {
      view: "reports/uptime",
      data: {
        problem,
        report,
        group_by,
        all,
        zone,
        choices,
        asked,
        chosen: choices.find(({ from, to }) => from === asked.from && to === asked.to)?.name ?? null,
        first: report && day(report.from),
        last: report && day(report.to, 1),
        until: report?.isShortened === true ? hour(report.to) : null,
        months: report?.overall ? calendarOf(report.days, report.overall.gaps, zone) : [],
        rows: await rows(
          "reports/row",
          (report?.items ?? []).map((row) => ({ row, group_by, worst, gaps: gapsOf(row, zone) })),
        ),
      },
    };
  }),
  page("/reports/recipients", "tenant", async ({ ctx }) => {
    const [recipients, channels, pages, tags, zone] = await Promise.all([
      listRecipients(ctx, maxChoices),
      listChannels(ctx, maxChoices),
      listPages(ctx, maxChoices),
      listTags(ctx, maxChoices),
      timezoneOf(ctx, ctx.orgId),
    ]);
    const nameOf = (items: readonly { id: string; name: string }[], id: string) =>
      items.find((one) => one.id === id)?.name ?? id;
    const mail = channels.items.filter(({ config }) => config.type === "email");
    return {
      view: "reports/recipients",
      data: {
        zone,
        recipients: recipients.items.map(({ id, channel_id, page_id, tag, last_mail }) => ({
          id,
          last_mail,
          channel: nameOf(channels.items, channel_id),
          about:
            page_id !== null
              ? `status page ${nameOf(pages.items, page_id)}`
              : tag !== null
                ? `tag ${tag}`
                : "all monitors",
        })),
        channels: mail.filter(({ verified }) => verified === true).map(({ id, name }) => ({ id, name })),
        unconfirmed: mail.filter(({ verified }) => verified !== true).length,
        pages: pages.items.map(({ id, name }) => ({ id, name })),
        tags: tags.items,
      },
    };
  }),
];

/** Ranges to choose from, as days of the zone. */
function choicesOf(now: number, zone: string): { name: string; from: string; to: string }[] {
  const date = (at: number) => utcDay(localOf(at, zone));
  const [month, before, year] = [0, -1, -12].map((months) => startOfMonth(now, zone, months)) as [
    number,
    number,
    number,
  ];
  return [
    { name: "This month", from: date(month), to: date(now) },
    { name: "Last month", from: date(before), to: date(month - 1) },
    { name: "Last 90 days", from: date(now - 89 * dayMs), to: date(now) },
    { name: "Last 12 months", from: date(year), to: date(month - 1) },
  ];
}
