import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { dayMs } from "@statusmesh/shared/time";
import { getOrMake } from "../../platform/caches.ts";
import type { Ctx, PageVisit, Visit } from "../../platform/context.ts";
import { page, type PageCall } from "../../platform/html/pages.ts";
import { gateHeaders } from "../../platform/http/page-host.ts";
import { mapInTurns } from "../../platform/process/turns.ts";
import { type PageRow, pageToPreview, visitedPage } from "../status-pages/visits/service.ts";
import type { Language } from "../languages/schema.ts";
import { askedLanguage, preferredLanguage, type Texts, textsOf } from "../languages/service.ts";
import { recentDays } from "../entries/service.ts";
import type { ServedStatus } from "./page/compute.ts";
import { type AccessProblem, accessProblems } from "./access/paths.ts";
import { type Entry, mostSevere } from "./page/entries.ts";
import { admitted, refusedPage } from "./access/gate.ts";
import { embedded, frameHeaders } from "./embed.ts";
import { listedUpdates } from "./queries.ts";
import { markdownHtml } from "../../platform/html/markdown.ts";
import { componentsOf, publicEntry, servedStatus, statusOf } from "./service.ts";
import { responseTimes } from "./response-times.ts";
import { type ComponentState, worst } from "./page/states.ts";
import { inLanguage } from "./page/translated.ts";
import { affectedSentence, affectedSince, calmSentence, type PageWords, wordsOf, workingLine } from "./words.ts";

/**
 * Declares a page of a status page. A visitor without access to a private one gets the form; where there is nothing to
 * show, a page of one sentence. `served` reads what the page shows, in the language of the visitor.
 */
export const visitorPage = <
  const R extends { view: string; fragment?: string; data: object; shared?: object; headers?: Record<string, string> },
>(
  path: string,
  handle: (call: PageCall<"page"> & Spoken & { served(): Promise<ServedStatus> }) => Promise<R>,
) =>
  page(path, "public", async (call) => {
    const { ctx, http } = call;
    let visit: PageVisit | null = null;
    let spoken = english;
    try {
      visit = await admitted(ctx, http);
      const own = visit;
      spoken = spokenIn(visitedPage(visit), call);
      const { language } = spoken;
      const served = async () => inLanguage(await servedStatus(own), language);
      const reply = await handle({ ...call, ...spoken, ctx: visit, served });
      const { "Cache-Control": forReaders, ...gate } = gateHeaders(http);
      // A page that no cache keeps stays so.
      const cache = forReaders !== undefined && reply.headers?.["Cache-Control"] !== undefined;
      const headers = { ...reply.headers, ...gate, ...(cache ? { "Cache-Control": forReaders } : {}) };
      return { ...reply, headers };
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      const refused = error.code === "PAGE_ACCESS" ? refusedPage(http) : undefined;
      if (refused !== undefined) return accessForm(refused, call, linksOf(ctx).base);
      if (error.status >= 500)
        ctx.log.error({ code: error.code, err: String(error.cause ?? error) }, "the status page could not be shown");
      const retry: Record<string, string> =
        error.retryAfterSecs === null ? {} : { "Retry-After": String(error.retryAfterSecs) };
      // The frame of the page where it can be shown.
      const { language } = spoken;
      const served = visit === null ? null : await servedStatus(visit).catch(() => null);
      return {
        view: "public/notice" as const,
        status: error.status,
        data: {
          ...(served === null ? blankFrame : frameOf(inLanguage(served, language), ctx, spoken.lang)),
          ...notice(error, language),
        },
        headers: retry,
      };
    }
  });

/** The language of a reply, and the part of its links that keeps one that the visitor has chosen: `?lang=de`. */
interface Spoken {
  language: Language;
  lang: string;
}

const english: Spoken = { language: "en", lang: "" };

/** Finds the language of the visitor of a page, and says what the reply varies by. */
function spokenIn({ branding }: PageRow, { http, query }: Pick<PageCall<"page">, "http" | "query">): Spoken {
  if (branding.language === "auto") http.vary("Accept-Language");
  const asked = askedLanguage(branding, query["lang"]);
  return asked === null
    ? { language: preferredLanguage(branding, http), lang: "" }
    : { language: asked, lang: `?lang=${asked}` };
}

/** The form for access to a private page. It shows nothing of the page but its title for strangers and its language. */
function accessForm(page: PageRow, call: Pick<PageCall<"page">, "http" | "query">, base: string) {
  const { access } = page;
  const { http } = call;
  const { language } = spokenIn(page, call);
  const texts = textsOf(language).access;
  const words = wordsOf({ language, timezone: "UTC" });
  const problem = accessProblems.find((one) => one === call.query["problem"]) ?? null;
  return {
    view: "public/access" as const,
    status: 401,
    data: {
      ...blankFrame,
      words,
      base,
      texts,
      heading: access.title ?? texts.heading,
      next: pathOf(http),
      mode: access.mode,
      sent: access.mode === "email_domains" && call.query["sent"] === "1",
      email: textsOf(language).subscription.email,
      problem: problem === null ? null : problemText(textsOf(language), problem, access.mode),
      again: problem === "denied",
    },
    headers: { "WWW-Authenticate": "Bearer", "X-Robots-Tag": "noindex" } as Record<string, string>,
  };
}

const problemText = ({ access, subscription }: Texts, problem: AccessProblem, mode: string): string =>
  problem === "limit" && mode === "email_domains" ? subscription.limit : access[problem];

/** The requested path with its query, to come back to. */
function pathOf(http: Context): string {
  const { pathname, searchParams } = new URL(http.originalUrl, "http://page.invalid");
  for (const own of ["problem", "sent", "fragment"]) searchParams.delete(own);
  return searchParams.size === 0 ? pathname : `${pathname}?${searchParams}`;
}

const cacheControl = "public, max-age=10, stale-while-revalidate=30";
/** Incidents above the components: with more of them, visitors would have to scroll past them to the components. */
const shownIncidents = 3;
/** Past incidents of the page itself: those of a week, at most so many; the history has the others. */
const [weekDays, shownPast] = [7, 10];
/** An affected group with more components than this shows the affected ones and folds the others. */
const wholeGroup = 3;
/** Past incidents of the history: 200 are drawn in less than 50 ms. */
const historyPast = 200;

/** Public pages. */
export const publicPages = [
  visitorPage("/status", async ({ ctx, served: read, lang }) => {
    const served = await read();
    return {
      view: "public/status",
      fragment: "public/status-fragment",
      data: await statusData(served, ctx, lang),
      shared: sharedAt(served, ctx, lang),
      headers: cached(served),
    };
  }),
  visitorPage("/status/incidents", async ({ ctx, served: read, lang }) => {
    const served = await read();
    const history = getOrMake(histories, served, () => historyData(served));
    return {
      view: "public/history",
      data: { ...frameOf(served, ctx, lang), ...history },
      shared: sharedAt(history, ctx, lang),
      headers: cached(served),
    };
  }),
  visitorPage("/status/incidents/{id}", async ({ ctx, params, query, served: read, language, lang }) => {
    const served = await read();
    const all = query["updates"] === "all";
    const whole = await publicEntry(ctx, params["id"] ?? "", language, all);
    const cut = !all && whole.updates.length > listedUpdates;
    const entry = cut ? { ...whole, updates: whole.updates.slice(0, listedUpdates) } : whole;
    return {
      view: "public/incident",
      data: { ...frameOf(served, ctx, lang), entry },
      shared: sharedAt(entry, ctx, lang),
      headers: cached(served),
    };
  }),
  visitorPage("/status/components/{id}", async ({ ctx, params, served: read, lang }) => {
    const served = await read();
    const component = componentsOf(served.status).find((one) => one.id === params["id"]);
    if (component === undefined || !served.monitor(component.id).show.latency)
      throw new AppError("COMPONENT_NOT_FOUND", "Component not found on this page.");
    return {
      view: "public/component",
      data: {
        ...frameOf(served, ctx, lang),
        component,
        reported: served.reported,
        shows: served.monitor(component.id).show,
        ranges: await responseTimes(ctx, served, component.id),
      },
      shared: sharedAt(component, ctx, lang),
      headers: cached(served),
    };
  }),
  visitorPage("/status/embed", async ({ ctx, served: read, lang }) => {
    const served = await read();
    const { base } = linksOf(ctx);
    return {
      view: "public/embed",
      data: embedded(served, base + lang),
      shared: sharedAt(served, ctx, lang),
      headers: { ...cached(served), ...frameHeaders(visitedPage(ctx)) },
    };
  }),
  page("/status-pages/{id}/preview", "tenant", async ({ ctx, params, query }) => {
    const own = await pageToPreview(ctx, params["id"] ?? "");
    const computed = await statusOf(ctx, own);
    const served = inLanguage(computed, askedLanguage(own.branding, query["lang"]) ?? computed.language);
    return {
      view: "public/status" as const,
      fragment: "public/status-fragment" as const,
      data: {
        ...(await statusData(served, { ...ctx, pagePath: `/status/${own.slug}` })),
        live: `${ctx.config.server.public_url}/status-pages/${served.pageId}/preview`,
      },
      headers: framedByUs,
    };
  }),
];

/** The builder shows the preview in a frame of its own origin. */
const framedByUs = {
  "X-Frame-Options": "SAMEORIGIN",
  "Content-Security-Policy":
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; " +
    "frame-ancestors 'self'",
};

const cached = ({ branding }: ServedStatus): Record<string, string> => ({
  "Cache-Control": cacheControl,
  ...(branding.hide_from_search ? { "X-Robots-Tag": "noindex" } : {}),
});

/** Heading and sentence of an error page. */
function notice(error: AppError, language: Language) {
  const texts = textsOf(language).page;
  if (error.code === "INCIDENT_NOT_FOUND") return texts.missingIncident;
  if (error.code === "COMPONENT_NOT_FOUND") return texts.missingComponent;
  return error.status === 404 ? texts.missingPage : texts.unavailable;
}

/** Layout data of a page without a publisher. */
export const blankFrame = {
  base: "/status",
  lang: "",
  languages: [],
  data: "/api/public/v1",
  css: null,
  pageName: "Status",
  about: null,
  branding: null,
  // Not at the start: formats of dates take 30 ms to make.
  get words() {
    return wordsOf({ language: "en", timezone: "UTC" });
  },
};

/** Path of the page on the requested host, and of its public JSON. */
function linksOf(visit: Visit | Ctx) {
  const path = "pagePath" in visit ? visit.pagePath : undefined;
  return { base: path ?? "/status", data: `${path ?? ""}/api/public/v1` };
}

const byBase = new WeakMap<object, Map<string, object>>();

/** What renderings of a page are kept for: they differ by the path of the page and the language in their links. */
function sharedAt(content: object, { pagePath = "" }: Visit, lang: string): object {
  const base = pagePath + lang;
  if (base === "") return content;
  const bases = getOrMake(byBase, content, () => new Map<string, object>());
  return getOrMake(bases, base, () => ({}));
}

/** Layout data of every page: an allow-list of the branding. */
export const frameOf = (served: ServedStatus, visit: Visit | Ctx, lang = "") => frameAt(served, linksOf(visit), lang);

/** {@link frameOf} with the path of the page and of its data. */
export function frameAt(served: ServedStatus, links: ReturnType<typeof linksOf>, lang = "") {
  const { status, branding, language, subscribe } = served;
  const logo = imageOf(served.logo, served.logoSize);
  const logoDark = imageOf(served.logoDark, served.logoDarkSize);
  return {
    ...links,
    lang,
    languages: (branding.languages ?? []).map((one) => ({ tag: one, name: textsOf(one).name })),
    css: served.css,
    pageName: status.page.name,
    about: status.page.about === null ? null : markdownHtml(status.page.about),
    branding: {
      color: branding.brand_color,
      style: branding.style,
      poweredBy: branding.show_powered_by,
      website:
        branding.website_url === null ? null : { url: branding.website_url, host: new URL(branding.website_url).host },
      hidden: branding.hide_from_search,
      // The theme that the page fixes decides now, else that of the visitor.
      logo: branding.style === "dark" ? (logoDark ?? logo) : logo,
      logoDark: branding.style === "auto" && logo !== null ? logoDark : null,
      subscribe,
    },
    words: wordsOf({ language, timezone: branding.timezone }),
  };
}

/** An image with its size, so that the page does not move when it arrives. */
function imageOf(src: string | null, size: string | null) {
  if (src === null || size === null) return null;
  const [width, height] = size.split("x");
  return { src, width: Number(width), height: Number(height) };
}

const isFine = (state: ComponentState): boolean => state === "operational" || state === "no_data";

/**
 * Entries by day, newest first: open ones today, ended ones on the day that they began. Today and yesterday are listed
 * without one too, unless an entry of another day lasted into them. Without `listOpen` open ones are not listed.
 */
function pastDays(entries: readonly Entry[], now: number, words: PageWords, { listOpen }: { listOpen: boolean }) {
  const days = new Map<string, { name: string; entries: Entry[] }>();
  for (const at of [now, now - dayMs]) {
    const key = words.dayOf(at);
    const lasted = entries.some(
      ({ started_at, ended_at }) =>
        words.dayOf(started_at) < key && (ended_at === null || words.dayOf(ended_at) >= key),
    );
    const isListed = at === now ? listOpen || !entries.some(isOpen) : !lasted;
    if (isListed) days.set(key, { name: words.dayName(at, now), entries: [] });
  }
  for (const entry of entries) {
    if (isOpen(entry) && !listOpen) continue;
    const at = entry.state === "open" ? now : entry.started_at;
    getOrMake(days, words.dayOf(at), () => ({ name: words.dayName(at, now), entries: [] })).entries.push(entry);
  }
  return [...days].toSorted(([a], [b]) => (a < b ? 1 : -1)).map(([, day]) => day);
}

const isOpen = ({ state }: Entry): boolean => state === "open";

/** Open entries and up to `most` others that `matches` accepts, and how many there are beside them. */
function pastOf(entries: readonly Entry[], most: number, matches: (entry: Entry) => boolean = () => true) {
  const ended = entries.filter((one) => !isOpen(one));
  const listed = ended.filter(matches).slice(0, most);
  return { listed: [...entries.filter(isOpen), ...listed], more: ended.length - listed.length };
}

const histories = new WeakMap<ServedStatus, ReturnType<typeof historyData>>();

/** The data of the list of past incidents. */
export function historyData(
  { status, entries, branding, language }: ServedStatus,
  words = wordsOf({ language, timezone: branding.timezone }),
) {
  const { listed, more } = pastOf(entries, historyPast);
  return { recentDays, days: pastDays(listed, Date.parse(status.generated_at), words, { listOpen: true }), more };
}

const datas = new WeakMap<ServedStatus, ReturnType<typeof computeData>>();

/** The data of the page's view, made once per computation. Strips are drawn in slices: 1,000 of them take long. */
async function statusData(served: ServedStatus, visit: Visit | Ctx, lang = "") {
  let data = datas.get(served);
  if (data === undefined) {
    data = computeData(served);
    const { words } = data;
    await mapInTurns(componentsOf(served.status), (component) => words.strip(component));
    datas.set(served, data);
  }
  const frame = frameOf(served, visit, lang);
  return { ...data, ...frame, live: frame.base + lang };
}

/** The data of the page itself. */
export function computeData(
  served: ServedStatus,
  words: PageWords = wordsOf({ language: served.language, timezone: served.branding.timezone }),
) {
  const { status, entries, checkedAt } = served;
  const components = componentsOf(status);
  const groups = status.groups.map((group) => {
    const state = worst(group.components.map((component) => component.status));
    const open = !isFine(state);
    const folds = open && group.name !== null && group.components.length > wholeGroup;
    const folded = folds ? group.components.filter(({ status: one }) => isFine(one)) : [];
    const shown = folds ? group.components.filter(({ status: one }) => !isFine(one)) : group.components;
    const rest = workingLine(folded, words);
    return { ...group, state, line: words.groupLine(group.components), open, shown, folded, rest };
  });
  const now = Date.parse(status.generated_at);
  const { listed, more } = pastOf(entries, shownPast, (one) => Date.parse(one.started_at) >= now - weekDays * dayMs);
  // Entries without a word of the operators say no more than the states of their components.
  const active = entries.filter(isOpen);
  const lead = mostSevere(entries);
  const narrated = active.filter((entry) => entry.updates.length > 0 || entry.description !== null);
  // The banner has the title of the most severe one, so it is the first below.
  const shown = (narrated.length > 0 ? narrated : active)
    .toSorted((a, b) => Number(b === lead) - Number(a === lead))
    .slice(0, shownIncidents);
  return {
    words,
    status,
    lead,
    shown: shown.map((entry) => ({ ...entry, updates: entry.updates.slice(0, listedUpdates) })),
    others: active.filter((entry) => !shown.includes(entry)),
    checkedAt,
    groups,
    empty: components.length === 0,
    reported: served.reported,
    shows: (id: string) => served.monitor(id).show,
    affected: affectedSentence(components, words),
    since: affectedSince(active),
    calm: calmSentence(status, components, words),
    days: pastDays(listed, now, words, { listOpen: false }),
    more,
  };
}
