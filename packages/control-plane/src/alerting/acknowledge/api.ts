import Type from "typebox";
import { Text } from "../../platform/http/wire.ts";
import { AppError } from "@statusmesh/shared/errors";
import { visitorAddress } from "../../platform/http/per-ip.ts";
import { hasForm, isBrowser, noContent, route, type Route, seeOther } from "../../platform/http/route.ts";
import { acknowledgeByLink } from "./service.ts";

const path = "/a/{token}";

export const acknowledgeRoutes: Route[] = [
  route("POST", path, {
    auth: "public",
    tag: "Incidents",
    summary: "Acknowledge an incident from a notification",
    description:
      "Needs no credential: the token of `acknowledge_url` is one, for one incident and one channel, until the " +
      "incident is over. The timeline names the channel. GET shows a page with a button and changes nothing.",
    params: Type.Object({
      token: Text("Token of the link", "AZMfLnwafTCbXi9qTI0ekkrQ3o0m9cQ1Yl7uT2bX5wA"),
    }),
    replies: { 204: null, 303: null },
    errors: ["ACKNOWLEDGE_LINK_INVALID", "ACKNOWLEDGE_LINK_EXPIRED"],
    async handle({ ctx, params, http }) {
      const isForm = isBrowser(http) || hasForm(http);
      try {
        await acknowledgeByLink(ctx, params.token, {
          action: `POST ${path}`,
          ip: visitorAddress(http, ctx.config),
          userAgent: http.get("user-agent"),
        });
      } catch (error) {
        // The page says the same in words.
        if (!isForm || !(error instanceof AppError) || !error.code.startsWith("ACKNOWLEDGE_LINK_")) throw error;
      }
      return isForm ? seeOther(http.path) : noContent();
    },
  }),
];
