import type { Content, Notice, Round, RoundLine } from "./sending/content.ts";

/*
 * Contents that the conformance suite sends through every kind.
 */

const notice: Notice = {
  incident_id: "01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90",
  target_id: "01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e91",
  monitor_name: "Checkout API",
  reason: "opened",
  severity: "major",
  urgency: "high",
  started_at: "2026-11-22T14:02:31.000Z",
  ended_at: null,
  outage_since: null,
  duration_secs: null,
  error_sample: "HTTP 503: upstream connect error (prod_db_1 <primary> & standby)",
  regions_down: ["frankfurt", "virginia"],
  regions_up: ["singapore"],
  url: "https://status.example.org/incidents/01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90?tab=a&all=1",
  acknowledge_url: "https://status.example.org/a/AZMfLnwafTCbXi9qTI1ekkrQ3o0m9cQ1Yl7uT2bX5wA",
};
const silent = { ...notice, acknowledge_url: null };

const minor = { ...notice, severity: "minor", urgency: "low", monitor_name: "Search" } as const;

const line = (changes: Partial<RoundLine>): RoundLine => ({
  cause: null,
  severity: "major",
  said: "opened",
  fresh: 1,
  open: 1,
  recovered: 0,
  brief: 0,
  level: null,
  since: "2026-11-22T14:02:31.000Z",
  began_at: null,
  ended_at: null,
  error: "connection refused",
  same_error: true,
  names: ["Checkout API"],
  brief_names: [],
  ...changes,
});
const host = { kind: "host", value: "db-1.example.org" } as const;
const names = ["Checkout API", "Search", "Cart", "Login", "Images"];
const round = (lines: RoundLine[], changes: Partial<Round> = {}): Content => ({
  kind: "round",
  round: {
    said: lines[0]!.said,
    severity: lines[0]!.severity,
    fresh: lines.reduce((sum, { fresh }) => sum + fresh, 0),
    recovered: lines.reduce((sum, { recovered }) => sum + recovered, 0),
    brief: lines.reduce((sum, { brief }) => sum + brief, 0),
    causes: lines.length,
    lines,
    url: "https://status.example.org/incidents",
    acknowledge_url: notice.acknowledge_url ?? null,
    ...changes,
  },
});
const over = {
  began_at: "2026-11-22T14:02:31.000Z",
  ended_at: "2026-11-22T15:10:00.000Z",
  since: null,
  open: 0,
  fresh: 0,
};

/** One content of every kind of message that a channel gets. */
export const contents: Record<string, Content> = {
  opened: { kind: "notice", notice },
  "opened, minor": { kind: "notice", notice: minor },
  reminder: { kind: "notice", notice: { ...notice, reason: "reminder" } },
  unacknowledged: { kind: "notice", notice: { ...notice, reason: "unacknowledged", level: 2 } },
  escalated: { kind: "notice", notice: { ...notice, reason: "escalated", severity: "critical" } },
  reopened: { kind: "notice", notice: { ...notice, reason: "reopened", outage_since: "2026-11-22T16:00:00.000Z" } },
  resolved: {
    kind: "notice",
    notice: {
      ...silent,
      reason: "resolved",
      ended_at: "2026-11-22T15:10:00.000Z",
      duration_secs: 4049,
      regions_up: [],
      acknowledged_by: "from Slack #ops by olga, 2026-11-22 14:05 UTC",
    },
  },
  "resolved after it reopened": {
    kind: "notice",
    notice: { ...silent, reason: "resolved", ended_at: "2026-11-22T18:10:00.000Z", duration_secs: 1200 },
  },
  test: {
    kind: "test",
    notice: {
      ...minor,
      monitor_name: "Test monitor",
      error_sample: "This is a test message. Nothing is wrong.",
      regions_down: [],
      regions_up: [],
      url: "https://status.example.org",
      acknowledge_url: null,
    },
  },
};

/** Messages of several notices, for kinds that may have rounds. */
export const rounds: Record<string, Content> = {
  "round, opened": round(
    [
      line({ cause: host, fresh: 879, open: 880, names }),
      line({ cause: { kind: "tag", value: "eu-west" }, severity: "minor", fresh: 20, open: 20, same_error: false }),
      line({ names: ["Blog"], error: null }),
    ],
    { fresh: 904, causes: 6 },
  ),
  "round, not acknowledged": round([line({ said: "unacknowledged", level: 2, cause: host, fresh: 5, open: 5, names })]),
  "round, resolved": round(
    [
      line({ ...over, said: "resolved", cause: host, recovered: 2, names: ["Checkout API", "Search"] }),
      line({ ...over, said: "resolved", recovered: 1, names: ["Blog"] }),
    ],
    { acknowledge_url: null },
  ),
  "round, opened and ended": round([line({ ...over, said: "brief", brief: 1, names: [], brief_names: ["Blog"] })]),
};

const group = { key: notice.incident_id, cause: host, open: 5 };

/** Messages of kinds whose incidents share alerts or groups. */
export const shared: Record<"alert" | "group", Record<string, Content>> = {
  alert: {
    "alert, updated": {
      ...round([line({ cause: host, fresh: 5, open: 5, names })]),
      alert: { key: notice.incident_id, events: ["update"] },
    },
    "alert, acknowledged": {
      kind: "notice",
      notice: { ...silent, reason: "acknowledged" },
      alert: { key: notice.incident_id, events: ["acknowledge"] },
    },
    "alert, resolved": {
      ...round([line({ ...over, said: "resolved", cause: host, recovered: 5, names })], { acknowledge_url: null }),
      alert: { key: notice.incident_id, events: ["resolve"] },
    },
  },
  group: { "opened, in a group": { kind: "notice", notice, group } },
};

/** A hostile name: mentions, formatting, a hidden link, a closing tag and a right-to-left override. */
const hostileName = "<!channel> @everyone <https://evil|click> *x* _y_ ~z~ `c` [a](https://evil) </b> \u202e";
const longText = `<b>${"&<users/all>*\\_`@here|<@U123>\u202e\u0007\n😀".repeat(500)}`;
const longRegions = Array.from({ length: 40 }, (_, at) => `${hostileName} ${at}`);
const hostile = {
  ...notice,
  monitor_name: hostileName,
  error_sample: longText,
  regions_down: longRegions,
  regions_up: longRegions,
};

/** Contents with texts of customers that are hostile, and as long as anything that a control plane stores. */
export const hostileContents: Record<string, Content> = {
  opened: { kind: "notice", notice: hostile },
  "opened, of a name of 200 emoji": { kind: "notice", notice: { ...hostile, monitor_name: "🧪".repeat(200) } },
  resolved: {
    kind: "notice",
    notice: { ...hostile, acknowledge_url: null, reason: "resolved", ended_at: "2026-11-23T15:10:00.000Z" },
  },
};

/** {@link hostileContents} for kinds that may have rounds. */
export const hostileRounds: Record<string, Content> = {
  round: round(
    Array.from({ length: 10 }, (_, at) =>
      line({
        cause: { kind: "host", value: `${hostileName} ${at}` },
        fresh: 200,
        open: 200,
        brief: 3,
        error: longText,
        names: Array.from({ length: 5 }, () => hostileName),
        brief_names: Array.from({ length: 5 }, () => hostileName),
        began_at: "2026-11-22T14:02:31.000Z",
        ended_at: "2026-11-22T15:10:00.000Z",
      }),
    ),
    { fresh: 10_000, causes: 50 },
  ),
};
