import { page } from "../../platform/html/pages.ts";
import { getPage } from "../status-pages/service.ts";
import { listSubscribers, subscriberCounts } from "./service.ts";

export const subscribersPages = [
  page("/status-pages/{id}/subscribers", "tenant", async ({ ctx, params, offset }) => {
    const id = params["id"]!;
    const statusPage = await getPage(ctx, id);
    const owner = ctx.role === "owner";
    const [list, counts] = owner
      ? await Promise.all([listSubscribers(ctx, id, { limit: 50, offset }), subscriberCounts(ctx, id)])
      : [null, null];
    return {
      view: "subscribers/list",
      data: { page: statusPage, list, counts, mails: ctx.config.email.smtp_url !== "" },
    };
  }),
];
