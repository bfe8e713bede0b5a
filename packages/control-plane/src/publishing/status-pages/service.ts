import { AppError } from "@statusmesh/shared/errors";
import { urlProblem } from "@statusmesh/shared/url";
import { newId } from "@statusmesh/shared/ids";
import { differences, record } from "../../access/audit/service.ts";
import {
  type Ctx,
  inTransaction,
  type OrgReader,
  requireOwner,
  requireScope,
  type System,
} from "../../platform/context.ts";
import { hostUrl, pageUrl, reservedSlugs } from "../../platform/http/page-host.ts";
import { type ManagedChange, writeManaged } from "../../platform/db/managed-queries.ts";
import { type Paging, unlessTaken } from "../../platform/db/client/sql.ts";
import { iso, managedBy, type Page } from "../../platform/http/wire.ts";
import { checkedZone } from "../../platform/zoned.ts";
import { takeOne } from "../../access/plans/service.ts";
import { changedAccess, completeAccess, isPrivate, newAccess } from "./access/access.ts";
import { readdressLogos } from "./logos/queries.ts";
import { domainOf, setDomain } from "./domains/domains.ts";
import { checkedCss, checkedCssInTurns, cssHash } from "./own-css.ts";
import { findPage, lockedPage } from "./find.ts";
import { logoUrl } from "./logos/logos.ts";
import { changedPublish, firstPublish } from "./publish.ts";
import { keepUnpublished } from "./publish-queries.ts";
import { deleteReaderTokensOf } from "./access/reader-token-queries.ts";
import * as componentQueries from "./components/queries.ts";
import * as queries from "./queries.ts";
import type { Branding, BrandingInput, StatusPage, StatusPageCreate, StatusPagePatch } from "./schema.ts";
import { type PageRow, servedPage, complete, branding } from "./visits/service.ts";

export { publishRules } from "./publish.ts";

/** The organisation's pages, oldest first. */
export async function listPages(ctx: Ctx, { limit, offset }: Paging): Promise<Page<StatusPage>> {
  requireScope(ctx, "status_page:read");
  const [rows, total] = await Promise.all([
    queries.selectPages(ctx.sql, ctx.orgId, limit, offset),
    queries.countPages(ctx.sql, ctx.orgId),
  ]);
  return { items: await present(ctx, rows), total, limit, offset };
}

/** The organisation's pages behind the page `after`, oldest first. `total` counts all of them. */
export async function pagesAfter(
  ctx: Ctx,
  { after, limit }: { after: string | null; limit: number },
): Promise<{ items: StatusPage[]; total: number }> {
  requireScope(ctx, "status_page:read");
  const [rows, total] = await Promise.all([
    queries.selectPagesAfter(ctx.sql, ctx.orgId, after, limit),
    queries.countPages(ctx.sql, ctx.orgId),
  ]);
  return { items: await present(ctx, rows), total };
}

/** The pages with every word in name or slug, and how many; `words` are in lower case. */
export async function searchPages(ctx: Ctx, words: readonly string[], limit: number) {
  requireScope(ctx, "status_page:read");
  const rows = await queries.searchPages(ctx.sql, ctx.orgId, words, limit);
  return { items: rows, total: rows[0]?.total ?? 0 };
}

/** Pages by name with the monitors of their components, and how many pages there are. Without a scope check. */
export async function reportedPages(
  { sql, orgId }: OrgReader,
  paging: Paging & { only: string | null },
): Promise<{ pages: queries.ReportedPageRow[]; total: number }> {
  const pages = await queries.selectReportedPages(sql, orgId, paging);
  return { pages, total: paging.only === null ? await queries.countPages(sql, orgId) : pages.length };
}

/** One page. STATUS_PAGE_NOT_FOUND for an absent or foreign id. */
export async function getPage(ctx: Ctx, id: string): Promise<StatusPage> {
  requireScope(ctx, "status_page:read");
  return presentOne(ctx, await findPage(ctx, id));
}

/** Creates a page. Throws SLUG_TAKEN, and QUOTA_EXCEEDED at the plan's limit. */
export async function createPage(ctx: Ctx, input: StatusPageCreate, id = newId()): Promise<StatusPage> {
  requireOwner(ctx, "status_page:write");
  const now = new Date(ctx.clock.now());
  refuseReserved(input.slug);
  const noAccess = { access: completeAccess(undefined), access_password: null, access_revision: 0 };
  const row: queries.StatusPageRow = {
    id,
    org_id: ctx.orgId,
    slug: input.slug,
    name: input.name,
    enabled: input.enabled ?? true,
    subscriptions_enabled: input.subscriptions_enabled ?? true,
    embed_origins: input.embed_origins ?? [],
    custom_css: await checkedCssInTurns(input.custom_css),
    css_hash: null,
    branding: checkedBranding(input.branding),
    ...changedAccess(noAccess, await newAccess(ctx, input.access)),
    // Of a new page.
    access_revision: 0,
    private_since: null,
    ...firstPublish(input.publish),
    reader_tokens: [],
    logo_hash: null,
    logo_dark_hash: null,
    logo_size: null,
    logo_dark_size: null,
    custom_domain: null,
    revision: "0",
    created_at: now,
    updated_at: now,
    managed: null,
  };
  if (isPrivate(row)) row.private_since = now;
  return await inTransaction(ctx, async (tx) => {
    await takeOne(tx, "max_status_pages", () => queries.countPages(tx.sql, ctx.orgId));
    if (!(await queries.insertPage(tx.sql, row))) throw slugTaken(row.slug);
    await queries.notifyPages(tx.sql, row.id);
    await record(tx, { resourceId: row.id, after: auditable(row) });
    return await presentOne(tx, row);
  });
}

/**
 * Changes the given fields; `branding` is replaced as a whole. A new slug is effective at once, and the old one is
 * free.
 */
export async function updatePage(ctx: Ctx, id: string, patch: StatusPagePatch): Promise<StatusPage> {
  requireOwner(ctx, "status_page:write");
  if (patch.slug !== undefined) refuseReserved(patch.slug);
  const mode = patch.access === undefined ? null : (await findPage(ctx, id)).access.mode;
  const access = await newAccess(ctx, patch.access, mode);
  const css = patch.custom_css === undefined ? undefined : await checkedCssInTurns(patch.custom_css);
  return await inTransaction(ctx, async (own) => {
    const before = await lockedPage(own, id);
    const after: queries.StatusPageRow = {
      ...before,
      slug: patch.slug ?? before.slug,
      name: patch.name ?? before.name,
      enabled: patch.enabled ?? before.enabled,
      subscriptions_enabled: patch.subscriptions_enabled ?? before.subscriptions_enabled,
      embed_origins: patch.embed_origins ?? before.embed_origins,
      custom_css: css === undefined ? before.custom_css : css,
      branding: patch.branding === undefined ? before.branding : checkedBranding(patch.branding),
      ...changedAccess(before, access),
      ...changedPublish(before, patch.publish, new Date(ctx.clock.now())),
      updated_at: new Date(ctx.clock.now()),
    };
    after.private_since = isPrivate(after) ? (before.private_since ?? after.updated_at) : null;
    if (patch.custom_domain !== undefined) await setDomain(own, id, patch.custom_domain);
    await unlessTaken(queries.updatePage(own.sql, after), (cause) => slugTaken(after.slug, cause));
    const { mode: publishing } = after.publish;
    if (before.publish_since !== null && publishing !== before.publish.mode && publishing !== "manual")
      await keepUnpublished(own.sql, ctx.orgId, id, before.publish_since);
    if (after.access.mode !== before.access.mode) await deleteReaderTokensOf(own.sql, ctx.orgId, id);
    if (isPrivate(after) && !isPrivate(before)) await readdressLogos(own.sql, ctx.orgId, id);
    const stored = await findPage(own, id);
    await record(own, { resourceId: id, ...differences({ before: auditable(before), after: auditable(stored) }) });
    return await presentOne(own, stored);
  });
}

/** Deletes a page; its monitors stay. */
export async function deletePage(ctx: Ctx, id: string): Promise<void> {
  requireOwner(ctx, "status_page:write");
  await inTransaction(ctx, async (own) => {
    const before = await lockedPage(own, id);
    await queries.deletePage(own.sql, ctx.orgId, id);
    await record(own, { resourceId: id, before: auditable(before) });
  });
}

/** A stored page with its components, for configuration as code, which compares it with what its files declare. */
export interface StoredPage extends queries.StatusPageRow {
  readonly components: readonly componentQueries.ComponentRow[];
}

/** Every page of the organisation, oldest first. */
export async function storedPages(ctx: Ctx): Promise<StoredPage[]> {
  requireScope(ctx, "status_page:read");
  const rows = await queries.selectPages(ctx.sql, ctx.orgId, 1_000_000, 0);
  const components = new Map<string, componentQueries.ComponentRow[]>(rows.map(({ id }) => [id, []]));
  for (const { page_id: id, ...component } of await componentQueries.selectAllComponents(ctx.sql, ctx.orgId))
    components.get(id)?.push(component);
  return rows.map((row) => ({ ...complete(row)!, components: components.get(row.id)! }));
}

/** The branding that an input asks for. Throws what {@link createPage} throws for slug, style sheet and branding. */
export function pageRules({ slug, branding: input, custom_css: css }: StatusPageCreate): Branding {
  refuseReserved(slug);
  checkedCss(css);
  return checkedBranding(input);
}

/** The slugs among these that pages of other organisations have. */
export async function slugsElsewhere(ctx: Ctx, slugs: readonly string[]): Promise<Set<string>> {
  requireScope(ctx, "status_page:read");
  return new Set(slugs.length === 0 ? [] : await queries.selectSlugsElsewhere(ctx.sql, ctx.orgId, slugs));
}

/**
 * Locks a page until the transaction ends and has every replica drop what it has of it. Without a scope check: the
 * caller changes what the page shows, not the page.
 */
export async function keepPage(tx: Ctx, id: string): Promise<void> {
  await lockedPage(tx, id);
}

/** Locks pages and their components against other edits until the transaction ends. */
export async function keepPages(tx: Ctx, ids: readonly string[]): Promise<void> {
  requireScope(tx, "status_page:write");
  for (const id of [...ids].sort()) await lockedPage(tx, id);
}

/** Writes who declares pages. */
export async function managePages(tx: Ctx, changes: readonly ManagedChange[]): Promise<void> {
  requireScope(tx, "status_page:write");
  await writeManaged(tx.sql, "status_pages", tx.orgId, changes);
}
export { notifyPages, pagesChannel } from "./queries.ts";

/** The published page with a slug; null for none. */
export const pageOfSlug = async ({ sql }: System, slug: string): Promise<PageRow | null> =>
  complete(await queries.selectPublishedPage(sql, { slug }));

/** Path of a page on the console's host. */
const pathOf = (slug: string): string => `/status/${slug}`;

/** Address of a page that stays when other pages come and go: links in mails begin with it. */
export const pageBase = ({ config }: System, slug: string): string =>
  config.tenancy.subdomain_public_routes
    ? `${pageUrl(slug, config)}/status`
    : `${config.server.public_url}${pathOf(slug)}`;

/** The address of a page is /status/{slug}. */
function refuseReserved(slug: string): void {
  if (reservedSlugs.has(slug))
    throw new AppError("INVALID_SLUG", `The slug ${slug} is reserved. Choose a different one.`, { field: "/slug" });
}

const slugTaken = (slug: string, cause?: unknown) =>
  new AppError("SLUG_TAKEN", `The slug ${slug} belongs to another status page. Choose a different one.`, {
    field: "/slug",
    cause,
  });

const auditable = (row: queries.StatusPageRow) => ({
  slug: row.slug,
  name: row.name,
  enabled: row.enabled,
  subscriptions_enabled: row.subscriptions_enabled,
  embed_origins: row.embed_origins,
  // The audit log is no archive of style sheets.
  custom_css: cssHash(row.custom_css),
  custom_domain: row.custom_domain,
  branding: branding(row.branding),
  access: { ...completeAccess(row.access), revision: row.access_revision },
  publish: row.publish,
});

/** The branding for the database. A pattern cannot detect every address that browsers refuse. */
function checkedBranding(input: BrandingInput | undefined): Branding {
  const checked = branding(input);
  const problem = checked.website_url === null ? null : urlProblem(checked.website_url);
  if (problem !== null) throw new AppError("INVALID_BODY", problem, { field: "/branding/website_url" });
  if ((checked.language === "auto") !== (checked.languages !== null))
    throw new AppError(
      "INVALID_BODY",
      checked.language === "auto"
        ? "A page in the language of its visitors needs 2 or more languages."
        : "Only a page whose language is auto has languages: set language to auto, or languages to null.",
      { field: "/branding/languages" },
    );
  return { ...checked, timezone: checkedZone(checked.timezone, "/branding/timezone") };
}

/** Public URL of a published page: its proved domain, its own host, else /status or a path below it. Null for none. */
function urlOf(
  { config }: System,
  row: queries.StatusPageRow,
  isProved: boolean,
  atPath: string | null,
): string | null {
  if (!row.enabled) return null;
  if (row.custom_domain !== null && isProved) return hostUrl(row.custom_domain, config);
  if (config.tenancy.subdomain_public_routes) return pageUrl(row.slug, config);
  if (!config.tenancy.path_based_public_routes) return null;
  return `${config.server.public_url}${row.id === atPath ? "/status" : pathOf(row.slug)}`;
}

async function present(ctx: Ctx, rows: readonly queries.StatusPageRow[]): Promise<StatusPage[]> {
  const atPath = (await servedPage(ctx))?.id ?? null;
  return await Promise.all(
    rows.map(async (row) => {
      const proof = row.custom_domain === null ? null : await domainOf(ctx, row.id);
      return {
        id: row.id,
        slug: row.slug,
        name: row.name,
        enabled: row.enabled,
        subscriptions_enabled: row.subscriptions_enabled,
        embed_origins: row.embed_origins,
        custom_css: row.custom_css,
        branding: branding(row.branding),
        access: completeAccess(row.access),
        publish: row.publish,
        status_url: urlOf(ctx, row, proof?.verified === true, atPath),
        logo_url: logoUrl(ctx, row.logo_hash),
        logo_dark_url: logoUrl(ctx, row.logo_dark_hash),
        custom_domain: row.custom_domain,
        custom_domain_proof: proof,
        managed_by: managedBy(row.managed),
        created_at: iso(row.created_at),
        updated_at: iso(row.updated_at),
      };
    }),
  );
}

async function presentOne(ctx: Ctx, row: queries.StatusPageRow): Promise<StatusPage> {
  const [page] = await present(ctx, [row]);
  return page!;
}
