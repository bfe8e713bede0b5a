import type { Route } from "@statusmesh/control-plane/platform/http/route";
import type { ErrorCode } from "@statusmesh/shared/errors";
import { nameOf } from "../declared.ts";
import type { Thing } from "./things.ts";

/*
 * Things that the ids of each route name. A new route with an unlisted id fails the matrix with a message about it.
 */

/** Reply to a foreign or absent id; `none`: a success that ignores it. */
type Refusal = ErrorCode | "none";

export interface IdPlace {
  /** `{id}` of a path, `/alerts/0/channel_id` of a body, `?target_id` of a query. */
  readonly place: string;
  readonly thing: Thing;
  readonly refusal: Refusal;
}

const pathIds: Readonly<Record<string, { thing: Thing; refusal: ErrorCode }>> = {
  "/api/v1/targets/{id}": { thing: "target", refusal: "TARGET_NOT_FOUND" },
  "/api/v1/targets/{id}/shares/{share_id}": { thing: "share", refusal: "SHARE_NOT_FOUND" },
  "/api/v1/notification-channels/telegram-link/{id}": { thing: "telegramCode", refusal: "TELEGRAM_LINK_NOT_FOUND" },
  "/api/v1/notification-channels/whatsapp-link/{id}": { thing: "whatsappCode", refusal: "WHATSAPP_LINK_NOT_FOUND" },
  "/api/v1/notification-channels/delegate/{id}": { thing: "delegation", refusal: "DELEGATE_LINK_NOT_FOUND" },
  "/api/v1/notification-channels/devices/{id}": { thing: "device", refusal: "CHANNEL_NOT_FOUND" },
  "/api/v1/notification-channels/{id}": { thing: "channel", refusal: "CHANNEL_NOT_FOUND" },
  "/api/v1/maintenance/{id}": { thing: "window", refusal: "MAINTENANCE_NOT_FOUND" },
  "/api/v1/maintenance/{id}/occurrences/{occurrence_id}": { thing: "occurrence", refusal: "OCCURRENCE_NOT_FOUND" },
  "/api/v1/status-pages/{id}/reader-tokens/{token_id}": { thing: "readerToken", refusal: "READER_TOKEN_NOT_FOUND" },
  "/api/v1/status-pages/{id}/subscribers/{subscriber_id}": { thing: "subscriber", refusal: "SUBSCRIBER_NOT_FOUND" },
  "/api/v1/snoozes/{id}": { thing: "snooze", refusal: "SNOOZE_NOT_FOUND" },
  "/api/v1/reports/recipients/{id}": { thing: "reportRecipient", refusal: "REPORT_RECIPIENT_NOT_FOUND" },
  "/api/v1/certificates/{id}": { thing: "certificate", refusal: "CERTIFICATE_NOT_FOUND" },
  "/api/v1/update-templates/{id}": { thing: "updateTemplate", refusal: "UPDATE_TEMPLATE_NOT_FOUND" },
  "/api/v1/status-pages/{id}": { thing: "page", refusal: "STATUS_PAGE_NOT_FOUND" },
  "/api/v1/status-pages/{id}/components/{target_id}": { thing: "component", refusal: "COMPONENT_NOT_FOUND" },
  "/api/v1/incidents/{id}/notifications/{delivery_id}": { thing: "delivery", refusal: "DELIVERY_NOT_FOUND" },
  "/api/v1/incidents/{id}": { thing: "incident", refusal: "INCIDENT_NOT_FOUND" },
  "/api/v1/sessions/{id}": { thing: "session", refusal: "NOT_FOUND" },
  "/api/v1/identities/{id}": { thing: "identity", refusal: "NOT_FOUND" },
  "/api/v1/me/passkeys/{id}": { thing: "passkey", refusal: "NOT_FOUND" },
  "/api/v1/api-tokens/{id}": { thing: "apiToken", refusal: "API_TOKEN_NOT_FOUND" },
  "/api/v1/connected-apps/{id}": { thing: "connectedApp", refusal: "CONNECTED_APP_NOT_FOUND" },
  "/api/v1/orgs/{id}": { thing: "org", refusal: "ORG_NOT_FOUND" },
  "/api/v1/orgs/{id}/audit/{entry_id}": { thing: "auditEntry", refusal: "AUDIT_ENTRY_NOT_FOUND" },
  "/api/v1/orgs/{id}/members/{user_id}": { thing: "member", refusal: "MEMBER_NOT_FOUND" },
  "/api/v1/orgs/{id}/invitations/{invitation_id}": { thing: "invitation", refusal: "INVITATION_NOT_FOUND" },
};

const ladder: IdPlace = { place: "/escalation/0/channel_ids/0", thing: "channel", refusal: "INVALID_ALERT_CONFIG" };
const parents: IdPlace = { place: "/depends_on/0", thing: "target", refusal: "INVALID_DEPENDENCY" };
const certificates = (base: string): IdPlace[] => [
  { place: `${base}/certificates/ca_id`, thing: "certificate", refusal: "INVALID_TLS_CERT_PARAMS" },
  { place: `${base}/certificates/client_id`, thing: "clientCertificate", refusal: "INVALID_TLS_CERT_PARAMS" },
];
const alerts: IdPlace = { place: "/alerts/0/channel_id", thing: "channel", refusal: "INVALID_ALERT_CONFIG" };

/**
 * Ids in bodies (JSON pointers) and queries (`?name`), by route. Regions belong to the instance, so none is foreign.
 */
const otherIds: Readonly<Record<string, readonly IdPlace[]>> = {
  "PATCH /api/v1/orgs/{id}": [ladder],
  "POST /api/v1/targets/test": certificates(""),
  "POST /api/v1/targets": [
    ...certificates("/check"),
    alerts,
    ladder,
    parents,
    { place: "/regions/0", thing: "region", refusal: "REGION_INVALID" },
  ],
  "PATCH /api/v1/targets/{id}": [alerts, ladder, parents],
  "POST /api/v1/targets/bulk": [
    ...certificates("/0/check"),
    { ...alerts, place: `/0${alerts.place}` },
    { ...ladder, place: `/0${ladder.place}` },
    { ...parents, place: `/0${parents.place}` },
    { place: "/0/regions/0", thing: "region", refusal: "REGION_INVALID" },
  ],
  "POST /api/v1/targets/bulk-action": [
    { place: "/ids/0", thing: "target", refusal: "none" },
    { place: "/action/channel_ids/0", thing: "channel", refusal: "INVALID_ALERT_CONFIG" },
  ],
  "PUT /api/v1/targets/{id}/regions": [{ place: "/regions/0", thing: "region", refusal: "REGION_INVALID" }],
  "POST /api/v1/snoozes": [{ place: "/scope/target_ids/0", thing: "target", refusal: "INVALID_SNOOZE" }],
  "POST /api/v1/reports/recipients": [
    { place: "/channel_id", thing: "mailChannel", refusal: "INVALID_REPORT_RECIPIENT" },
    { place: "/page_id", thing: "page", refusal: "INVALID_REPORT_RECIPIENT" },
  ],
  "POST /api/v1/maintenance": [{ place: "/component_ids/0", thing: "target", refusal: "INVALID_COMPONENT_ID" }],
  "PATCH /api/v1/maintenance/{id}": [{ place: "/component_ids/0", thing: "target", refusal: "INVALID_COMPONENT_ID" }],
  "POST /api/v1/status-pages/{id}/components": [{ place: "/target_id", thing: "target", refusal: "TARGET_NOT_FOUND" }],
  "POST /api/v1/status-pages/{id}/components/bulk": [
    { place: "/target_ids/0", thing: "target", refusal: "TARGET_NOT_FOUND" },
  ],
  "POST /api/v1/status-pages/{id}/components/reorder": [
    { place: "/target_ids/0", thing: "component", refusal: "INVALID_COMPONENT_ID" },
  ],
  "POST /api/v1/status-pages/{id}/subscribers/import": [
    { place: "/items/0/component_ids/0", thing: "component", refusal: "none" },
  ],
  "GET /api/v1/orgs/{id}/audit": [
    { place: "?user_id", thing: "member", refusal: "none" },
    { place: "?resource_id", thing: "target", refusal: "none" },
  ],
  "POST /api/v1/config/adopt": [{ place: "/id", thing: "target", refusal: "NOT_FOUND" }],
  "POST /api/v1/config/detach": [{ place: "/id", thing: "target", refusal: "NOT_FOUND" }],
  "POST /api/v1/import/history": [{ place: "/items/0/target_id", thing: "target", refusal: "TARGET_NOT_FOUND" }],
  "POST /api/v1/incidents/{id}/publish": [{ place: "/page_ids/0", thing: "page", refusal: "STATUS_PAGE_NOT_FOUND" }],
  "POST /api/v1/incidents/{id}/unpublish": [{ place: "/page_ids/0", thing: "page", refusal: "STATUS_PAGE_NOT_FOUND" }],
  "POST /api/v1/incidents": [{ place: "/target_id", thing: "target", refusal: "TARGET_NOT_FOUND" }],
  "POST /api/v1/incidents/bulk-action": [{ place: "/ids/0", thing: "incident", refusal: "none" }],
  "GET /api/v1/incidents": [{ place: "?target_id", thing: "target", refusal: "none" }],
  "GET /api/v1/incidents.csv": [{ place: "?target_id", thing: "target", refusal: "none" }],
};

/**
 * Places in a branch of a body that excludes the one above. Regions belong to the instance; members of groups have a
 * test of their own.
 */
const otherBranches: Readonly<Record<string, readonly string[]>> = {
  "POST /api/v1/targets": ["/check/members/0/target_id"],
  "POST /api/v1/targets/bulk": ["/0/check/members/0/target_id"],
  "POST /api/v1/targets/test": ["/members/0/target_id"],
  "POST /api/v1/targets/bulk-action": ["/action/regions/0"],
  "POST /api/v1/incidents": ["/target_ids/0"],
};

/**
 * The ids of a route in lookup order: path, then body or query. Throws for an id that is not declared above.
 */
export function idsOf(route: Route): IdPlace[] {
  const inPath = [...route.path.matchAll(/\{\w+\}/g)].map((match): IdPlace => {
    const prefix = route.path.slice(0, match.index + match[0].length);
    const isHeartbeat = route.path.startsWith(`${prefix}/heartbeat`);
    const known = isHeartbeat ? { ...pathIds[prefix]!, thing: "heartbeat" as const } : pathIds[prefix];
    if (known === undefined)
      throw new Error(
        `Add "${prefix}" to pathIds in test/conformance/isolation/ids.ts: what the id names, and the code for ` +
          "one that there is not.",
      );
    return { place: match[0], ...known };
  });
  const others = otherIds[nameOf(route)] ?? [];
  const known = new Set([...others.map(({ place }) => place), ...(otherBranches[nameOf(route)] ?? [])]);
  const missing = [...bodyIds(route.body, ""), ...queryIds(route)].find((place) => !known.has(place));
  if (missing !== undefined)
    throw new Error(
      `Add "${missing}" of ${nameOf(route)} to otherIds in test/conformance/isolation/ids.ts: what the id ` +
        "names, and how one that there is not is answered.",
    );
  return [...inPath, ...others];
}

const isIdName = (name: string): boolean => /(?:^|_)ids?$|^regions$/.test(name);

/** Places in a body that hold ids, by their names; below `/config` they are ids of a channel's vendor. */
function bodyIds(schema: unknown, at: string): string[] {
  if (typeof schema !== "object" || schema === null || at === "/config") return [];
  const {
    properties = {},
    items,
    anyOf = [],
  } = schema as { properties?: Record<string, { type?: string }>; items?: unknown; anyOf?: unknown[] };
  const own = Object.entries(properties).flatMap(([name, child]) => {
    const place = `${at}/${name}`;
    // A field of the wider API that is accepted when null names nothing.
    if (child.type === "null") return [];
    if (!isIdName(name)) return bodyIds(child, place);
    return [child.type === "array" ? `${place}/0` : place];
  });
  return [
    ...own,
    ...(items === undefined ? [] : bodyIds(items, `${at}/0`)),
    ...anyOf.flatMap((branch) => bodyIds(branch, at)),
  ];
}

const queryIds = (route: Route): string[] =>
  Object.keys(route.query?.properties ?? {})
    .filter(isIdName)
    .map((name) => `?${name}`);
