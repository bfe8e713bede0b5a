import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { beginReaderSignIn, type Providers } from "../../../access/sign-in/service.ts";
import type { Visit } from "../../../platform/context.ts";
import { page, type PageCall } from "../../../platform/html/pages.ts";
import { hostUrl } from "../../../platform/http/page-host.ts";
import { secretAddress } from "../../../platform/http/reply/security-headers.ts";
import { preferredLanguage, textsOf } from "../../languages/service.ts";
import {
  bindBrowser,
  hostOf,
  isAtPageHost,
  isLink,
  mayRead,
  proofAtConsole,
  readerCode,
  redeemCode,
} from "../../page-access/service.ts";
import { isHostOf } from "../../status-pages/domains/service.ts";
import { type PageRow, pageToEnter } from "../../status-pages/visits/service.ts";
import { blankFrame } from "../pages.ts";
import { pathWithin, withProblem } from "./paths.ts";
import { pageAt } from "../service.ts";
import { wordsOf } from "../words.ts";

type Call = PageCall<"public">;

const isForPeople = ({ access: { mode } }: PageRow): boolean => mode === "members" || mode === "groups";

/** Frame and texts of a page that shows nothing of its status page but its title and its language. */
function strangerFrame(own: PageRow, http: Context, base: string) {
  const language = preferredLanguage(own.branding, http);
  const texts = textsOf(language).access;
  return {
    ...blankFrame,
    words: wordsOf({ language, timezone: "UTC" }),
    base,
    texts,
    heading: own.access.title ?? texts.heading,
  };
}

/**
 * `/status/enter`, for members and people with groups. At a page's own host it binds the browser and leads to the
 * console's host; there the person proves who they are, and goes back with a one-time code.
 */
export const enterPages = (providers: Providers) => [
  page("/status/enter", "public", async ({ ctx, http, query }) => {
    const own = await pageToEnter(ctx);
    if (own === null) throw new AppError("STATUS_PAGE_NOT_FOUND", "No status page is published here.");
    const base = ctx.pagePath ?? "/status";
    if (http.method !== "GET" || !isForPeople(own)) return { redirect: base, headers: secretAddress };
    return isAtPageHost(http)
      ? await atPage(ctx, http, own, query)
      : await atConsole(ctx, http, own, { query, providers });
  }),
  // A GET consumes nothing, because scanners of mails open links.
  page("/status/access/{token}", "public", async ({ ctx, http, params }) => {
    const own = await pageAt(ctx);
    const base = ctx.pagePath ?? "/status";
    const token = params["token"]!;
    if (!(await isLink(ctx, own, token)))
      return { redirect: withProblem(base, own.access.mode === "email_domains" ? "expired" : null) };
    return {
      view: "public/access-link" as const,
      data: { ...strangerFrame(own, http, base), token },
      headers: secretAddress,
    };
  }),
];

async function atPage(ctx: Visit, http: Context, own: PageRow, query: Call["query"]) {
  const next = pathWithin("/status", query["next"] ?? null);
  const code = query["code"];
  if (code !== undefined) {
    const cookies = await redeemCode(ctx, http, own, code);
    if (cookies !== null) return { redirect: next, headers: { ...secretAddress, "Set-Cookie": cookies } };
    // The way back of a browser that has come in with this code already.
    const inside = await mayRead(ctx, http, own);
    return { redirect: inside ? next : withProblem(next, "expired"), headers: secretAddress };
  }
  const { cookie, browser } = bindBrowser(ctx);
  const sent = new URLSearchParams({ host: hostOf(http), browser, next });
  if (query["again"] === "1") sent.set("again", "1");
  return {
    redirect: `${ctx.config.server.public_url}/status/${own.slug}/enter?${sent}`,
    headers: { ...secretAddress, "Set-Cookie": cookie },
  };
}

async function atConsole(
  ctx: Visit,
  http: Context,
  own: PageRow,
  { query, providers }: Pick<Call, "query"> & { providers: Providers },
) {
  const { host, browser = "" } = query;
  const path = `/status/${own.slug}`;
  if (host !== undefined && !(await isHostOf(ctx, own, host)))
    throw new AppError("STATUS_PAGE_NOT_FOUND", "No status page is published here.");
  const next = pathWithin(host === undefined ? path : "/status", query["next"] ?? null);
  const origin = host === undefined ? "" : hostUrl(host, ctx.config);
  const refused = (problem: "denied" | "provider") => leadTo(ctx, http, own, `${origin}${withProblem(next, problem)}`);
  if (query["problem"] === "provider") return refused("provider");
  const proof = query["again"] === "1" ? null : await proofAtConsole(ctx, http, own);
  if (proof === "refused") return refused("denied");
  if (proof === null) {
    const here = `${path}/enter?${new URLSearchParams(host === undefined ? { next } : { host, browser, next })}`;
    if (own.access.mode === "groups") return (await beginReaderSignIn(ctx, providers, here)) ?? refused("provider");
    // Without sign-in nobody is a member.
    if (!ctx.config.auth.required) return refused("denied");
    return { redirect: `/sign-in?next=${encodeURIComponent(here)}`, headers: secretAddress };
  }
  if (host === undefined) return { redirect: next, headers: secretAddress };
  const code = await readerCode(ctx, own, { host, browser, proof });
  if (code === null) return refused("provider");
  return leadTo(ctx, http, own, `${origin}/status/enter?${new URLSearchParams({ code, next })}`);
}

/**
 * Leads from the console's host to the page's own. No redirect: browsers apply form-action to every hop after a form
 * (CSP 3, section 6.4.2), and the form of the sign-in page may have led here.
 */
function leadTo(ctx: Visit, http: Context, own: PageRow, url: string) {
  if (url.startsWith("/")) return { redirect: url, headers: secretAddress };
  return {
    view: "public/entering" as const,
    data: { ...strangerFrame(own, http, ctx.pagePath ?? "/status"), url },
    headers: { ...secretAddress, Refresh: `0; url=${url}` },
  };
}
