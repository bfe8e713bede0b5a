import type { Static } from "typebox";
import type { Branding } from "../status-pages/schema.ts";
import type { ComponentState } from "./states.ts";

export type Language = Static<typeof Branding>["language"];

/** Every text of the public pages. */
const en = {
  /** Locale of dates and numbers. */
  locale: "en-GB",
  /** Unit of a day in a duration. */
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
    degraded: (component: string) => `${component} degraded`,
    partial_outage: (component: string) => `${component} partial outage`,
    major_outage: (component: string) => `${component} major outage`,
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
  /** Below the name of a group. */
  groupAffected: (count: number, total: number) => `${count} of ${total} affected`,
  groupFine: (count: number, pct: string | null) =>
    `${count} ${count === 1 ? "component" : "components"}${pct === null ? "" : `, ${pct} %`}`,
  history: "Last 30 days",
  statusOf: (name: string) => (/\bstatus\b/i.test(name) ? name : `${name} status`),
  noUpdates: "No updates yet.",
  all: "Current status",
  daysAgo: (days: number) => `${days} days ago`,
  today: "Today",
  noDataYet: "No data yet",
  uptime: (pct: string) => `${pct} % uptime`,
  method:
    "Uptime is the share of the monitored time of the last 90 days without a confirmed outage. " +
    "Degraded performance counts as up. Planned maintenance and time without checks are left out.",
  checked: "Checked",
  since: "since",
  until: "until",
  lasted: "lasted",
  soFar: "so far",
  worst: "Worst state:",
  affected: (count: number, total: number) =>
    `${count} of ${total} ${total === 1 ? "component" : "components"} affected`,
  working: (count: number) => (count === 1 ? "1 component operational" : `${count} components operational`),
  silent: (count: number) => `${count} without recent data`,
  noData: "No recent data",
  moreIncidents: (count: number) => (count === 1 ? "1 more incident" : `${count} more incidents`),
  earlierUpdates: (count: number) => (count === 1 ? "1 earlier update" : `${count} earlier updates`),
  /** How many items a list does not name. */
  more: (count: number) => `${count} more`,
  olderIncidents: (count: number) => (count === 1 ? "1 older incident" : `${count} older incidents`),
  fullList: "Full list (JSON)",
  allIncidents: "All incidents",
  lastDays: (days: number) => `Last ${days} days`,
  onDays: (state: string, days: number) => `${state} on ${days === 1 ? "1 day" : `${days} days`}`,
  down: "down",
  /** A day or an incident that another product has recorded. */
  imported: "Imported",
  /** Figures of badges, behind the name of a component. */
  badge: { uptime: "uptime", latency: "latency", cert: "certificate" },
  zone: (zone: string) => `Times in ${zone}`,
  yourZone: "Times in your zone",
  poweredBy: "Powered by StatusMesh",
  subscribe: "Subscribe",
  emptyHeading: "No components yet",
  empty: "Components appear here once they are published.",
  stale: "This page cannot be refreshed. It shows the last known state and tries again.",
  refreshed: "State changed:",
  keys: "Arrow keys choose a day, Enter pins it, Escape closes it.",
  missingIncident: { heading: "Incident not found", sentence: "It may have been removed from this page." },
  missingPage: { heading: "Status page not found", sentence: "No status page is published at this address." },
  unavailable: {
    heading: "Status not available",
    sentence: "It cannot be read at the moment. The services themselves may be fine. Try again in a moment.",
  },
  recovered: (component: string, worst: string) => `${component} has recovered. Worst state: ${worst}.`,
};
export type Texts = typeof en;

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
  missingIncident: { heading: "Störung nicht gefunden", sentence: "Vielleicht wurde sie von dieser Seite entfernt." },
  missingPage: {
    heading: "Statusseite nicht gefunden",
    sentence: "Unter dieser Adresse ist keine Statusseite veröffentlicht.",
  },
  unavailable: {
    heading: "Status nicht verfügbar",
    sentence:
      "Er kann gerade nicht gelesen werden. Die Dienste selbst können in Ordnung sein. Bitte gleich noch " +
      "einmal versuchen.",
  },
  recovered: (component, worst) => `${component} funktioniert wieder. Schlimmster Zustand: ${worst}.`,
};

const catalogue: Record<Language, Texts> = { en, de };

/** The texts of a language. */
export const textsOf = (language: Language): Texts => catalogue[language];

/** A state in the middle of a sentence. German nouns keep their capital. */
export const stateInSentence = (texts: Texts, state: ComponentState): string =>
  texts === en ? texts.state[state].toLowerCase() : texts.state[state];
