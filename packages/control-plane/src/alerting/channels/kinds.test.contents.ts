import type { Content, Notice } from "./message.ts";

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
const over = { ...notice, acknowledge_url: null };

const minor = { ...notice, severity: "minor", urgency: "low", monitor_name: "Search" } as const;
const group = (cause: string | null, total: number, worst: Notice) => ({ cause, total, worst });

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
      ...over,
      reason: "resolved",
      ended_at: "2026-11-22T15:10:00.000Z",
      duration_secs: 4049,
      regions_up: [],
      acknowledged_by: "from Slack #ops by olga, 2026-11-22 14:05 UTC",
    },
  },
  "resolved after it reopened": {
    kind: "notice",
    notice: { ...over, reason: "resolved", ended_at: "2026-11-22T18:10:00.000Z", duration_secs: 1200 },
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

/** Digests, for kinds that take them. */
export const digests: Record<string, Content> = {
  digest: {
    kind: "digest",
    digest: {
      reason: "opened",
      total: 904,
      groups: [group("db-1.example.org", 880, notice), group("eu-west", 20, minor), group(null, 4, minor)],
      url: "https://status.example.org/incidents",
    },
  },
  "digest, resolved": {
    kind: "digest",
    digest: {
      reason: "resolved",
      total: 2,
      groups: [group("db-1.example.org", 2, { ...notice, reason: "resolved" })],
      url: "https://status.example.org/incidents",
    },
  },
  "digest, outside the active hours": {
    kind: "digest",
    digest: {
      reason: "held",
      total: 14,
      open: 1,
      notices: [
        notice,
        { ...minor, ended_at: "2026-11-23T15:10:00.000Z" },
        { ...notice, reason: "resolved", ended_at: "2026-11-23T15:00:00.000Z" },
      ],
      url: "https://status.example.org/incidents",
    },
  },
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

/** {@link hostileContents} for kinds that take digests. */
export const hostileDigests: Record<string, Content> = {
  digest: {
    kind: "digest",
    digest: {
      reason: "opened",
      total: 10_000,
      groups: Array.from({ length: 50 }, (_, at) => group(`${hostileName} ${at}`, 200, hostile)),
      url: notice.url,
    },
  },
  "digest, outside the active hours": {
    kind: "digest",
    digest: {
      reason: "held",
      total: 10_000,
      open: 10_000,
      notices: Array.from({ length: 10 }, () => hostile),
      url: notice.url,
    },
  },
};
