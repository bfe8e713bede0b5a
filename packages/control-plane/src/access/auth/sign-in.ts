import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import type { System } from "../../platform/context.ts";
import { visitorAddress } from "../../platform/http/per-ip.ts";
import { callerOf } from "./authenticate.ts";
import { sessionCookie } from "./cookies.ts";
import { deviceCookie, deviceOf } from "./device-cookie.ts";
import { type Prover, signInWithPassword } from "./password.ts";
import type { SessionCreate } from "./schema.ts";
import { type OpenedSession, signIn } from "./sessions.ts";

/** The session that a request opens: with address and password, or with the code of a link. */
export async function openedBy(system: System, http: Context, sent: SessionCreate): Promise<OpenedSession> {
  const caller = callerOf(system, http);
  const { email, password, code } = sent;
  if (email !== undefined && password !== undefined)
    return await signInWithPassword(system, { email, password, device: await deviceOf(system, http), ...caller });
  if (email === undefined && password === undefined && code !== undefined)
    return await signIn(system, { code, ...caller });
  throw new AppError("INVALID_BODY", "Send email and password, or the code of a sign-in link alone.", {
    field: password === undefined && email !== undefined ? "/password" : email === undefined ? "/email" : "/code",
  });
}

/** The browser that proves a password in a session. */
export async function proverOf(system: System, http: Context): Promise<Prover> {
  return { ip: visitorAddress(http, system.config), device: await deviceOf(system, http) };
}

/** The Set-Cookie headers of a completed sign-in. */
export async function signedInCookies(system: System, opened: OpenedSession): Promise<string[]> {
  return [sessionCookie(system.config, opened), await deviceCookie(system, opened)];
}
