import type { Context } from "koa";
import Type from "typebox";
import { languages } from "../languages/schema.ts";
import { askedLanguage, textsOf } from "../languages/service.ts";
import { type PageRow, visitedPage } from "../status-pages/visits/service.ts";
import type { PageVisit } from "../../platform/context.ts";
import type { ServedStatus } from "./page/compute.ts";
import { mostSevere } from "./page/entries.ts";
import type { ComponentState } from "./page/states.ts";
import { inLanguage } from "./page/translated.ts";

export const EmbedQuery = Type.Object({
  lang: Type.Optional(Type.Enum([...languages], { description: "One of the languages of an `auto` page" })),
});

/** Colours of the mark on light and on dark ground: 3:1 at least (WCAG 2.2, 1.4.11). */
const colors: Record<ComponentState, string> = {
  operational: "#1a9c66",
  degraded: "#b97800",
  partial_outage: "#d6562a",
  major_outage: "#d63b32",
  maintenance: "#3f7fdd",
  no_data: "#7d8794",
};

/** What an embedded mark shows: the most severe incident, else the banner. */
export function embedded(served: ServedStatus, url: string) {
  const { status, entries, language } = served;
  const { state, label } = status.overall;
  const { dir } = textsOf(language);
  return { text: mostSevere(entries)?.title ?? label, color: colors[state], url, lang: language as string, dir };
}

/**
 * The script of `embed.js`: a link with the state behind the element of the script. Its closed shadow root keeps the
 * styles of the web page out; a style sheet of the object model needs no exception in its content policy.
 */
export function embedScript(visit: PageVisit, served: ServedStatus, url: string, lang: string | undefined): string {
  const language = askedLanguage(visitedPage(visit).branding, lang) ?? served.language;
  const shown = JSON.stringify(embedded(inLanguage(served, language), url)).replaceAll("<", "\\u003c");
  return `(()=>{const s=${shown},at=document.currentScript;if(!at)return;const host=document.createElement("span");
at.after(host);const root=host.attachShadow({mode:"closed"}),sheet=new CSSStyleSheet();
sheet.replaceSync(":host{display:inline-block}a{display:inline-flex;gap:.5em;align-items:center;color:inherit;"
+"font:inherit;text-decoration:none}a:hover{text-decoration:underline}i{width:.65em;height:.65em;border-radius:50%;"
+"flex:none;background:"+s.color+"}");root.adoptedStyleSheets=[sheet];const a=document.createElement("a");
a.href=s.url;a.lang=s.lang;a.dir=s.dir;const text=document.createElement("bdi");text.textContent=s.text;
a.append(document.createElement("i"),text);root.append(a)})();
`;
}

/** Only the configured origins may show the frame. Browsers ignore X-Frame-Options where the policy says so (CSP 3). */
export const frameHeaders = ({ embed_origins: origins }: Pick<PageRow, "embed_origins">) => ({
  "Content-Security-Policy":
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; " +
    `frame-ancestors ${origins.length === 0 ? "'none'" : origins.join(" ")}`,
});

/** The reply of `embed.js` where a page is private: no script. */
export const noScript = { type: "text/javascript; charset=utf-8", body: "" };

export const isScript = (http: Context): boolean => http.state["mediaType"] === "text/javascript";
