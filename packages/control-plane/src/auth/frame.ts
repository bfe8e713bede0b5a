import type { Ctx } from "../context.ts";
import { listIncidents } from "../incidents/service.ts";
import { me } from "./service.ts";

/** What every page of the console shows around its content. */
export async function consoleFrame(ctx: Ctx): Promise<object> {
  const [who, open] = await Promise.all([me(ctx), ctx.scopes.has("incidents:read") ? listIncidents(ctx, { state: "open", limit: 1, offset: 0 }) : null]);
  return { user: who.user, org: who.org, openIncidents: open?.total ?? 0, signedIn: ctx.actor.type === "session" };
}
