import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import type { Config } from "../../../config/config.ts";
import type { Ctx, System } from "../../../platform/context.ts";
import { visitorAddress } from "../../../platform/http/limits/per-ip.ts";
import { callerOf } from "./authenticate.ts";
import { challengeSecret, ownCookie, sessionCookie } from "../cookies/cookies.ts";
import { deviceCookie, deviceOf } from "../cookies/device-cookie.ts";
import { type Prover, signInWithPassword, verifySession } from "../passwords/password.ts";
import { verifyWithPasskey } from "../passkeys/service.ts";
import type { SessionCreate, SessionProof } from "../schema.ts";
import type { OpenedSession } from "./opened-session.ts";
import { CodeRequired, finishPending, pendingMs } from "../second-factor/pending.ts";
import { signIn } from "./sessions.ts";

/** The session that a request opens: with address and password, or with the code of a link. */
export async function openedBy(system: System, http: Context, sent: SessionCreate): Promise<OpenedSession> {
  const caller = callerOf(system, http);
  const { email, password, code } = sent;
  if (email !== undefined && password !== undefined) {
    const device = await deviceOf(system, http);
    return await askingForCode(system, http, async () =>
      signInWithPassword(system, { email, password, code, device, ...caller }),
    );
  }
  if (email === undefined && password === undefined && code !== undefined) {
    const browser = pendingOf(system, http);
    // The code of a link has 43 characters.
    if (browser !== null && code.length < 40)
      return await finishPending(system, { browser, code, device: await deviceOf(system, http), ...caller });
    return await askingForCode(system, http, async () => signIn(system, { code, ...caller }));
  }
  throw new AppError("INVALID_BODY", "Send email and password, or the code of a sign-in link alone.", {
    field: password === undefined && email !== undefined ? "/password" : email === undefined ? "/email" : "/code",
  });
}

/** Runs a sign-in; one that waits for a code is remembered by a cookie of this browser. */
export async function askingForCode<T>(system: System, http: Context, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CodeRequired) {
      const ends = new Date(system.clock.now() + pendingMs);
      http.append("Set-Cookie", ownCookie(system.config, pendingName(system.config), error.browser, ends));
    }
    throw error;
  }
}

const pendingName = ({ auth }: Config): string => `${auth.session.cookie_name}_pending`;

/** The secret of this browser's sign-in that waits for a code; null without one. */
export const pendingOf = ({ config }: Pick<System, "config">, http: Context): string | null =>
  http.cookies.get(pendingName(config)) ?? null;

/** The browser that proves a password in a session. */
export async function proverOf(system: System, http: Context): Promise<Prover> {
  return { ip: visitorAddress(http, system.config), device: await deviceOf(system, http) };
}

/** Makes the session of a request fresh: with what the account has, or with a passkey. */
export async function proveAgain(ctx: Ctx, http: Context, { response, ...typed }: SessionProof): Promise<void> {
  if (response === undefined) await verifySession(ctx, typed, await proverOf(ctx, http));
  else await verifyWithPasskey(ctx, response, challengeSecret(ctx.config, http));
}

/** The Set-Cookie headers of a completed sign-in. */
export async function signedInCookies(system: System, opened: OpenedSession): Promise<string[]> {
  return [sessionCookie(system.config, opened), await deviceCookie(system, opened)];
}
