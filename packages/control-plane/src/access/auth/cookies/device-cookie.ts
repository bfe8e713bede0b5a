import { createHmac } from "node:crypto";
import type { Context } from "koa";
import { dayMs } from "@statusmesh/shared/time";
import type { Config } from "../../../config/config.ts";
import type { System } from "../../../platform/context.ts";
import { newToken, sameSecret } from "../../../platform/crypto/token.ts";
import { signingKey } from "../../../platform/db/signing-keys.ts";
import { ownCookie } from "./cookies.ts";

/** Lifetime of a device cookie. */
const lifetimeMs = 180 * dayMs;

const cookieName = ({ auth }: Config): string => `${auth.session.cookie_name}_device`;

/** A browser that has completed a sign-in of this user, while the user had these factors. */
export interface Device {
  readonly id: string;
  readonly userId: string;
  readonly revision: string;
}

/** The Set-Cookie header of a browser that has completed a sign-in. */
export async function deviceCookie(
  system: Pick<System, "sql" | "config" | "clock">,
  user: { userId: string; revision: string },
): Promise<string> {
  const expires = system.clock.now() + lifetimeMs;
  const text = [newToken(""), user.userId, user.revision, expires].join(".");
  return ownCookie(
    system.config,
    cookieName(system.config),
    `${text}.${await signed(system, text)}`,
    new Date(expires),
  );
}

/** The device that this browser's cookie proves; null without a valid one. The caller compares the revision. */
export async function deviceOf(
  system: Pick<System, "sql" | "config" | "clock">,
  http: Context,
): Promise<Device | null> {
  const value = http.cookies.get(cookieName(system.config));
  const [id, userId, revision, expires, signature, ...more] = value?.split(".") ?? [];
  if (id === undefined || userId === undefined || revision === undefined || signature === undefined || more.length > 0)
    return null;
  const right = await signed(system, [id, userId, revision, expires].join("."));
  return sameSecret(signature, right) && Number(expires) > system.clock.now() ? { id, userId, revision } : null;
}

async function signed({ sql }: Pick<System, "sql">, text: string): Promise<string> {
  return createHmac("sha256", await signingKey(sql, "device"))
    .update(text)
    .digest("base64url");
}
