import { page } from "../../platform/html/pages.ts";
import { secretAddress } from "../../platform/http/reply/security-headers.ts";
import { subscribablePage, subscriptionOf } from "../subscribers/service.ts";
import { frameOf, visitorPage } from "./pages.ts";
import { textsOf } from "../languages/service.ts";

/** Pages of visitors who subscribe. A GET changes nothing, because scanners of mails open links. */
export const subscriptionPages = [
  visitorPage("/status/subscribe", async ({ ctx, query, served: read, lang }) => {
    const [served, { components }] = await Promise.all([read(), subscribablePage(ctx)]);
    return {
      view: "public/subscribe",
      data: {
        ...frameOf(served, ctx, lang),
        components,
        texts: textsOf(served.language).subscription,
        mails: ctx.config.email.smtp_url !== "",
        done: query["done"] === "webhook" ? "webhook" : query["done"] === undefined ? null : "mail",
        problem: query["error"] === "limit" ? "limit" : query["error"] === undefined ? null : "input",
      },
    };
  }),
  // Programs without RFC 8058 open the address of List-Unsubscribe, and so do link scanners.
  page("/status/subscriptions/{token}/unsubscribe", "public", async ({ ctx, params }) => ({
    redirect: `${ctx.pagePath ?? "/status"}/subscriptions/${params["token"]!}`,
    headers: secretAddress,
  })),
  visitorPage("/status/subscriptions/{token}", async ({ ctx, params, query, served: read, lang }) => {
    const token = params["token"]!;
    const [served, subscription] = await Promise.all([read(), subscriptionOf(ctx, token)]);
    const ended = query["ended"] === "1";
    return {
      view: "public/subscription",
      data: {
        ...frameOf(served, ctx, lang),
        texts: textsOf(served.language).subscription,
        token,
        subscription,
        ended,
        said: query["confirmed"] === "1" ? "confirmed" : query["saved"] === "1" ? "saved" : null,
      },
      status: subscription === null && !ended ? 404 : 200,
      headers: secretAddress,
    };
  }),
];
