import type { ServedStatus } from "./compute.ts";
import { markdownHtml } from "../../platform/html/markdown.ts";
import type { PublicIncident } from "./schema.ts";
import { stateInSentence, type Texts, textsOf } from "../languages/service.ts";

/** Minutes that a reader may keep the feed. */
const ttlMinutes = 5;

/**
 * The incidents of a page as RSS 2.0 (https://www.rssboard.org/rss-specification), open ones first. `pageUrl` is the
 * address of the page, without a slash at its end.
 */
export function incidentsFeed(served: ServedStatus, pageUrl: string): string {
  const { status, language, updatedAt } = served;
  const dateOf = ({ id, started_at }: PublicIncident): string => served.publishedAt(id)?.toISOString() ?? started_at;
  const { page, overall, active_incidents, recent_incidents } = status;
  const texts = textsOf(language);
  const incidents = [...active_incidents, ...recent_incidents];
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<rss version="2.0">',
    "<channel>",
    element("title", texts.page.statusOf(page.name)),
    element("link", pageUrl),
    element("description", overall.label),
    element("language", language),
    element("lastBuildDate", rfc822(lastChange(incidents, dateOf, updatedAt))),
    element("ttl", String(ttlMinutes)),
    ...incidents.map((incident) => itemOf(incident, dateOf(incident), pageUrl, texts)),
    "</channel>",
    "</rss>",
    "",
  ].join("\n");
}

/** Not the time of the computation: the feed keeps its bytes, and readers get 304, until something happens. */
function lastChange(
  incidents: readonly PublicIncident[],
  dateOf: (incident: PublicIncident) => string,
  updatedAt: Date,
): string {
  const times = incidents.flatMap((incident) => [
    dateOf(incident),
    incident.ended_at ?? incident.started_at,
    ...incident.updates.map((update) => update.created_at),
  ]);
  return times.reduce((last, time) => (time > last ? time : last), updatedAt.toISOString());
}

function itemOf(incident: PublicIncident, date: string, pageUrl: string, texts: Texts): string {
  const [latest] = incident.updates;
  return [
    "<item>",
    element("title", incident.state === "open" ? incident.title : `${texts.page.resolved}: ${incident.title}`),
    element("link", `${pageUrl}/incidents/${incident.id}`),
    `<guid isPermaLink="false">${incident.id}</guid>`,
    element("pubDate", rfc822(date)),
    element("description", descriptionOf(latest?.message ?? incident.description ?? summaryOf(incident, texts))),
    "</item>",
  ].join("\n");
}

/** HTML, as readers of feeds expect it; the text is Markdown. */
const descriptionOf = (text: string): string => markdownHtml(text).html;

function summaryOf({ component, status, state }: PublicIncident, texts: Texts): string {
  const word = stateInSentence(texts, status);
  return state === "open" ? `${component.name}: ${word}.` : texts.page.recovered(component.name, word);
}

/** A date as RFC 822 section 5 writes it, with a year of four digits, from RFC 3339. */
const rfc822 = (time: string): string => new Date(time).toUTCString();

const element = (name: string, text: string): string => `<${name}>${escaped(text)}</${name}>`;

/** Text for XML 1.0, without the characters that it does not allow (section 2.2). */
const escaped = (text: string): string =>
  text
    .toWellFormed()
    .replaceAll(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, "")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;");
