import { Resolver } from "node:dns/promises";
import { isIP } from "node:net";
import { domainToASCII } from "node:url";
import { AppError } from "@statusmesh/shared/errors";
import { hourMs } from "@statusmesh/shared/time";
import { record } from "../../../access/audit/service.ts";
import { type Ctx, requireOwner, type System } from "../../../platform/context.ts";
import { newToken } from "../../../platform/crypto/token.ts";
import { pageOfName } from "../../../platform/http/page-host.ts";
import { isoOrNull } from "../../../platform/http/wire.ts";
import * as queries from "./queries.ts";
import { findPage } from "../find.ts";
import { notifyPages } from "../queries.ts";
import type { CustomDomain } from "../schema.ts";

/** A proved record may be away this long: zones are edited and servers fail. */
const graceMs = 72 * hourMs;
const verifiedEveryMs = 24 * hourMs;
const pendingEveryMs = hourMs / 6;
const checksPerRun = 50;

/** Host name of the TXT record that proves a domain, and its value. */
const recordOf = ({ domain, token }: Pick<queries.DomainRow, "domain" | "token">) => ({
  name: `_statusmesh.${domain}`,
  value: `statusmesh-verify=${token}`,
});

/** The custom domain of a page, as its operators see it; null for none. */
export async function domainOf(ctx: Ctx, pageId: string): Promise<CustomDomain | null> {
  const row = await queries.selectDomain(ctx.sql, ctx.orgId, pageId);
  if (row === null) return null;
  return {
    verified: row.verified_at !== null,
    record: { type: "TXT", ...recordOf(row) },
    checked_at: isoOrNull(row.checked_at),
    error: row.error,
  };
}

/** Gives a page a custom domain, or none. Throws INVALID_CUSTOM_DOMAIN and CUSTOM_DOMAIN_TAKEN. */
export async function setDomain(tx: Ctx, pageId: string, wanted: string | null): Promise<void> {
  if (wanted === null) return await queries.deleteDomain(tx.sql, tx.orgId, pageId);
  const domain = checkedDomain(tx, wanted);
  const before = await queries.selectDomain(tx.sql, tx.orgId, pageId);
  if (before?.domain === domain) return;
  if (await queries.isTaken(tx.sql, domain, pageId))
    throw new AppError("CUSTOM_DOMAIN_TAKEN", `${domain} belongs to another status page.`, { field: "/custom_domain" });
  const row = { page_id: pageId, org_id: tx.orgId, domain, token: newToken("") };
  await queries.storeDomain(tx.sql, row, new Date(tx.clock.now()));
}

/** The domain that an input asks for, as it is stored. Throws INVALID_CUSTOM_DOMAIN. */
export const domainRules = (ctx: Ctx, wanted: string | null): string | null =>
  wanted === null ? null : checkedDomain(ctx, wanted);

/** The name in lower case, as DNS has it. */
function checkedDomain({ config }: System, wanted: string): string {
  const domain = domainToASCII(wanted.replace(/\.$/, ""));
  const base = config.public_status.base_domain;
  const refuse = (message: string) => new AppError("INVALID_CUSTOM_DOMAIN", message, { field: "/custom_domain" });
  if (
    !/^(?=.{4,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$/.test(domain) ||
    isIP(domain)
  )
    throw refuse(`${wanted} is no domain. Use a host name like status.example.org.`);
  const own = [new URL(config.server.public_url).hostname, config.heartbeats.host];
  if (own.includes(domain) || (base !== "" && `.${domain}`.endsWith(`.${base}`)))
    throw refuse(`${domain} is a host of this service. Use a domain of your own.`);
  return domain;
}

/**
 * Looks at the TXT record of the page's domain now; a page without a custom domain stays as it is. Throws
 * STATUS_PAGE_NOT_FOUND.
 */
export async function checkDomain(ctx: Ctx, pageId: string): Promise<void> {
  requireOwner(ctx, "status_page:write");
  await findPage(ctx, pageId);
  const row = await queries.selectDomain(ctx.sql, ctx.orgId, pageId);
  if (row !== null) await check(ctx, row);
  const { verified = false, error = null } = (await domainOf(ctx, pageId)) ?? {};
  await record(ctx, { resourceId: pageId, after: { custom_domain: row?.domain ?? null, verified, error } });
}

/**
 * True for the host of a page: below `public_status.base_domain`, or its proved domain. `host` is in its one spelling.
 */
export async function isHostOf(
  { sql, config }: System,
  { id, slug }: { id: string; slug: string },
  host: string,
): Promise<boolean> {
  const page = pageOfName(host, config);
  return page === null ? await queries.isProved(sql, id, host) : "slug" in page && page.slug === slug;
}

/** Looks again at records: proved ones daily, the others every 10 min. Returns whether there was any. For the job. */
export async function recheckDomains(system: System): Promise<boolean> {
  const now = system.clock.now();
  const due = await queries.selectDue(
    system.sql,
    new Date(now - verifiedEveryMs),
    new Date(now - pendingEveryMs),
    checksPerRun,
  );
  for (const row of due) await check(system, row);
  return due.length > 0;
}

/** Every proved domain with the id of its page. */
export async function verifiedDomains(system: System): Promise<ReadonlyMap<string, string>> {
  return new Map((await queries.selectVerified(system.sql)).map(({ domain, page_id }) => [domain, page_id]));
}

export interface PublishedNames {
  readonly slugs: ReadonlySet<string>;
  /** Proved custom domains. */
  readonly domains: ReadonlySet<string>;
}

/** Names of all published pages. */
export async function publishedNames(system: System): Promise<PublishedNames> {
  const rows = await queries.selectPublishedNames(system.sql);
  return {
    slugs: new Set(rows.map(({ slug }) => slug)),
    domains: new Set(rows.flatMap(({ domain }) => domain ?? [])),
  };
}

async function check(system: System, row: queries.DomainRow): Promise<void> {
  const now = new Date(system.clock.now());
  const error = await problemOf(system, row);
  const kept = row.verified_at !== null && now.getTime() - row.verified_at.getTime() < graceMs ? row.verified_at : null;
  const checked = { ...row, checked_at: now, error, verified_at: error === null ? now : kept };
  try {
    await queries.storeCheck(system.sql, checked);
    if ((row.verified_at === null) !== (checked.verified_at === null)) await notifyPages(system.sql, row.page_id);
  } catch (cause) {
    // 23505, unique_violation: another page has proved the domain.
    if ((cause as { code?: unknown }).code !== "23505") throw cause;
    const taken = "The domain belongs to another status page.";
    await queries.storeCheck(system.sql, { ...checked, verified_at: null, error: taken });
  }
}

/** What is wrong with the record; null when it proves the domain. */
async function problemOf({ config }: System, row: queries.DomainRow): Promise<string | null> {
  const resolver = new Resolver({ timeout: 2000, tries: 2 });
  if (config.public_status.dns_resolver !== "") resolver.setServers([config.public_status.dns_resolver]);
  const { name, value } = recordOf(row);
  try {
    const records = (await resolver.resolveTxt(name)).map((parts) => parts.join(""));
    if (records.includes(value)) return null;
    return `The TXT record ${name} has another value.`;
  } catch (error) {
    const code = (error as { code?: string }).code ?? "";
    return code === "ENOTFOUND" || code === "ENODATA"
      ? `There is no TXT record at ${name}.`
      : `The name server did not answer for ${name}.`;
  }
}
