import { isObject } from "@statusmesh/shared/json";
import type { AuditEntry } from "../audit/schema.ts";

/** Words for each write of the API; the name of its resource follows. */
export const actionWords: Readonly<Record<string, string>> = {
  "POST /api/v1/targets/bulk": "Created monitors",
  "POST /api/v1/targets/bulk-action": "Changed monitors",
  "POST /api/v1/targets": "Created monitor",
  "PATCH /api/v1/targets/{id}": "Changed monitor",
  "DELETE /api/v1/targets/{id}": "Deleted monitor",
  "POST /api/v1/targets/{id}/heartbeat/rotate": "Replaced ping URL",
  "PUT /api/v1/targets/{id}/pin": "Pinned monitor",
  "DELETE /api/v1/targets/{id}/pin": "Unpinned monitor",
  "PUT /api/v1/targets/{id}/regions": "Changed regions of monitor",
  "POST /api/v1/targets/{id}/shares": "Created a share link of a monitor",
  "DELETE /api/v1/targets/{id}/shares/{share_id}": "Revoked a share link of a monitor",
  "POST /api/v1/config/apply": "Applied configuration files",
  "declared files": "Applied configuration files of the server",
  "POST /api/v1/config/adopt": "Adopted into configuration files",
  "POST /api/v1/config/detach": "Detached from configuration files",
  "POST /api/v1/import/history": "Imported history",
  "POST /api/v1/incidents": "Reported incident",
  "POST /api/v1/incidents/{id}/acknowledge": "Acknowledged incident",
  "DELETE /api/v1/incidents/{id}/acknowledgement": "Undid acknowledgement of incident",
  "POST /api/v1/incidents/{id}/publish": "Published the incident of",
  "POST /api/v1/incidents/{id}/unpublish": "Withdrew the incident of",
  "POST /api/v1/incidents/{id}/resolve": "Closed incident",
  "POST /api/v1/incidents/{id}/notifications/{delivery_id}/retry": "Sent a notification again of incident",
  "PATCH /api/v1/incidents/{id}": "Changed incident",
  "POST /api/v1/incidents/{id}/updates": "Posted update",
  "POST /api/v1/incidents/{id}/notes": "Wrote internal note",
  "POST /api/v1/incidents/bulk-action": "Acknowledged incidents",
  "POST /api/v1/notification-channels": "Created channel",
  "PATCH /api/v1/notification-channels/{id}": "Changed channel",
  "DELETE /api/v1/notification-channels/{id}": "Deleted channel",
  "POST /api/v1/notification-channels/devices": "Registered device",
  "DELETE /api/v1/notification-channels/devices/{id}": "Removed device",
  "POST /api/v1/notification-channels/{id}/apply": "Applied to existing monitors: channel",
  "POST /api/v1/notification-channels/{id}/resend-verification": "Sent the verification mail of channel",
  "POST /api/v1/notification-channels/telegram-link": "Created Telegram code",
  "POST /api/v1/notification-channels/whatsapp-link": "Created WhatsApp code",
  "POST /api/v1/notification-channels/delegate": "Created delegation link",
  "DELETE /api/v1/notification-channels/delegate/{id}": "Revoked delegation link",
  "POST /c/{code}": "Connected by delegation link",
  "POST /ping/{key}/{slug}": "Created by the first report of its job: monitor",
  "POST /a/{token}": "Acknowledged by the link of a notification: incident",
  "POST /hooks/slack": "Acknowledged from Slack: incident",
  "POST /hooks/telegram": "Changed from Telegram: channel",
  "POST /hooks/whatsapp": "Changed from WhatsApp: channel",
  "POST /hooks/pagerduty": "Acknowledged at PagerDuty: incident",
  "POST /hooks/resend": "Disabled by a report of Resend: channel",
  "POST /confirm/{code}": "Confirmed the address of channel",
  "POST /unsubscribe/{id}/{code}": "Unsubscribed from channel",
  "POST /api/v1/maintenance": "Scheduled maintenance",
  "PATCH /api/v1/maintenance/{id}": "Changed maintenance",
  "DELETE /api/v1/maintenance/{id}": "Cancelled maintenance",
  "PATCH /api/v1/maintenance/{id}/occurrences/{occurrence_id}": "Changed an occurrence of maintenance",
  "POST /api/v1/snoozes": "Snoozed notifications",
  "DELETE /api/v1/snoozes/{id}": "Ended snooze",
  "POST /api/v1/reports/recipients": "Added recipient of reports",
  "DELETE /api/v1/reports/recipients/{id}": "Removed recipient of reports",
  "POST /api/v1/certificates": "Stored certificate",
  "PATCH /api/v1/certificates/{id}": "Changed certificate",
  "DELETE /api/v1/certificates/{id}": "Deleted certificate",
  "POST /api/v1/update-templates": "Created update template",
  "PATCH /api/v1/update-templates/{id}": "Changed update template",
  "DELETE /api/v1/update-templates/{id}": "Deleted update template",
  "POST /api/v1/status-pages": "Created status page",
  "PATCH /api/v1/status-pages/{id}": "Changed status page",
  "DELETE /api/v1/status-pages/{id}": "Deleted status page",
  "POST /api/v1/status-pages/{id}/custom-domain/check": "Checked the custom domain of",
  "POST /api/v1/status-pages/{id}/logo": "Set the logo of",
  "PUT /api/v1/status-pages/{id}/logo": "Set the logo of",
  "DELETE /api/v1/status-pages/{id}/logo": "Removed the logo of",
  "POST /api/v1/status-pages/{id}/logo-dark": "Set the logo for dark mode of",
  "PUT /api/v1/status-pages/{id}/logo-dark": "Set the logo for dark mode of",
  "DELETE /api/v1/status-pages/{id}/logo-dark": "Removed the logo for dark mode of",
  "POST /api/v1/status-pages/{id}/reader-tokens": "Created a reader token of a status page",
  "DELETE /api/v1/status-pages/{id}/reader-tokens/{token_id}": "Revoked a reader token of a status page",
  "POST /api/v1/status-pages/{id}/subscribers/import": "Imported subscribers of",
  "POST /api/v1/status-pages/{id}/components": "Added component",
  "POST /api/v1/status-pages/{id}/components/bulk": "Added monitors to",
  "POST /api/v1/status-pages/{id}/components/reorder": "Reordered status page",
  "PATCH /api/v1/status-pages/{id}/components/{target_id}": "Changed component",
  "DELETE /api/v1/status-pages/{id}/components/{target_id}": "Removed component",
  "DELETE /api/v1/status-pages/{id}/subscribers/{subscriber_id}": "Removed subscriber",
  "POST /api/v1/sessions": "Signed in",
  "DELETE /api/v1/sessions/{id}": "Ended session",
  "PUT /api/v1/me/password": "Set the password of",
  "DELETE /api/v1/me/password": "Removed the password of",
  "POST /api/v1/me/totp/confirm": "Set up the second factor of",
  "DELETE /api/v1/me/totp": "Removed the second factor of",
  "POST /api/v1/me/totp/recovery-codes": "Made recovery codes for",
  "POST /api/v1/sessions/passkey": "Signed in",
  "POST /api/v1/me/passkeys": "Added passkey",
  "PATCH /api/v1/me/passkeys/{id}": "Changed passkey",
  "DELETE /api/v1/me/passkeys/{id}": "Removed passkey",
  "DELETE /api/v1/identities/{id}": "Unlinked account",
  "POST /api/v1/api-tokens": "Created API token",
  "DELETE /api/v1/api-tokens/{id}": "Revoked API token",
  "POST /oauth/authorize": "Approved app",
  "POST /oauth/token": "Ended the connection of app",
  "POST /oauth/revoke": "Revoked its own access: app",
  "DELETE /api/v1/connected-apps/{id}": "Disconnected app",
  "POST /api/v1/orgs": "Created organisation",
  "PATCH /api/v1/orgs/{id}": "Changed organisation",
  "DELETE /api/v1/orgs/{id}": "Deleted organisation",
  "POST /api/v1/orgs/{id}/restore": "Restored organisation",
  "PATCH /operator/orgs/{id}": "Operator changed the plan of organisation",
  "POST /api/v1/orgs/{id}/switch": "Switched to organisation",
  "PATCH /api/v1/orgs/{id}/members/{user_id}": "Changed role of",
  "DELETE /api/v1/orgs/{id}/members/{user_id}": "Removed member",
  "POST /api/v1/orgs/{id}/invitations": "Invited",
  "DELETE /api/v1/orgs/{id}/invitations/{invitation_id}": "Revoked invitation of",
  "POST /api/v1/invitations/accept": "Joined",
};

/** `Changed monitor` and `Checkout API`: an audit entry as text. An action without a text reads as its request. */
export function entryInWords(
  entry: Pick<AuditEntry, "action" | "resource_id" | "before" | "after">,
  names: ReadonlyMap<string, string>,
): { action: string; name: string } {
  const name = nameIn(entry.after) ?? nameIn(entry.before) ?? names.get(entry.resource_id ?? "") ?? "";
  return { action: actionWords[entry.action] ?? entry.action, name };
}

/** Name of a recorded resource, the email address of a person, or the monitors that the resource is about. */
function nameIn(side: unknown): string | null {
  if (typeof side !== "object" || side === null) return null;
  const { name, title, email, monitor_name, public_name, covers } = side as Record<string, unknown>;
  return [name, title, email, monitor_name, public_name, covers].find((text) => typeof text === "string") ?? null;
}

/** One field of a change: its name as a path (`check.url`), and its value before and after as text. */
export interface FieldChange {
  field: string;
  was: string | null;
  is: string | null;
}

/**
 * Every field that either side of an audit entry has. A secret reads the same before and after: it is listed because it
 * changed. A monitor that both sides name is not a change.
 */
export function changesOf({ before, after }: Pick<AuditEntry, "before" | "after">): FieldChange[] {
  const [was, is] = [new Map(flat(before)), new Map(flat(after))];
  const fields = new Set([...was.keys(), ...is.keys()]);
  if (was.get("monitor_name") === is.get("monitor_name")) fields.delete("monitor_name");
  return [...fields].map((field) => ({
    field,
    was: before ? inWords(was.get(field)) : null,
    is: after ? inWords(is.get(field)) : null,
  }));
}

function flat(value: unknown, at = ""): [string, unknown][] {
  return Object.entries(value ?? {}).flatMap(([key, one]): [string, unknown][] =>
    isObject(one) && Object.keys(one).length > 0 ? flat(one, `${at}${key}.`) : [[`${at}${key}`, one]],
  );
}

function inWords(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  if (Array.isArray(value) && value.every((one) => typeof one !== "object")) return value.join(", ") || "none";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
