import type { Static } from "typebox";
import type { Branding } from "../status-pages/schema.ts";
import type { PublicIncident } from "./schema.ts";
import type { ComponentState } from "./states.ts";

export type Language = Static<typeof Branding>["language"];
type Phase = PublicIncident["updates"][number]["phase"];
type Outage = PublicIncident["status"];

/** Every text of the public pages. A language is one object of this type. */
export interface Texts {
  /** Locale of dates and numbers. */
  readonly locale: string;
  /** Unit of a day in a duration. */
  readonly day: string;
  readonly and: string;
  readonly state: Record<ComponentState, string>;
  readonly banner: Record<ComponentState, string>;
  readonly outage: Record<Outage, (component: string) => string>;
  readonly phase: Record<Phase, string>;
  readonly resolved: string;
  readonly skip: string;
  readonly components: string;
  readonly incidents: string;
  readonly running: string;
  readonly planned: string;
  readonly past: string;
  readonly noPast: string;
  readonly ongoing: string;
  /** Below the name of a group. */
  readonly groupAffected: (count: number, total: number) => string;
  readonly groupFine: (count: number, pct: string | null) => string;
  readonly history: string;
  readonly statusOf: (name: string) => string;
  readonly noUpdates: string;
  readonly all: string;
  readonly daysAgo: (days: number) => string;
  readonly today: string;
  readonly noDataYet: string;
  readonly uptime: (pct: string) => string;
  readonly method: string;
  readonly checked: string;
  readonly since: string;
  readonly until: string;
  readonly lasted: string;
  readonly soFar: string;
  readonly worst: string;
  readonly affected: (count: number, total: number) => string;
  readonly working: (count: number) => string;
  readonly silent: (count: number) => string;
  readonly noData: string;
  readonly moreIncidents: (count: number) => string;
  readonly earlierUpdates: (count: number) => string;
  /** How many items a list does not name. */
  readonly more: (count: number) => string;
  readonly olderIncidents: (count: number) => string;
  readonly fullList: string;
  readonly allIncidents: string;
  readonly lastDays: (days: number) => string;
  readonly onDays: (state: string, days: number) => string;
  readonly down: string;
  /** A day or an incident that another product has recorded. */
  readonly imported: string;
  /** Figures of badges, behind the name of a component. */
  readonly badge: Record<"uptime" | "latency" | "cert", string>;
  readonly zone: (zone: string) => string;
  readonly yourZone: string;
  readonly poweredBy: string;
  readonly subscribe: string;
  readonly emptyHeading: string;
  readonly empty: string;
  readonly stale: string;
  readonly refreshed: string;
  readonly keys: string;
  readonly missingIncident: readonly [string, string];
  readonly missingPage: readonly [string, string];
  readonly unavailable: readonly [string, string];
  readonly recovered: (component: string, worst: string) => string;
}

const en: Texts = {
  locale: "en-GB",
  day: "d",
  and: "and",
  state: {
    operational: "Operational",
    degraded: "Degraded",
    partial_outage: "Partial outage",
    major_outage: "Major outage",
    maintenance: "Maintenance",
    no_data: "No data",
  },
  banner: {
    operational: "All Systems Operational",
    maintenance: "Maintenance in progress",
    degraded: "Minor Service Disruption",
    partial_outage: "Partial System Outage",
    major_outage: "Major System Outage",
    no_data: "No Monitoring Data",
  },
  outage: {
    degraded: (component) => `${component} degraded`,
    partial_outage: (component) => `${component} partial outage`,
    major_outage: (component) => `${component} major outage`,
  },
  phase: {
    investigating: "Investigating",
    identified: "Identified",
    monitoring: "Monitoring",
    resolved: "Resolved",
    postmortem: "Post-mortem",
  },
  resolved: "Resolved",
  skip: "Skip to content",
  components: "Components",
  incidents: "Current incidents",
  running: "Maintenance in progress",
  planned: "Scheduled maintenance",
  past: "Past incidents",
  noPast: "No incidents",
  ongoing: "Ongoing",
  groupAffected: (count, total) => `${count} of ${total} affected`,
  groupFine: (count, pct) => `${count} ${count === 1 ? "component" : "components"}${pct === null ? "" : `, ${pct} %`}`,
  history: "Last 30 days",
  statusOf: (name) => (/\bstatus\b/i.test(name) ? name : `${name} status`),
  noUpdates: "No updates yet.",
  all: "Current status",
  daysAgo: (days) => `${days} days ago`,
  today: "Today",
  noDataYet: "No data yet",
  uptime: (pct) => `${pct} % uptime`,
  method:
    "Uptime is the share of the monitored time of the last 90 days without a confirmed outage. " +
    "Degraded performance counts as up. Planned maintenance and time without checks are left out.",
  checked: "Checked",
  since: "since",
  until: "until",
  lasted: "lasted",
  soFar: "so far",
  worst: "Worst state:",
  affected: (count, total) => `${count} of ${total} ${total === 1 ? "component" : "components"} affected`,
  working: (count) => (count === 1 ? "1 component operational" : `${count} components operational`),
  silent: (count) => `${count} without recent data`,
  noData: "No recent data",
  moreIncidents: (count) => (count === 1 ? "1 more incident" : `${count} more incidents`),
  earlierUpdates: (count) => (count === 1 ? "1 earlier update" : `${count} earlier updates`),
  more: (count) => `${count} more`,
  olderIncidents: (count) => (count === 1 ? "1 older incident" : `${count} older incidents`),
  fullList: "Full list (JSON)",
  allIncidents: "All incidents",
  lastDays: (days) => `Last ${days} days`,
  onDays: (state, days) => `${state} on ${days === 1 ? "1 day" : `${days} days`}`,
  down: "down",
  imported: "Imported",
  badge: { uptime: "uptime", latency: "latency", cert: "certificate" },
  zone: (zone) => `Times in ${zone}`,
  yourZone: "Times in your zone",
  poweredBy: "Powered by StatusMesh",
  subscribe: "Subscribe",
  emptyHeading: "No components yet",
  empty: "Components appear here once they are published.",
  stale: "This page cannot be refreshed. It shows the last known state and tries again.",
  refreshed: "State changed:",
  keys: "Arrow keys choose a day, Enter pins it, Escape closes it.",
  missingIncident: ["Incident not found", "It may have been removed from this page."],
  missingPage: ["Status page not found", "No status page is published at this address."],
  unavailable: [
    "Status not available",
    "It cannot be read at the moment. The services themselves may be fine. Try again in a moment.",
  ],
  recovered: (component, worst) => `${component} has recovered. Worst state: ${worst}.`,
};

const de: Texts = {
  locale: "de-DE",
  day: "Tg.",
  and: "und",
  state: {
    operational: "Funktioniert",
    degraded: "Eingeschränkt",
    partial_outage: "Teilausfall",
    major_outage: "Ausfall",
    maintenance: "Wartung",
    no_data: "Keine Daten",
  },
  banner: {
    operational: "Alle Systeme funktionieren",
    maintenance: "Wartung läuft",
    degraded: "Leichte Störung",
    partial_outage: "Teilweiser Systemausfall",
    major_outage: "Schwerer Systemausfall",
    no_data: "Keine Überwachungsdaten",
  },
  outage: {
    degraded: (component) => `${component}: eingeschränkt`,
    partial_outage: (component) => `${component}: Teilausfall`,
    major_outage: (component) => `${component}: Ausfall`,
  },
  phase: {
    investigating: "Wird untersucht",
    identified: "Ursache gefunden",
    monitoring: "Wird beobachtet",
    resolved: "Behoben",
    postmortem: "Nachbericht",
  },
  resolved: "Behoben",
  skip: "Zum Inhalt springen",
  components: "Komponenten",
  incidents: "Aktuelle Störungen",
  running: "Laufende Wartung",
  planned: "Geplante Wartung",
  past: "Vergangene Störungen",
  noPast: "Keine Störungen",
  ongoing: "Dauert an",
  groupAffected: (count, total) => `${count} von ${total} betroffen`,
  groupFine: (count, pct) =>
    `${count} ${count === 1 ? "Komponente" : "Komponenten"}${pct === null ? "" : `, ${pct} %`}`,
  history: "Letzte 30 Tage",
  statusOf: (name) => (/\bstatus/i.test(name) ? name : `Status von ${name}`),
  noUpdates: "Noch keine Meldungen.",
  all: "Aktueller Status",
  daysAgo: (days) => `Vor ${days} Tagen`,
  today: "Heute",
  noDataYet: "Noch keine Daten",
  uptime: (pct) => `${pct} % Verfügbarkeit`,
  method:
    "Die Verfügbarkeit ist der Anteil der überwachten Zeit der letzten 90 Tage ohne bestätigten Ausfall. " +
    "Eingeschränkter Betrieb zählt als verfügbar. Geplante Wartung und Zeit ohne Prüfungen zählen nicht mit.",
  checked: "Geprüft",
  since: "seit",
  until: "bis",
  lasted: "Dauer",
  soFar: "bisher",
  worst: "Schlimmster Zustand:",
  affected: (count, total) => `${count} von ${total} ${total === 1 ? "Komponente" : "Komponenten"} betroffen`,
  working: (count) => (count === 1 ? "1 Komponente funktioniert" : `${count} Komponenten funktionieren`),
  silent: (count) => `${count} ohne aktuelle Daten`,
  noData: "Keine aktuellen Daten",
  moreIncidents: (count) => (count === 1 ? "1 weitere Störung" : `${count} weitere Störungen`),
  earlierUpdates: (count) => (count === 1 ? "1 frühere Meldung" : `${count} frühere Meldungen`),
  more: (count) => `${count} weitere`,
  olderIncidents: (count) => (count === 1 ? "1 ältere Störung" : `${count} ältere Störungen`),
  fullList: "Ganze Liste (JSON)",
  allIncidents: "Alle Störungen",
  lastDays: (days) => `Letzte ${days} Tage`,
  onDays: (state, days) => `${state} an ${days === 1 ? "1 Tag" : `${days} Tagen`}`,
  down: "Ausfall",
  imported: "Importiert",
  badge: { uptime: "Verfügbarkeit", latency: "Latenz", cert: "Zertifikat" },
  zone: (zone) => `Zeiten in ${zone}`,
  yourZone: "Zeiten in Ihrer Zeitzone",
  poweredBy: "Betrieben mit StatusMesh",
  subscribe: "Abonnieren",
  emptyHeading: "Noch keine Komponenten",
  empty: "Komponenten erscheinen hier, sobald sie veröffentlicht sind.",
  stale: "Diese Seite kann nicht aktualisiert werden. Sie zeigt den letzten bekannten Stand und versucht es erneut.",
  refreshed: "Neuer Stand:",
  keys: "Pfeiltasten wählen einen Tag, Enter hält ihn fest, Escape schließt ihn.",
  missingIncident: ["Störung nicht gefunden", "Vielleicht wurde sie von dieser Seite entfernt."],
  missingPage: ["Statusseite nicht gefunden", "Unter dieser Adresse ist keine Statusseite veröffentlicht."],
  unavailable: [
    "Status nicht verfügbar",
    "Er kann gerade nicht gelesen werden. Die Dienste selbst können in Ordnung sein. Bitte gleich noch " +
      "einmal versuchen.",
  ],
  recovered: (component, worst) => `${component} funktioniert wieder. Schlimmster Zustand: ${worst}.`,
};

const catalogue: Record<Language, Texts> = { en, de };

/** The texts of a language. */
export const textsOf = (language: Language): Texts => catalogue[language];

/** A state in the middle of a sentence. German nouns keep their capital. */
export const stateInSentence = (texts: Texts, state: ComponentState): string =>
  texts === en ? texts.state[state].toLowerCase() : texts.state[state];
