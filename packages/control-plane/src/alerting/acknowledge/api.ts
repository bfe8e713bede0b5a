import Type from "typebox";
import { Text } from "../../platform/http/wire.ts";
import { AppError } from "@statusmesh/shared/errors";
import { visitorAddress } from "../../platform/http/limits/per-ip.ts";
import { hasForm, isBrowser, noContent, route, type Route, seeOther } from "../../platform/http/route.ts";
import { acknowledgeByLink, type Part } from "./service.ts";

const path = "/a/{token}";

const partOf = (text: string | undefined): Part =>
  text === undefined ? "all" : text === "later" ? "later" : { cause: text };

export const acknowledgeRoutes: Route[] = [
  route("POST", path, {
    auth: "public",
    tag: "Incidents",
    summary: "Acknowledge what a notification is about",
    description:
      "Needs no credential: the token of `acknowledge_url` is one, for the incidents that the message listed as open " +
      "and one channel, until they are over. The timeline names the channel. GET shows a page with buttons and " +
      "changes nothing.",
    params: Type.Object({
      token: Text("Token of the link", "AZMfLnwafTCbXi9qTI0ekkrQ3o0m9cQ1Yl7uT2bX5wA"),
    }),
    query: Type.Object({
      part: Type.Optional(
        Type.String({
          maxLength: 2048,
          description:
            "A cause of the message as its page names it, or `later`: what the channel was told of after it. " +
            "Left out: all of the message",
          examples: ["host:db-1.example.org"],
        }),
      ),
    }),
    replies: { 204: null, 303: null },
    errors: ["ACKNOWLEDGE_LINK_INVALID", "ACKNOWLEDGE_LINK_EXPIRED"],
    async handle({ ctx, params, query, http }) {
      const isForm = isBrowser(http) || hasForm(http);
      try {
        const by = { action: `POST ${path}`, ip: visitorAddress(http, ctx.config), userAgent: http.get("user-agent") };
        await acknowledgeByLink(ctx, params.token, by, partOf(query.part));
      } catch (error) {
        // The page says the same in words.
        if (!isForm || !(error instanceof AppError) || !error.code.startsWith("ACKNOWLEDGE_LINK_")) throw error;
      }
      return isForm ? seeOther(http.path) : noContent();
    },
  }),
];
