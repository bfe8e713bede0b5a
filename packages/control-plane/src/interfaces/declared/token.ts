import { createHmac, timingSafeEqual } from "node:crypto";
import { AppError } from "@statusmesh/shared/errors";
import { dayMs } from "@statusmesh/shared/time";
import type { Ctx } from "../../platform/context.ts";
import { signingKey } from "../../platform/db/signing-keys.ts";
import { takeTurns } from "../../platform/process/turns.ts";

/** What a plan was made of. */
export interface Planned {
  readonly org: string;
  readonly project: string;
  /** Keyed digests of the document, and of what the plan has read. */
  readonly document: string;
  readonly state: string;
  readonly prune: boolean;
  readonly maxDelete: number | null;
  /** Unix ms. */
  readonly expires: number;
}

const lifetimeMs = dayMs;

/** The token of a plan. It survives restarts and is valid on every replica. */
export async function tokenOf(ctx: Ctx, planned: Omit<Planned, "org" | "expires">): Promise<string> {
  const whole: Planned = { ...planned, org: ctx.orgId, expires: ctx.clock.now() + lifetimeMs };
  const body = Buffer.from(JSON.stringify(whole)).toString("base64url");
  return `${body}.${(await macOf(ctx, body)).toString("base64url")}`;
}

/** What a token was made of. PLAN_STALE for a forged, foreign or old one. */
export async function readToken(ctx: Ctx, token: string, project: string): Promise<Planned> {
  const [body = "", mac = ""] = token.split(".");
  const given = Buffer.from(mac, "base64url");
  const wanted = await macOf(ctx, body);
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) throw stale("it is not one of this service");
  const planned = JSON.parse(Buffer.from(body, "base64url").toString("utf8")) as Planned;
  if (planned.org !== ctx.orgId || planned.project !== project) throw stale("it is of another project");
  if (planned.expires <= ctx.clock.now()) throw stale("it is older than 24 hours");
  return planned;
}

export const stale = (why: string): AppError =>
  new AppError("PLAN_STALE", `The plan is not valid any more: ${why}. Plan again, and apply that.`);

const macOf = async ({ sql }: Ctx, body: string): Promise<Buffer> =>
  createHmac("sha256", await signingKey(sql, "plan"))
    .update(`token ${body}`)
    .digest();

/** A keyed digest of values, taken in slices: without the key it tells nothing about secrets in them. */
export async function digestOf(
  { sql, isGone }: Ctx,
  values: Iterable<unknown> | AsyncIterable<unknown>,
): Promise<string> {
  const hmac = createHmac("sha256", await signingKey(sql, "plan"));
  const turns = await takeTurns(isGone);
  for await (const value of values) {
    if (turns.over()) await turns.next();
    hmac.update(`${JSON.stringify(value)}\n`);
  }
  return hmac.digest("base64url");
}
