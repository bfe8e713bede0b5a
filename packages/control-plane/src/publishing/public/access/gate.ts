import type { Context } from "koa";
import type { PageVisit, System, Visit } from "../../../platform/context.ts";
import { setGateHeaders } from "../../../platform/http/page-host.ts";
import { mayRead, noAccess, readerHeaders } from "../../page-access/service.ts";
import { isPrivate } from "../../status-pages/access/service.ts";
import type { PageRow } from "../../status-pages/visits/service.ts";
import { pageAt } from "../service.ts";

/**
 * The gate in front of everything that a page shows, at every address: only it makes a {@link PageVisit}, which all
 * reads of a page take. Throws STATUS_PAGE_NOT_FOUND, STATUS_DATA_UNAVAILABLE, and PAGE_ACCESS for a visitor without
 * access to a private page.
 */
export async function admitted(visit: Visit, http: Context): Promise<PageVisit> {
  const page = await pageAt(visit);
  await requireAccess(visit, http, page);
  return { ...visit, page };
}

/** Throws PAGE_ACCESS unless the request may read the page, and sets the headers of replies to its readers. */
export async function requireAccess(system: System, http: Context, page: PageRow): Promise<void> {
  if (!isPrivate(page)) return;
  // Kept for the form.
  http.state["refusedPage"] = page;
  if (!(await mayRead(system, http, page))) throw noAccess();
  const Vary = page.branding.language === "auto" ? `${readerHeaders.Vary}, Accept-Language` : readerHeaders.Vary;
  setGateHeaders(http, { ...readerHeaders, Vary });
}

/** The private page that the request was refused at; undefined without one. */
export const refusedPage = (http: Context): PageRow | undefined => http.state["refusedPage"] as PageRow | undefined;
