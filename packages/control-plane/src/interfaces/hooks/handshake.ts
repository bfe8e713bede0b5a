import type { Middleware } from "koa";
import type { System } from "../../platform/context.ts";
import { atRoute } from "../../platform/http/exchange.ts";
import { whatsappChallenge } from "./service.ts";

/**
 * Answers the verification request of Meta with its challenge as plain text
 * (https://developers.facebook.com/docs/graph-api/webhooks/getting-started). Routes answer JSON, so this is middleware.
 */
export function whatsappHandshake(system: System): Middleware {
  return (http, next) => {
    if (http.path !== "/hooks/whatsapp" || http.method !== "GET") return next();
    const asked = http.URL.searchParams;
    if (system.config.channels.whatsapp.verify_token === "" || !asked.has("hub.mode")) return next();
    atRoute(http, "/hooks/whatsapp");
    const challenge = whatsappChallenge(system, asked);
    http.set("Cache-Control", "no-store");
    http.type = "text/plain; charset=utf-8";
    http.body = challenge;
    return undefined;
  };
}
