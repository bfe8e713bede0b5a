import Type from "typebox";
import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { confirmAddress, unsubscribe } from "../channels/service.ts";
import { visitorAddress } from "../../platform/http/per-ip.ts";
import { noContent, type Reply, route, type Route } from "../../platform/http/route.ts";

const tag = "Notification channels";

const CodeParam = Type.Object({
  code: Type.String({ description: "Code of the link", examples: ["V2hhdCBhIGNvZGUgbG9va3MgbGlrZSwgNDMgY2hhcnM"] }),
});

/** Links in mails. A GET shows a page with a button and changes nothing, because scanners of mails open links. */
export const mailLinkRoutes: Route[] = [
  route({
    method: "POST",
    path: "/confirm/{code}",
    auth: "public",
    tag,
    summary: "Confirm the address of an email channel",
    description: "Needs no credential: the code of the verification mail is one, and works once.",
    params: CodeParam,
    replies: { 204: null, 303: null },
    errors: ["CHANNEL_LINK_INVALID"],
    handle: async ({ ctx, params, http }) =>
      forBrowsers(http, async () => confirmAddress(ctx, params.code, visitorAddress(http, ctx.config))),
  }),
  route({
    method: "POST",
    path: "/unsubscribe/{id}/{code}",
    auth: "public",
    tag,
    summary: "Stop the mails of an email channel",
    description: "The one-click unsubscription of RFC 8058. The channel is disabled; its owners see why.",
    params: Type.Object({
      id: Type.String({ description: "Id of the channel", examples: ["0190a000-0000-7000-8000-000000000001"] }),
      ...CodeParam.properties,
    }),
    replies: { 204: null, 303: null },
    errors: ["CHANNEL_LINK_INVALID"],
    handle: async ({ ctx, params, http }) =>
      forBrowsers(http, async () => unsubscribe(ctx, params.id, params.code, visitorAddress(http, ctx.config))),
  }),
];

/** Runs a change. A form gets the page again with the outcome; programs get 204. */
async function forBrowsers(http: Context, change: () => Promise<void>): Promise<Reply> {
  if (!http.get("accept").includes("text/html")) {
    await change();
    return noContent();
  }
  try {
    await change();
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "CHANNEL_LINK_INVALID") throw error;
    return { status: 303, headers: { Location: http.path } };
  }
  return { status: 303, headers: { Location: `${http.path}?done=1` } };
}
