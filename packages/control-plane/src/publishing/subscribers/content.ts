import { markdownHtml } from "../../platform/html/markdown.ts";
import { subjectOf } from "../entries/service.ts";
import type { Language } from "../languages/schema.ts";
import { languageOf, type Texts, textsOf } from "../languages/service.ts";
import type { Branding } from "../status-pages/schema.ts";
import type { SubscriberRow } from "./queries.ts";

/** Kind of an event, as in the API. */
export type NewsKind = keyof Texts["mail"]["kind"];

/** An event of a page, as stored. */
export interface Source {
  page_id: string;
  org_id: string;
  slug: string;
  page_name: string;
  branding: Branding;
  key: string;
  at: Date;
  /** Null for the events of other tables. */
  event_id: string | null;
  /** True for an end that waits for that of its entry already. */
  waits: boolean;
  /** True for an update that a person has posted. */
  is_update: boolean;
  incident_id: string | null;
  target_ids: string[];
  components: string[];
  /** The group of all of the components. */
  group: string | null;
  title: string | null;
  severity: string | null;
  kind: NewsKind;
  message: string | null;
  starts_at: Date | null;
  ends_at: Date | null;
}

/** A message to subscribers. Public fields only; the body of a webhook has them all. */
export interface Content {
  kind: NewsKind;
  page: string;
  title: string;
  message: string | null;
  components: string[];
  /** The group of all of the components. */
  group: string | null;
  at: string;
  starts_at: string | null;
  ends_at: string | null;
  url: string;
  /** Address of the page. */
  base: string;
  language: Language;
  /** IANA zone of the times in mails. */
  zone: string;
}

const messageOf = ({ kind, incident_id, message }: Source): string | null =>
  kind === "scheduled" || incident_id !== null ? message : null;

const subjectIn = (language: Language, { components, group }: Pick<Content, "components" | "group">): string =>
  subjectOf(
    textsOf(language),
    components.map((name) => ({ name, group })),
  );

/** The message of an event. `base` is the address of the page. */
export function contentOf(source: Source, base: string): Content {
  const language = languageOf(source.branding);
  return {
    kind: source.kind,
    page: source.branding.display_name ?? source.page_name,
    title: source.title ?? textsOf(language).mail.disruption(subjectIn(language, source)),
    message: source.kind === "withdrawn" ? textsOf(language).mail.withdrawn : messageOf(source),
    components: source.components,
    group: source.group,
    at: source.at.toISOString(),
    starts_at: source.starts_at?.toISOString() ?? null,
    ends_at: source.ends_at?.toISOString() ?? null,
    url: source.incident_id === null || source.kind === "withdrawn" ? base : `${base}/incidents/${source.incident_id}`,
    base,
    language,
    zone: source.branding.timezone ?? "UTC",
  };
}

const tones: Partial<Record<NewsKind, "down" | "up" | "degraded">> = {
  opened: "down",
  reopened: "down",
  investigating: "down",
  resolved: "up",
  completed: "up",
  monitoring: "up",
};

/** Texts of a mail; to an imported address the first one says where it comes from. */
export function mailWords(
  content: Content,
  manageUrl: string,
  { source, language: own }: Pick<SubscriberRow, "source" | "language">,
) {
  const { zone } = content;
  const language = own ?? content.language;
  const { mail: w, locale, dir } = textsOf(language);
  const format = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short", timeZone: zone });
  const time = (at: string) => `${format.format(new Date(at))} (${zone})`;
  const planned = content.starts_at !== null && content.ends_at !== null;
  // A derived title, in the language of the page, says "disruption" already.
  const derived = textsOf(content.language).mail.disruption(subjectIn(content.language, content));
  const title = `${w.kind[content.kind]}: ${content.title === derived ? subjectIn(language, content) : content.title}`;
  return {
    tone: tones[content.kind] ?? ("degraded" as const),
    lang: language,
    dir,
    subject: title,
    title,
    paragraphs: content.message === null ? [] : [{ text: content.message, html: markdownHtml(content.message).html }],
    facts: [
      { label: w.affected, value: content.components.join(", ") },
      ...(planned
        ? [
            { label: w.from, value: time(content.starts_at!) },
            { label: w.to, value: time(content.ends_at!) },
          ]
        : [{ label: w.time, value: time(content.at) }]),
    ],
    link: { label: w.view, url: content.url },
    footer: [...(source === null ? [] : [w.imported(source)]), w.footer(content.page, manageUrl)].join(" "),
  };
}
