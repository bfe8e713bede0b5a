import { AppError } from "@statusmesh/shared/errors";
import { type ActorCtx, asSystem, type System } from "../../platform/context.ts";
import { kindLabel, maxNameLength, plain } from "../channels/service.ts";
import { linkedChannel, type LinkedChannel, waitingIncidents } from "../deliveries/service.ts";
import { acknowledgeFromChannel, incidentOf } from "../incidents/service.ts";

/** How an acknowledgement came: the route or hook, the address of the person, and the name the vendor gave. */
export interface Acknowledger {
  /** Method and declared path. */
  action: string;
  ip?: string | null;
  userAgent?: string | null;
  person?: string | null;
}

const invalid = () =>
  new AppError(
    "ACKNOWLEDGE_LINK_INVALID",
    "This link is not valid: it is incomplete, its channel was disabled or deleted, or it was sent to a viewer.",
  );

/** What the page of a link shows; null for a token that acknowledges nothing. Changes nothing. */
export async function linkedIncident(system: System, token: string) {
  const linked = await linkedChannel(system, token);
  if (linked === null) return null;
  const incident = await incidentOf({ ...system, orgId: linked.org_id }, linked.incident_id);
  return { incident, channel: placeOf(linked) };
}

/** `Slack #ops` */
const placeOf = ({ channel }: LinkedChannel): string => `${kindLabel(channel.kind)} ${channel.name}`;

/**
 * Acknowledges the incident of a token as its channel; one that was acknowledged before stays as it is. Throws
 * ACKNOWLEDGE_LINK_INVALID, and ACKNOWLEDGE_LINK_EXPIRED once the incident is over.
 */
export async function acknowledgeByLink(system: System, token: string, by: Acknowledger) {
  const linked = await linkedChannel(system, token);
  if (linked === null) throw invalid();
  return await acknowledgeAs(system, linked, by);
}

/** {@link acknowledgeByLink} for people in a chat: what came of it, in words. */
export async function acknowledgeInWords(system: System, token: string, by: Acknowledger): Promise<string> {
  try {
    const { incident, isNew } = await acknowledgeByLink(system, token, by);
    const name = isNew ? by.person : incident.acknowledged_by?.name;
    const words = isNew ? "Acknowledged" : "Already acknowledged";
    return `${words}${name ? ` by ${name}` : ""}: ${plain(incident.monitor_name, maxNameLength)}.`;
  } catch (error) {
    if (error instanceof AppError && error.code.startsWith("ACKNOWLEDGE_LINK_")) return error.message;
    throw error;
  }
}

/** Acknowledges every open incident of which these channels were notified, each as its channel. */
export async function acknowledgeAllOf(
  system: System,
  { channelIds, ...by }: Acknowledger & { channelIds: readonly string[] },
): Promise<void> {
  for (const linked of await waitingIncidents(system.sql, channelIds)) await acknowledgeAs(system, linked, by);
}

async function acknowledgeAs(
  system: System,
  { org_id: orgId, incident_id: incidentId, channel }: LinkedChannel,
  { action, person = null, ...trail }: Acknowledger,
) {
  const ctx: ActorCtx = {
    ...asSystem(system, orgId, action, trail),
    actor: { type: "channel", id: channel.id, name: channel.name },
  };
  const by = person ?? channel.person;
  return await acknowledgeFromChannel(ctx, incidentId, { channel_type: channel.kind, person: by });
}
