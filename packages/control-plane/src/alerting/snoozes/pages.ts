import { timezoneOf } from "../../access/orgs/service.ts";
import type { Paging } from "../../platform/db/client/sql.ts";
import type { Ctx } from "../../platform/context.ts";
import { page } from "../../platform/html/pages.ts";
import * as service from "./service.ts";

/** Tags that the form offers. */
const maxTags = 100;

type TagList = (ctx: Ctx, page: Paging) => Promise<{ items: { name: string; count: number }[] }>;

export const snoozePages = (listTags: TagList) => [
  page("/oncall/snoozes", "tenant", async ({ ctx }) => {
    const [snoozes, tags, zone] = await Promise.all([
      service.listSnoozes(ctx, { limit: 100, offset: 0 }),
      listTags(ctx, { limit: maxTags, offset: 0 }),
      timezoneOf(ctx, ctx.orgId),
    ]);
    return {
      view: "snoozes/list",
      data: {
        zone,
        tags: tags.items,
        snoozes: snoozes.items.map(({ id, scope, until, reason, created_by }) => ({
          id,
          until,
          reason,
          by: created_by.name,
          covers: service.coversOf(scope),
        })),
      },
    };
  }),
];
