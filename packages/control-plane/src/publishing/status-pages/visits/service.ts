import { type Ctx, type PageVisit, requireScope, type System, type Visit } from "../../../platform/context.ts";
import { completeAccess } from "../access/access.ts";
import { findPage } from "../find.ts";
import * as componentQueries from "../components/queries.ts";
import * as queries from "../queries.ts";
import type { Branding, BrandingInput } from "../schema.ts";

const defaultBranding: Branding = {
  display_name: null,
  about: null,
  brand_color: null,
  style: "auto",
  show_powered_by: true,
  website_url: null,
  hide_from_search: false,
  timezone: "UTC",
  language: "en",
  languages: null,
};

/** A page with every field of the branding. */
export type PageRow = queries.StatusPageRow;

/** A page as it is kept for visitors: its style sheet is read when it is requested. */
const forVisitors = (row: queries.StatusPageRow | null): PageRow | null =>
  row === null ? null : { ...complete(row)!, custom_css: null };

/** The style sheet of the page; null without one. */
export const pageCss = async (visit: PageVisit): Promise<string | null> =>
  await queries.selectCss(visit.sql, visit.page.id);

/** The published page of the requested host or path, else of /status; null for none. Public, without scopes. */
export async function servedPage(system: Visit): Promise<PageRow | null> {
  const { sql, config, pageId: id, pageSlug: slug, pagePath } = system;
  if (id !== undefined) return forVisitors(await queries.selectPublishedPage(sql, { id }));
  if (slug === null) return null;
  const byPath = pagePath !== undefined || slug === undefined;
  if (byPath && !config.tenancy.path_based_public_routes) return null;
  return forVisitors(
    slug === undefined ? await queries.selectServedPage(sql) : await queries.selectPublishedPage(sql, { slug }),
  );
}

/** A page of any organisation, published or not; null for an absent one. Public, without scopes. */
export const pageWithId = async ({ sql }: System, id: string): Promise<PageRow | null> =>
  forVisitors(await queries.selectPageOfAny(sql, id));

/**
 * The published page of a request at the console's host or at its own, also where pages are not served below /status.
 * Null for none.
 */
export async function pageToEnter(system: Visit): Promise<PageRow | null> {
  const { sql, pageId: id, pageSlug: slug } = system;
  if (id !== undefined) return complete(await queries.selectPublishedPage(sql, { id }));
  return typeof slug === "string" ? complete(await queries.selectPublishedPage(sql, { slug })) : null;
}

/** The page that the gate has given access to. */
export const visitedPage = (visit: PageVisit): PageRow => visit.page as PageRow;

/** A page of the organisation, published or not. STATUS_PAGE_NOT_FOUND for an absent or foreign id. */
export async function pageToPreview(ctx: Ctx, id: string): Promise<PageRow> {
  requireScope(ctx, "status_page:read");
  return complete(await findPage(ctx, id))!;
}

/** Fields that the stored branding lacks take their default. */
export const complete = (row: queries.StatusPageRow | null): PageRow | null =>
  row === null ? null : { ...row, branding: branding(row.branding), access: completeAccess(row.access) };

/** Public components of a page, in order. */
export async function publicComponents(system: System, page: PageRow): Promise<componentQueries.PublicComponentRow[]> {
  return await componentQueries.selectPublicComponents(system.sql, page.org_id, page.id, new Date(system.clock.now()));
}

export const branding = (input: BrandingInput | undefined): Branding => ({ ...defaultBranding, ...input });
