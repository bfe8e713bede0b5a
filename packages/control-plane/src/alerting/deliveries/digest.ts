import { type CheckSpec, kindOf } from "@statusmesh/shared/checks";
import { type Digest, type HeldDigest, type Notice, severities } from "../channels/schema.ts";
import { digestingKinds } from "../channels/service.ts";
import { inTransaction, type System } from "../../platform/context.ts";
import { type DigestMember, formDigests, type HeldGroup, heldGroups } from "./digest-queries.ts";
import type { StormRules } from "./claim-queries.ts";

/** How long notices wait when a storm is near, and how long without another one a storm counts as over. */
const holdMs = 2_000;
/** How long the notices of several incidents wait for more: results of one outage come in several batches. */
const severalMs = 1_000;
/** Incidents that the digest of held notices names. */
const shownIncidents = 10;
/** The first notice of a digest waits at most this long. */
const maxWaitMs = 15_000;

/** Rules for `alerts.digest_threshold`; 0 turns digests off. */
export function stormRules(threshold: number): StormRules {
  const kinds = threshold === 0 ? [] : digestingKinds();
  return { kinds, threshold, near: Math.max(2, Math.ceil(threshold / 2)), holdMs, severalMs };
}

/** When a group becomes a digest, Unix ms; null while the storm is only near, and its notices go one by one. */
function ripeAt({ incidents, oldest_at, newest_at }: HeldGroup, threshold: number): number | null {
  if (incidents <= threshold) return null;
  return Math.min(newest_at.getTime() + holdMs, oldest_at.getTime() + maxWaitMs);
}

export interface StormLook {
  /** True when digests were formed, which can be claimed now. */
  formed: boolean;
  /** When to look again, Unix ms; null when nothing is held. */
  nextAt: number | null;
}

export async function gatherDigests(system: System, rules: StormRules): Promise<StormLook> {
  if (rules.kinds.length === 0) return { formed: false, nextAt: null };
  const now = system.clock.now();
  const groups = await heldGroups(system.sql, rules, now);
  if (groups.length === 0) return { formed: false, nextAt: null };
  const timed = groups.map((group) => ({ group, at: ripeAt(group, rules.threshold) }));
  const ripe = timed.filter(({ at }) => at !== null && at <= now).map(({ group }) => group);
  const formed = ripe.length === 0 ? 0 : await inTransaction(system, ({ sql }) => formDigests(sql, ripe, now));
  const waiting = timed
    .map(({ group, at }) => at ?? group.newest_at.getTime() + (group.incidents >= rules.near ? holdMs : severalMs))
    .filter((at) => at > now);
  // Another replica may be at it: look again soon.
  return { formed: formed > 0, nextAt: waiting.length === 0 ? (formed > 0 ? null : now + 500) : Math.min(...waiting) };
}

/** The worse first: by severity, then the longer outage. */
const byWorst = (a: Notice, b: Notice): number =>
  severities.indexOf(b.severity) - severities.indexOf(a.severity) ||
  Date.parse(a.started_at) - Date.parse(b.started_at);

/**
 * The digest of notices, grouped by what their monitors share: the destination host, else the tag that most of the
 * remaining ones have, else nothing. `members` is not empty. `publicUrl` is `server.public_url`.
 */
export function digestOf(members: readonly DigestMember[], publicUrl: string): Digest | HeldDigest {
  const url = `${publicUrl}/incidents`;
  if (members.some(({ held_by: by }) => by === "hours")) return heldDigestOf(members, url);
  const groups: { cause: string | null; notices: Notice[] }[] = [];
  let rest = members;
  const take = (cause: string, belongs: (member: DigestMember) => boolean): void => {
    groups.push({ cause, notices: rest.filter(belongs).map(({ notice }) => notice) });
    rest = rest.filter((member) => !belongs(member));
  };
  for (const host of shared(rest, ({ spec }) => (spec === null ? [] : hostOf(spec))))
    take(host, ({ spec }) => spec !== null && hostOf(spec).includes(host));
  for (let tag = shared(rest, ({ tags }) => tags ?? [])[0]; tag !== undefined; tag = shared(rest, tagsOf)[0])
    take(tag, ({ tags }) => tags?.includes(tag!) ?? false);
  if (rest.length > 0) groups.push({ cause: null, notices: rest.map(({ notice }) => notice) });
  return {
    reason: stormOf(members[0]!.notice.reason),
    total: members.length,
    groups: groups
      .map(({ cause, notices }) => ({ cause, total: notices.length, worst: notices.toSorted(byWorst)[0]! }))
      .toSorted((a, b) => b.total - a.total),
    url,
  };
}

/** The storm that a notice belongs to. */
const stormOf = (reason: Notice["reason"]): Digest["reason"] =>
  reason === "resolved" || reason === "unacknowledged" ? reason : "opened";

function heldDigestOf(members: readonly DigestMember[], url: string): HeldDigest {
  const notices = members.map(({ notice }) => notice);
  const open = notices.filter(({ ended_at }) => ended_at === null).toSorted(byWorst);
  const over = notices.filter(({ ended_at }) => ended_at !== null);
  const lastFirst = over.toSorted((a, b) => Date.parse(b.ended_at!) - Date.parse(a.ended_at!));
  return {
    reason: "held",
    total: notices.length,
    open: open.length,
    notices: [...open, ...lastFirst].slice(0, shownIncidents),
    url,
  };
}

const tagsOf = ({ tags }: DigestMember): string[] => tags ?? [];

/** The keys that at least two members have, the most frequent first. */
function shared(members: readonly DigestMember[], keysOf: (member: DigestMember) => readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const member of members) for (const key of keysOf(member)) counts.set(key, (counts.get(key) ?? 0) + 1);
  return [...counts]
    .filter(([, count]) => count > 1)
    .toSorted(([a, x], [b, y]) => y - x || (a < b ? -1 : 1))
    .map(([key]) => key);
}

function hostOf(spec: CheckSpec): string[] {
  try {
    const destination = kindOf(spec).destination(spec);
    return destination === null ? [] : [destination.host];
  } catch {
    // A stored spec of a later version.
    return [];
  }
}
