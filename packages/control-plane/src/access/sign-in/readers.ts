import type { Context } from "koa";
import { newId } from "@statusmesh/shared/ids";
import { hourMs } from "@statusmesh/shared/time";
import type { Config } from "../../config/config.ts";
import { inTransaction, type System } from "../../platform/context.ts";
import { hashToken, newToken } from "../../platform/crypto/token.ts";
import { ownCookie } from "../auth/cookies/service.ts";
import type { Person } from "./provider.ts";
import * as queries from "./queries.ts";

/** Groups are asked for again after this time. */
const readerSessionMs = 12 * hourMs;
/** Longer names, and more groups, name no group of a page. */
const [maxGroups, maxGroupLength] = [1000, 200];

const cookieName = ({ auth }: Config): string => `${auth.session.cookie_name}_reader`;

const isStorable = (group: string): boolean =>
  group.length <= maxGroupLength && group.isWellFormed() && !group.includes("\0");

/** Opens the reader session of a person whose groups a provider attests. Returns its Set-Cookie header. */
export async function openReaderSession(
  system: System,
  { issuer, subject, groups = [] }: Pick<Person, "issuer" | "subject" | "groups">,
): Promise<string> {
  const secret = newToken("");
  const expires = new Date(system.clock.now() + readerSessionMs);
  const row = { id: newId(), secret_hash: hashToken(secret), issuer, subject, expires_at: expires };
  await inTransaction(system, async ({ sql }) =>
    queries.insertReaderSession(sql, { ...row, groups: groups.filter(isStorable).slice(0, maxGroups) }),
  );
  return ownCookie(system.config, cookieName(system.config), secret, expires);
}

/** The reader session of a browser at the console's host, with its groups; null without a live one. */
export async function readerSession(
  { sql, clock, config }: System,
  http: Context,
): Promise<Pick<queries.ReaderSessionRow, "id" | "groups"> | null> {
  const secret = http.cookies.get(cookieName(config));
  if (secret === undefined) return null;
  return await queries.selectReaderSession(sql, hashToken(secret), new Date(clock.now()));
}
