import { AppError } from "@statusmesh/shared/errors";
import { type ActorCtx, asSystem, type System } from "../../platform/context.ts";
import { kindLabel } from "../channels/config/service.ts";
import { maxNameLength, plain } from "../channels/sending/service.ts";
import {
  acknowledgeAlerts,
  everythingTold,
  lastTold,
  laterIncidents,
  linkedChannel,
  type LinkedChannel,
} from "../deliveries/service.ts";
import { acknowledgeFromChannel, acknowledgeManyFromChannel } from "../incidents/lifecycle/service.ts";
import { incidentOf } from "../incidents/service.ts";
import { selectCauses } from "./queries.ts";

/** How an acknowledgement came: the route or hook, the address of the person, and the name the vendor gave. */
export interface Acknowledger {
  /** Method and declared path. */
  action: string;
  ip?: string | null;
  userAgent?: string | null;
  person?: string | null;
}

/** What of a message is acknowledged: all that it listed as open, one cause of it, or what came after it. */
export type Part = "all" | "later" | { cause: string };

/** Incidents that were acknowledged by this request, and open ones that the channel was notified of besides. */
export interface Acknowledged {
  count: number;
  others: number;
  /** The only incident of the message; null where it is about several. */
  single: { monitor_name: string; acknowledged_by: { name: string | null } | null } | null;
}

const invalid = () =>
  new AppError(
    "ACKNOWLEDGE_LINK_INVALID",
    "This link is not valid: it is incomplete, its channel was disabled or deleted, or it was sent to a viewer.",
  );
const expired = () =>
  new AppError("ACKNOWLEDGE_LINK_EXPIRED", "The incident has ended. There is nothing to acknowledge.");

/** What the page of a link shows; null for a token that acknowledges nothing. Changes nothing. */
export async function linkedMessage(system: System, token: string) {
  const linked = await linkedChannel(system, token);
  if (linked === null) return null;
  const { org_id: orgId, incident_ids: ids } = linked;
  const later = (await laterIncidents(system.sql, linked)).length;
  const channel = `${kindLabel(linked.channel.kind)} ${linked.channel.name}`;
  if (ids.length === 1)
    return { incident: await incidentOf({ ...system, orgId }, ids[0]!), causes: [], channel, later, isOver: false };
  const causes = await selectCauses(system.sql, orgId, ids);
  return { incident: null, causes, channel, later, isOver: causes.every(({ open }) => open === 0) };
}

/**
 * Acknowledges as its channel the incidents that the message of a token listed as open, or a part of them; what was
 * acknowledged before stays as it is. Throws ACKNOWLEDGE_LINK_INVALID, and ACKNOWLEDGE_LINK_EXPIRED once all of them
 * are over.
 */
export async function acknowledgeByLink(
  system: System,
  token: string,
  by: Acknowledger,
  part: Part = "all",
): Promise<Acknowledged> {
  const linked = await linkedChannel(system, token);
  if (linked === null) throw invalid();
  const { org_id: orgId, incident_ids: ids } = linked;
  const later = await laterIncidents(system.sql, linked);
  if (part === "later") return { count: await acknowledgeAs(system, linked, later, by), others: 0, single: null };
  if (ids.length === 1) {
    const { incident, isNew } = await acknowledgeFromChannel(ctxOf(system, linked, by), ids[0]!, detailOf(linked, by));
    return { count: isNew ? 1 : 0, others: later.length, single: incident };
  }
  const causes = await selectCauses(system.sql, orgId, ids);
  const chosen = causes.filter(({ key }) => part === "all" || key === part.cause);
  if (chosen.every(({ open }) => open === 0)) throw expired();
  const count = await acknowledgeAs(
    system,
    linked,
    chosen.flatMap(({ ids: open }) => open),
    by,
  );
  const waiting = causes.filter((one) => !chosen.includes(one)).reduce((sum, one) => sum + one.waiting, 0);
  return { count, others: later.length + waiting, single: null };
}

/** {@link acknowledgeByLink} for people in a chat: what came of it, in words. */
export async function acknowledgeInWords(system: System, token: string, by: Acknowledger): Promise<string> {
  try {
    const { count, others, single } = await acknowledgeByLink(system, token, by);
    const name = count > 0 || single === null ? by.person : single.acknowledged_by?.name;
    const what = single === null ? incidents(count) : plain(single.monitor_name, maxNameLength);
    const rest = others > 0 ? ` ${incidents(others)} more ${others === 1 ? "is" : "are"} open.` : "";
    return `${count > 0 ? "Acknowledged" : "Already acknowledged"}${name ? ` by ${name}` : ""}: ${what}.${rest}`;
  } catch (error) {
    if (error instanceof AppError && error.code.startsWith("ACKNOWLEDGE_LINK_")) return error.message;
    throw error;
  }
}

const incidents = (count: number): string => `${count} incident${count === 1 ? "" : "s"}`;

/**
 * Acknowledges what the last opening, level or reminder of these channels covers, or everything open that they were
 * notified of. Returns what came of it, in words.
 */
export async function acknowledgeReply(
  system: System,
  { channelIds, everything, ...by }: Acknowledger & { channelIds: readonly string[]; everything: boolean },
): Promise<string> {
  const told = await everythingTold(system.sql, channelIds);
  let count = 0;
  for (const linked of everything ? told : await lastTold(system.sql, channelIds))
    count += await acknowledgeAs(system, linked, linked.incident_ids, by);
  const left = new Set((await Promise.all(told.map((one) => laterIncidents(system.sql, none(one))))).flat()).size;
  const open = new Set(told.flatMap(({ incident_ids: ids }) => ids)).size;
  const more = left > 0 ? ` ${left} not acknowledged: reply "ack all".` : "";
  return `Acknowledged ${incidents(count)}. ${open} open.${more}`;
}

/**
 * Acknowledges the incidents that an alert at a pager had at `at`, as its channel. Where several channels have alerts
 * of the same key, nothing says which of them it was: only what all of them have is acknowledged. Returns the number of
 * new acknowledgements.
 */
export async function acknowledgeAtPager(
  tx: System,
  { kind, key, at, ...by }: Acknowledger & { kind: string; key: string; at: Date },
): Promise<number> {
  const [first, ...others] = await acknowledgeAlerts(tx.sql, { kind, key, at });
  if (first === undefined) return 0;
  const ids = first.incident_ids.filter((id) => others.every(({ incident_ids }) => incident_ids.includes(id)));
  return await acknowledgeAs(tx, first, ids, by);
}

const none = (linked: LinkedChannel): LinkedChannel => ({ ...linked, incident_ids: [] });

const acknowledgeAs = async (
  system: System,
  linked: LinkedChannel,
  ids: readonly string[],
  by: Acknowledger,
): Promise<number> => await acknowledgeManyFromChannel(ctxOf(system, linked, by), ids, detailOf(linked, by));

const ctxOf = (
  system: System,
  { org_id: orgId, channel }: LinkedChannel,
  { action, person: _person, ...trail }: Acknowledger,
): ActorCtx => ({
  ...asSystem(system, orgId, action, trail),
  actor: { type: "channel", id: channel.id, name: channel.name },
});

const detailOf = ({ channel }: LinkedChannel, { person = null }: Acknowledger) => ({
  channel_type: channel.kind,
  person: person ?? channel.person,
});
