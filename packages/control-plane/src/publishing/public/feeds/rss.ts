import type { ServedStatus } from "../page/compute.ts";
import { subjectOf } from "../../entries/service.ts";
import { markdownHtml } from "../../../platform/html/markdown.ts";
import type { Entry } from "../page/entries.ts";
import { stateInSentence, type Texts, textsOf } from "../../languages/service.ts";

/** Minutes that a reader may keep the feed. */
const ttlMinutes = 5;

/**
 * The entries of a page as RSS 2.0 (https://www.rssboard.org/rss-specification), open ones first. `pageUrl` is the
 * address of the page, without a slash at its end.
 */
export function incidentsFeed(served: ServedStatus, pageUrl: string): string {
  const { status, entries, language, updatedAt } = served;
  // The date of an item stays when its entry grows.
  const dateOf = ({ id, incidents: [first] }: Entry): string =>
    served.publishedAt(id)?.toISOString() ?? first!.started_at;
  const { page, overall } = status;
  const texts = textsOf(language);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<rss version="2.0">',
    "<channel>",
    element("title", texts.page.statusOf(page.name)),
    element("link", pageUrl),
    element("description", overall.label),
    element("language", language),
    element("lastBuildDate", rfc822(lastChange(entries, dateOf, updatedAt))),
    element("ttl", String(ttlMinutes)),
    ...entries.map((entry) => itemOf(entry, dateOf(entry), pageUrl, texts)),
    "</channel>",
    "</rss>",
    "",
  ].join("\n");
}

/** Not the time of the computation: the feed keeps its bytes, and readers get 304, until something happens. */
function lastChange(entries: readonly Entry[], dateOf: (entry: Entry) => string, updatedAt: Date): string {
  const times = entries.flatMap((entry) => [
    dateOf(entry),
    ...entry.incidents.map((incident) => incident.ended_at ?? incident.started_at),
    ...entry.updates.map((update) => update.created_at),
  ]);
  return times.reduce((last, time) => (time > last ? time : last), updatedAt.toISOString());
}

function itemOf(entry: Entry, date: string, pageUrl: string, texts: Texts): string {
  const [latest] = entry.updates;
  return [
    "<item>",
    element("title", entry.state === "open" ? entry.title : `${texts.page.resolved}: ${entry.title}`),
    element("link", `${pageUrl}/incidents/${entry.id}`),
    `<guid isPermaLink="false">${entry.id}</guid>`,
    element("pubDate", rfc822(date)),
    element("description", descriptionOf(latest?.message ?? entry.description ?? summaryOf(entry, texts))),
    "</item>",
  ].join("\n");
}

/** HTML, as readers of feeds expect it; the text is Markdown. */
const descriptionOf = (text: string): string => markdownHtml(text).html;

function summaryOf({ components, status, state }: Entry, texts: Texts): string {
  const word = stateInSentence(texts, status);
  const subject = subjectOf(
    texts,
    components.map(({ name }) => ({ name, group: null })),
  );
  return state === "open" ? `${subject}: ${word}.` : texts.page.recovered(subject, word);
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
