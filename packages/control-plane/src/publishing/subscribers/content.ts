import { markdownHtml } from "../../platform/html/markdown.ts";
import type { Branding } from "../status-pages/schema.ts";

export type Language = keyof typeof kindWords;

/** Kind of an event, as in the API. */
export type NewsKind = keyof typeof kindWords.en;

/** An event of a page, as stored. */
export interface Source {
  page_id: string;
  org_id: string;
  slug: string;
  page_name: string;
  branding: Branding;
  key: string;
  at: Date;
  incident_id: string | null;
  target_ids: string[];
  components: string[];
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

const kindWords = {
  en: {
    opened: "Incident",
    reopened: "Incident reopened",
    resolved: "Resolved",
    investigating: "Investigating",
    identified: "Identified",
    monitoring: "Monitoring",
    postmortem: "Post-mortem",
    scheduled: "Maintenance scheduled",
    started: "Maintenance started",
    completed: "Maintenance completed",
  },
  de: {
    opened: "Störung",
    reopened: "Störung wieder aufgetreten",
    resolved: "Behoben",
    investigating: "Wird untersucht",
    identified: "Ursache gefunden",
    monitoring: "Wird beobachtet",
    postmortem: "Nachbetrachtung",
    scheduled: "Wartung geplant",
    started: "Wartung begonnen",
    completed: "Wartung beendet",
  },
};

const words = {
  en: {
    affected: "Components",
    time: "Time",
    from: "Start",
    to: "End",
    view: "View status",
    disruption: (name: string) => `Disruption of ${name}`,
    footer: (page: string, url: string) =>
      `You are subscribed to ${page}. Manage your subscription or unsubscribe: ${url}`,
    imported: (source: string) => `This address was imported from: ${source}.`,
    aPage: "a status page",
    confirmTitle: (page: string) => `Confirm your subscription to ${page}`,
    confirmText: "Open the link to confirm. Otherwise this address receives nothing more.",
    confirm: "Confirm subscription",
    confirmFooter: "This address was entered on the status page. If that was not you, ignore this mail.",
  },
  de: {
    affected: "Komponenten",
    time: "Zeit",
    from: "Beginn",
    to: "Ende",
    view: "Status ansehen",
    disruption: (name: string) => `Störung von ${name}`,
    footer: (page: string, url: string) => `Sie haben ${page} abonniert. Komponenten wählen oder abbestellen: ${url}`,
    imported: (source: string) => `Diese Adresse wurde übernommen von: ${source}.`,
    aPage: "einer Statusseite",
    confirmTitle: (page: string) => `Bestätigen Sie Ihr Abonnement von ${page}`,
    confirmText: "Öffnen Sie den Link und bestätigen Sie. Sonst wird an diese Adresse nichts weiter gesendet.",
    confirm: "Abonnement bestätigen",
    confirmFooter: "Diese Adresse wurde auf der Statusseite eingegeben. Waren Sie es nicht, ignorieren Sie die Mail.",
  },
};

export const wordsOf = (language: string | null | undefined) => words[language === "de" ? "de" : "en"];

/** The message of an event. `base` is the address of the page. */
export function contentOf(source: Source, base: string): Content {
  const language: Language = source.branding.language === "de" ? "de" : "en";
  return {
    kind: source.kind,
    page: source.branding.display_name ?? source.page_name,
    title: source.title ?? words[language].disruption(source.components[0] ?? ""),
    message: source.kind === "scheduled" || source.incident_id !== null ? source.message : null,
    components: source.components,
    at: source.at.toISOString(),
    starts_at: source.starts_at?.toISOString() ?? null,
    ends_at: source.ends_at?.toISOString() ?? null,
    url: source.incident_id === null ? base : `${base}/incidents/${source.incident_id}`,
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
export function mailWords(content: Content, manageUrl: string, source: string | null) {
  const { language, zone } = content;
  const w = words[language];
  const format = new Intl.DateTimeFormat(language === "de" ? "de-DE" : "en-GB", {
    dateStyle: "medium",
    timeStyle: "short",
    timeZone: zone,
  });
  const time = (at: string) => `${format.format(new Date(at))} (${zone})`;
  const planned = content.starts_at !== null && content.ends_at !== null;
  // A title that was derived says "disruption" already.
  const [component] = content.components;
  const name = content.title === w.disruption(component ?? "") ? component! : content.title;
  const title = `${kindWords[language][content.kind]}: ${name}`;
  return {
    tone: tones[content.kind] ?? ("degraded" as const),
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
