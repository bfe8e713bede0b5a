import type { Severity } from "@statusmesh/shared/severity";

export const reasons = [
  "opened",
  "reminder",
  "unacknowledged",
  "escalated",
  "reopened",
  "acknowledged",
  "resolved",
] as const;
export type Reason = (typeof reasons)[number];

/** The content of a notification. Stored with the delivery as it was then; every channel kind renders from it. */
export interface Notice {
  incident_id: string;
  target_id: string;
  monitor_name: string;
  reason: Reason;
  severity: Severity;
  /** High for major and critical. */
  urgency: "high" | "low";
  /** RFC 3339. */
  started_at: string;
  ended_at: string | null;
  /** Start of the current outage, later than the start where it has reopened; null when closed. */
  outage_since: string | null;
  /** Seconds of outage, without the time between an end and a reopening; null while open. */
  duration_secs: number | null;
  /** In words, for people. */
  error_sample: string | null;
  /** What kept the run of the error from its destination, as results have it; absent where nothing says it. */
  diagnosis?: string;
  regions_down: string[];
  regions_up: string[];
  /** The incident in the console. */
  url: string;
  /** Level of the escalation ladder, from 1; of reason unacknowledged. */
  level?: number;
  /** The page that acknowledges the incident for this channel. Set when it is sent, null for a recovery. */
  acknowledge_url?: string | null;
  /** Who has acknowledged the incident, in words, and when. Set when it is sent; null while nobody has. */
  acknowledged_by?: string | null;
  /** Monitors that depend on this one; of its openings. */
  affected?: number;
  /** Openings of those that are held; of reminders and recoveries. */
  held?: number;
  /** That the monitor flaps from now on, a change of it that other channels do not get, or how it ended. */
  flap?: "begins" | "held" | "down" | "stable";
  /** Names of its regions by id. Set when it is sent; a region without one has its id. */
  region_names?: Readonly<Record<string, string>>;
  /** While it flaps: since when, RFC 3339, and the number of changes. */
  flapping_since?: string;
  changes?: number;
}

/** What a message or a line of it says first. `brief`: opened and ended before the channel was told. */
export type Said = Exclude<Reason, "reopened" | "acknowledged"> | "brief";

/** Incidents of one cause, in one message. */
export interface RoundLine {
  /** Null for a single incident. A region by its name. */
  cause: { kind: "host" | "tag" | "error" | "region"; value: string } | null;
  severity: Severity;
  said: Said;
  /** Open incidents that the message is about, and all open ones of the cause that the channel was told of. */
  fresh: number;
  open: number;
  recovered: number;
  brief: number;
  /** Level of the escalation ladder, from 1. */
  level: number | null;
  /** Start of the oldest open outage, RFC 3339. */
  since: string | null;
  /** Start and end of those that are over. */
  began_at: string | null;
  ended_at: string | null;
  /** The most frequent error, and whether it is that of all. */
  error: string | null;
  same_error: boolean;
  /** At most five monitors of the message, the worst first; and of those that are brief. */
  names: readonly string[];
  brief_names: readonly string[];
}

/** Everything that a channel is told at one moment, in one message. */
export interface Round {
  said: Said;
  severity: Severity;
  fresh: number;
  recovered: number;
  brief: number;
  /** Lines, those that are not shown included. */
  causes: number;
  /** The most severe first, then the largest. */
  lines: readonly RoundLine[];
  /** The list of incidents in the console. */
  url: string;
  /** As in a {@link Notice}. */
  acknowledge_url?: string | null;
}

/** What a mail of a channel needs besides its text. */
export interface MailThread {
  /** Host of the control plane, for ids. */
  host: string;
  /** Ids of the earlier mails about its incidents, oldest first, without the host. */
  earlier: readonly string[];
}

/** What an alert at a pager does next. */
export type AlertEvent = "trigger" | "update" | "acknowledge" | "resolve";

/** The alert that the incidents of a message share at a pager. */
export interface Alert {
  key: string;
  events: readonly AlertEvent[];
}

/** Incidents of one cause, for receivers that group notices themselves. */
export interface Group {
  /** The id of the first incident. */
  key: string;
  /** Null while it has one incident. */
  cause: { kind: "host" | "tag"; value: string } | null;
  /** Open incidents of the group that the channel was told of. */
  open: number;
}

/** Content of a message. `test` is a test message, `reply` answers a message of a person. */
export type Content = (
  | { kind: "notice"; notice: Notice }
  | { kind: "round"; round: Round }
  | { kind: "test"; notice: Notice }
  | { kind: "reply"; text: string }
) & {
  /** Time zone of the organisation, in which people read times; UTC when left out. */
  zone?: string;
  /** For pagers. */
  alert?: Alert;
  /** For webhooks. */
  group?: Group;
};

/** Content about one incident. */
export type SingleContent = Exclude<Content, { kind: "round" } | { kind: "reply" }>;

/** The content of a kind that never has rounds. */
export function single(content: Content): SingleContent {
  if (content.kind === "round" || content.kind === "reply")
    throw new Error("this kind of channel takes one notice at a time");
  return content;
}
