import type { Context } from "koa";
import { askedLater } from "./access/auth/cookies/service.ts";
import { me } from "./access/auth/service.ts";
import { needsPassword } from "./access/auth/second-factor/service.ts";
import type { Ctx } from "./platform/context.ts";
import type { Frame } from "./platform/html/pages.ts";
import { openCounts } from "./alerting/incidents/service.ts";
import { activeWindows } from "./alerting/maintenance/calendar/service.ts";
import { shownSnoozes } from "./alerting/snoozes/service.ts";
import { listOrgs } from "./access/orgs/service.ts";

/** Data of the frame around every console page. */
export async function frame(ctx: Ctx, http: Context): Promise<Omit<Frame, "path" | "address">> {
  const bySession = ctx.actor.type === "session";
  const [caller, open, windows, snoozes, orgs, asksPassword] = await Promise.all([
    me(ctx),
    openCounts(ctx),
    ctx.scopes.has("maintenance:read") ? activeWindows(ctx) : [],
    ctx.scopes.has("incidents:read") ? shownSnoozes(ctx) : [],
    // Only a session can switch between organisations.
    bySession ? listOrgs(ctx, { limit: 50, offset: 0 }) : null,
    !askedLater(ctx.config, http) && needsPassword(ctx),
  ]);
  return {
    org: caller.org?.name ?? "",
    orgId: ctx.orgId,
    role: ctx.role,
    // Null hides the sign-out button, which only a session has.
    email: bySession ? caller.user.email : null,
    otherOrgs: (orgs?.items ?? [])
      .filter((org) => !org.current && org.deleted_at === null)
      .map(({ id, name }) => ({ id, name })),
    asksPassword,
    lacksSecondFactor: ctx.lacksSecondFactor === true,
    openCauses: open.waiting,
    snoozes,
    tone:
      open.incidents > open.minor
        ? "down"
        : open.incidents > 0
          ? "degraded"
          : windows.length > 0
            ? "maintenance"
            : "up",
  };
}
