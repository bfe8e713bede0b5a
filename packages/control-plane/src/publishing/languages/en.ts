import { counter } from "./counter.ts";

const count = counter<"one" | "other">("en");

/** Every text that visitors and subscribers of a status page read. The other languages have the same keys. */
export const en = {
  /** The language in itself. */
  name: "English",
  /** Locale of dates and numbers. */
  locale: "en-GB",
  /** Writing direction. */
  dir: "ltr" as "ltr" | "rtl",
  /** Units of durations: days, hours, minutes, seconds. */
  units: ["d", "h", "min", "s"],
  /** Whether names of states begin with a small letter inside a sentence. */
  smallStates: true,
  page: {
    language: "Language",
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
    groupAffected: (affected: number, total: number) => `${affected} of ${total} affected`,
    groupFine: (total: number, pct: string | null) =>
      count(total, { one: "# component", other: "# components" }) + (pct === null ? "" : `, ${pct} %`),
    statusOf: (name: string) => (/\bstatus\b/i.test(name) ? name : `${name} status`),
    noUpdates: "No updates yet.",
    all: "Current status",
    daysAgo: (days: number) => count(days, { one: "# day ago", other: "# days ago" }),
    today: "Today",
    noDataYet: "No data yet",
    uptime: (pct: string) => `${pct} % uptime`,
    /** In place of the uptime where the operators choose which incidents the page shows. */
    reported: (pct: string) => `${pct} % without reported outages`,
    method:
      "Uptime is the share of the monitored time of the last 90 days without a confirmed outage. " +
      "Degraded performance counts as up. Planned maintenance and time without checks are left out.",
    checked: "Checked",
    since: "since",
    until: "until",
    lasted: "lasted",
    soFar: "so far",
    worst: "Worst state:",
    affected: (affected: number, total: number) =>
      `${affected} of ${count(total, { one: "# component", other: "# components" })} affected`,
    working: (total: number) => count(total, { one: "# component operational", other: "# components operational" }),
    silent: (total: number) => `${total} without recent data`,
    noData: "No recent data",
    moreIncidents: (more: number) => count(more, { one: "# more incident", other: "# more incidents" }),
    earlierUpdates: (more: number) => count(more, { one: "# earlier update", other: "# earlier updates" }),
    /** How many items a list does not name. */
    more: (more: number) => `${more} more`,
    olderIncidents: (more: number) => count(more, { one: "# older incident", other: "# older incidents" }),
    fullList: "Full list (JSON)",
    allIncidents: "All incidents",
    lastDays: (days: number) => count(days, { one: "Last # day", other: "Last # days" }),
    onDays: (state: string, days: number) => `${state} on ${count(days, { one: "# day", other: "# days" })}`,
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
  },
  /** The form of a private page. */
  access: {
    heading: "This page is private",
    intro: "Enter the password to read it.",
    password: "Password",
    open: "Open page",
    wrong: "The password is wrong. Check it and try again.",
    limit: "Too many wrong passwords. Try again in a minute.",
  },
  /** Pages of subscriptions. */
  subscription: {
    subscribe: "Subscribe to updates",
    intro: "Get notified when an incident opens, is updated or resolved, and about scheduled maintenance.",
    email: "Email address",
    byMail: "By email",
    webhook: "Webhook URL",
    byWebhook: "By webhook",
    webhookHint: "An https URL. It receives a challenge that its response must repeat, and a signing secret.",
    components: "Components",
    all: "All components",
    some: "Only these:",
    send: "Subscribe",
    sent: "Check your inbox",
    sentText: "If the address is not subscribed yet, it receives a confirmation link.",
    webhookSent: "Challenge sent",
    webhookSentText:
      "The webhook receives the challenge within seconds. It is subscribed once its response repeats it.",
    limit: "Too many requests from your network. Try again in an hour.",
    input: "Enter a valid email address, or an https URL that is reachable from the internet.",
    noMail: "Email is not available on this page.",
    confirmTitle: "Confirm your subscription",
    confirm: "Confirm subscription",
    confirmText: (address: string) => `${address} will receive updates of this page.`,
    manageTitle: "Your subscription",
    manageText: (address: string) => `${address} receives updates of this page.`,
    save: "Save",
    saved: "Saved.",
    confirmed: "Subscription confirmed.",
    unsubscribe: "Unsubscribe",
    unsubscribeText: "Nothing more is sent, and the address is deleted.",
    ended: "Unsubscribed",
    endedText: "Nothing more is sent. The address has been deleted.",
    invalid: "Link not valid",
    invalidText: "It is not valid, or the subscription has ended.",
  },
  /** Mails to subscribers. */
  mail: {
    kind: {
      opened: "Incident",
      reopened: "Incident reopened",
      resolved: "Resolved",
      withdrawn: "Withdrawn",
      investigating: "Investigating",
      identified: "Identified",
      monitoring: "Monitoring",
      postmortem: "Post-mortem",
      scheduled: "Maintenance scheduled",
      started: "Maintenance started",
      completed: "Maintenance completed",
    },
    affected: "Components",
    time: "Time",
    from: "Start",
    to: "End",
    view: "View status",
    disruption: (name: string) => `Disruption of ${name}`,
    withdrawn: "The operators have withdrawn this report. The status page no longer shows it.",
    footer: (page: string, url: string) =>
      `You are subscribed to ${page}. Manage your subscription or unsubscribe: ${url}`,
    imported: (source: string) => `This address was imported from: ${source}.`,
    aPage: "a status page",
    confirmTitle: (page: string) => `Confirm your subscription to ${page}`,
    confirmText: "Open the link to confirm. Otherwise this address receives nothing more.",
    confirm: "Confirm subscription",
    confirmFooter: "This address was entered on the status page. If that was not you, ignore this mail.",
  },
};

export type Texts = typeof en;
