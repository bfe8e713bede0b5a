import { pendingVerification, subscribedAddress } from "../channels/service.ts";
import { page } from "../../platform/html/pages.ts";
import { secretAddress } from "../../platform/http/security-headers.ts";

export const mailLinkPages = [
  page({
    path: "/confirm/{code}",
    auth: "public",
    async handle({ ctx, params, query }) {
      const done = query["done"] === "1";
      const pending = done ? null : await pendingVerification(ctx, params["code"]!);
      return {
        view: "channel-links/confirm",
        data: { code: params["code"]!, pending, done },
        status: pending === null && !done ? 404 : 200,
        headers: secretAddress,
      };
    },
  }),
  page({
    path: "/unsubscribe/{id}/{code}",
    auth: "public",
    async handle({ ctx, params, query }) {
      const done = query["done"] === "1";
      const address = done ? null : await subscribedAddress(ctx, params["id"]!, params["code"]!);
      return {
        view: "channel-links/unsubscribe",
        data: { path: `/unsubscribe/${params["id"]!}/${params["code"]!}`, address, done },
        status: address === null && !done ? 404 : 200,
        headers: secretAddress,
      };
    },
  }),
];
