import { createHmac, randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import { AppError } from "@statusmesh/shared/errors";
import { messageOf } from "@statusmesh/shared/thrown";
import { addressList } from "@statusmesh/shared/net/address";
import { hashPassword, verifyPassword, withPlace } from "../../../access/auth/passwords/service.ts";
import type { Config } from "../../../config/config.ts";
import { atMost, getOrMake } from "../../../platform/caches.ts";
import type { Ctx, System } from "../../../platform/context.ts";
import { type Counter, openCounter } from "../../../platform/http/limits/counter.ts";
import { refuseOver } from "../../../platform/http/limits/throttle.ts";
import type { Access, AccessInput, AccessMode } from "./schema.ts";
import { mailDomain } from "./mail-domain.ts";
import type { StatusPageRow } from "../queries.ts";

/** A longer text is no password of a page; code units. */
const maxTyped = 512;

const publicAccess: Access = {
  mode: "public",
  email_domains: [],
  groups: [],
  open_networks: [],
  keep_subscribers: false,
  title: null,
};

/** Fields that the stored access lacks take their default. */
export const completeAccess = (stored: Partial<Access> | undefined): Access => ({ ...publicAccess, ...stored });

/** What this installation lacks for a mode; null for nothing. */
export function missingFor(mode: AccessMode, { auth, email }: Config): string | null {
  if (mode === "email_domains" && email.smtp_url === "")
    return "Links are sent by mail, and there is no mail server: set email.smtp_url, or choose another mode.";
  if (mode === "groups" && !(auth.required && auth.enabled_methods.includes("oidc")))
    return "Groups come from the identity provider, and none is set up: set auth.oidc, or choose another mode.";
  if (mode === "members" && !auth.required)
    return "Nobody signs in to this installation (auth.required is false): choose another mode.";
  return null;
}

/**
 * The access that an input asks for, without its password. `before`: the present mode, which stays when the
 * installation lacks something for it. Throws INVALID_BODY.
 */
export function accessRules(input: AccessInput | undefined, config: Config, before: AccessMode | null): Access {
  const { password: _, ...wanted }: AccessInput = input ?? publicAccess;
  const missing = wanted.mode === before ? null : missingFor(wanted.mode, config);
  if (missing !== null) throw invalid(missing, "/access/mode");
  const domains = (wanted.email_domains ?? []).map((text, at) => {
    const domain = mailDomain(text);
    if (domain === null) throw invalid(`${text} is no domain of addresses; write acme.example.`, domainAt(at));
    return domain;
  });
  if (wanted.mode === "email_domains" && domains.length === 0)
    throw invalid("Name at least one domain, like acme.example.", "/access/email_domains");
  if (wanted.mode === "groups" && (wanted.groups ?? []).length === 0)
    throw invalid("Name at least one group of the identity provider.", "/access/groups");
  for (const [at, network] of (wanted.open_networks ?? []).entries()) {
    try {
      addressList([network]);
    } catch (error) {
      throw invalid(`${messageOf(error)}; write 192.0.2.17 or 192.0.2.0/24.`, `/access/open_networks/${at}`);
    }
  }
  const groups = [...new Set(wanted.groups)];
  return completeAccess({ ...wanted, email_domains: [...new Set(domains)], groups });
}

const domainAt = (at: number): string => `/access/email_domains/${at}`;

/** What is stored of the access of a page. */
export type StoredAccess = Pick<StatusPageRow, "access" | "access_password" | "access_revision">;

/** The access that an input asks for, with the hash of its password. It takes 0.25 s, so no transaction is open. */
export interface NewAccess {
  readonly access: Access;
  /** Null: the present password stays. */
  readonly hash: string | null;
}

/** Checks an input and hashes its password. Throws INVALID_BODY and RATE_LIMITED. */
export async function newAccess(
  ctx: Ctx,
  input: AccessInput | undefined,
  before: AccessMode | null = null,
): Promise<NewAccess | null> {
  if (input === undefined) return null;
  const access = accessRules(input, ctx.config, before);
  const { password } = input;
  const hash =
    password === undefined ? null : await withPlace(`user ${ctx.userId}`, true, () => hashPassword(ctx, password));
  return { access, hash };
}

/** The access after a change; null changes nothing. Throws INVALID_BODY for a password that is missing. */
export function changedAccess(before: StoredAccess, change: NewAccess | null): StoredAccess {
  if (change === null) {
    // The fields alone: `before` may be a whole row.
    const { access, access_password, access_revision } = before;
    return { access, access_password, access_revision };
  }
  const { access, hash } = change;
  const kept = access.mode === "password" ? (hash ?? before.access_password) : null;
  if (access.mode === "password" && kept === null)
    throw invalid("Set the password that visitors enter.", "/access/password");
  const isNew = access.mode !== before.access.mode || kept !== before.access_password;
  return { access, access_password: kept, access_revision: before.access_revision + (isNew ? 1 : 0) };
}

export const isPrivate = ({ access }: Pick<StatusPageRow, "access">): boolean => access.mode !== "public";

/** Whether this is the password of the page. It takes 0.25 s. */
export const isPasswordOf = async (
  system: System,
  { access_password: hash }: Pick<StatusPageRow, "access_password">,
  password: string,
): Promise<boolean> => (await verifyPassword(system, password, hash)).matches;

/**
 * The last password that was compared with a hash, so that a plan which is repeated derives no key. It is a keyed
 * digest that ends with the process: a stored one would be faster to guess than scrypt.
 */
const compared = new LRUCache<string, { digest: string; matches: boolean }>(atMost(10_000));
const processKey = randomBytes(32);

/**
 * Comparisons by hash that a user starts within a minute: a quarter of a thread. The comparisons so far are kept, so a
 * plan that is repeated after the refusal goes on from there.
 */
const comparedPerMinute = 60;
const comparisons = new WeakMap<Config, Counter>();

/** The ids of those pages whose stored password is the given one. Throws RATE_LIMITED. */
export async function pagesWithPasswords(
  ctx: Ctx,
  pages: readonly { page: Pick<StatusPageRow, "id" | "access_password"> | null; password: unknown }[],
): Promise<ReadonlySet<string>> {
  const same = new Set<string>();
  for (const { page, password } of pages) {
    if (page === null || page.access_password === null) continue;
    if (typeof password !== "string" || password.length > maxTyped) continue;
    const digest = createHmac("sha256", processKey).update(password).digest("base64url");
    let last = compared.get(page.access_password);
    if (last?.digest !== digest) {
      const counter = getOrMake(comparisons, ctx.config, () => openCounter(null, ctx.clock));
      refuseOver(comparedPerMinute, await counter.add(ctx.userId), "per_user_page_passwords");
      // Behind sign-ins: each comparison counts.
      last = { digest, matches: await withPlace(`plan ${ctx.userId}`, false, () => isPasswordOf(ctx, page, password)) };
      compared.set(page.access_password, last);
    }
    if (last.matches) same.add(page.id);
  }
  return same;
}

const invalid = (message: string, field: string) => new AppError("INVALID_BODY", message, { field });
