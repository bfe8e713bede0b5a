import type { Context } from "koa";
import type { Config } from "../../config/config.ts";
import { signInCookie } from "../auth/cookies/service.ts";

const flowSecs = 600;
const cookieName = ({ auth }: Config): string => `${auth.session.cookie_name}_flow`;

/** The secret of the flow that this browser has started; null without one. */
export const flowOf = (config: Config, http: Context): string | null => http.cookies.get(cookieName(config)) ?? null;

/** The Set-Cookie header of a browser that starts a flow. */
export const flowCookie = (config: Config, value: string, secs = flowSecs): string =>
  signInCookie(config, cookieName(config), value, secs);

/** The Set-Cookie header that removes it. */
export const endOfFlow = (config: Config): string => flowCookie(config, "", 0);
