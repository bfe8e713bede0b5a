import { allAbilities } from "@statusmesh/shared/checks/abilities";
import { protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import { batchOf } from "../harness/results.ts";

export const tcp = { type: "tcp", host: "127.0.0.1", port: 9 };
export const webhook = { type: "webhook", url: "https://127.0.0.1:9/hook" };

/** A PNG of one pixel. */
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

/** An authority with a key of Ed25519, valid until 2126. */
export const authority = `-----BEGIN CERTIFICATE-----
MIIBITCB1KADAgECAgEBMAUGAytlcDAPMQ0wCwYDVQQDDARUZXN0MCAXDTI2MTEy
ODE3MDAzN1oYDzIxMjYxMTA0MTcwMDM3WjAPMQ0wCwYDVQQDDARUZXN0MCowBQYD
K2VwAyEAGTIHNXFSf5ae6sHIHXwbBzfOhdBEeiPTuBGFY1bCfuajUzBRMB0GA1Ud
DgQWBBR6dK8qrh5PQll27Z/bdZgkPCV4VzAfBgNVHSMEGDAWgBR6dK8qrh5PQll2
7Z/bdZgkPCV4VzAPBgNVHRMBAf8EBTADAQH/MAUGAytlcANBAIGVdsE3kMGHOD84
BhfMlA2k1dc3nE2n/5yvWRWs2nT8DwLWjCZfImxeyoNYPlkWibSKKT4NsiXQDzIw
ESlNSwQ=
-----END CERTIFICATE-----
`;

/** A Telegram bot and a WhatsApp number of the installation, for services whose tests create link codes. */
export const centralAccounts = {
  SM_CHANNELS__TELEGRAM__BOT_TOKEN: "987654321:SECRET-OF-THE-BOT",
  SM_CHANNELS__TELEGRAM__BOT_USERNAME: "statusmesh_bot",
  SM_CHANNELS__TELEGRAM__WEBHOOK_SECRET: "secret-of-telegram-0001",
  SM_CHANNELS__WHATSAPP__ACCESS_TOKEN: "EAAG-SECRET",
  SM_CHANNELS__WHATSAPP__PHONE_NUMBER_ID: "106540352242922",
  SM_CHANNELS__WHATSAPP__APP_SECRET: "secret-of-the-app",
  SM_CHANNELS__WHATSAPP__VERIFY_TOKEN: "token-of-the-handshake",
  SM_CHANNELS__WHATSAPP__NUMBER: "+15550001111",
};

/** Well-formed responses of a passkey that is not known anywhere. */
const credential = { rawId: "AAECAw", type: "public-key" };
const assertion = { clientDataJSON: "e30", authenticatorData: "AAAA", signature: "AAAA" };
const attestation = { clientDataJSON: "e30", attestationObject: "oA" };

/**
 * A valid body for each route that takes one, by method and path. A new route gets its line here. `mark` (a-z, 0-9 and
 * -) makes values unique that must be.
 */
export const goodBodies = ({
  targetId,
  incidentId = targetId,
  channelId = targetId,
  mark = "",
}: {
  targetId: string;
  /** A mail channel whose address is confirmed. */
  channelId?: string;
  incidentId?: string;
  mark?: string;
}): Record<string, object> => ({
  "POST /api/agent/pull": {
    protocol: protocolVersion,
    agent_version: "0.0.0",
    kinds: allAbilities,
    cursor: null,
    capacity: 0,
  },
  "POST /api/agent/results": batchOf([]),
  "POST /api/agent/pings": { protocol: protocolVersion, listening_since: 0, until: 0, pings: [], bodies: [] },
  "POST /api/v1/targets": { name: "Shop", check: tcp },
  "POST /api/v1/targets/test": tcp,
  "PATCH /api/v1/targets/{id}": { name: "Shop" },
  "POST /api/v1/targets/{id}/shares": { label: "For Acme" },
  "POST /api/v1/notification-channels": { name: `Other${mark}`, config: webhook },
  "POST /api/v1/notification-channels/test": { config: webhook },
  "POST /api/v1/notification-channels/devices": {
    name: "Pixel 9",
    // Keys of RFC 8291 section 5.
    subscription: {
      endpoint: `https://127.0.0.1:9/push/${mark}`,
      keys: {
        p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        auth: "BTBZMqHH6r4Tts7J_aSIgg",
      },
    },
  },
  "POST /api/v1/notification-channels/telegram-link": { name: "Ops chat" },
  "POST /api/v1/notification-channels/whatsapp-link": { name: "Ops phone" },
  "POST /api/v1/notification-channels/delegate": { name: "Ops of Acme", kind: "slack" },
  "POST /c/{code}": { config: webhook },
  "PATCH /api/v1/notification-channels/{id}": { name: `Duty${mark}` },
  "PATCH /api/v1/incidents/{id}": { public_title: "Checkout unavailable", severity: "critical" },
  "POST /api/v1/incidents/{id}/notes": { message: "Failover to db-2 is running." },
  "POST /api/v1/incidents/{id}/updates": { phase: "identified", message: "We have found the cause." },
  "POST /api/v1/incidents": {
    target_id: targetId,
    severity: "major",
    public_title: "Payments are declined",
    message: "We are looking into it.",
  },
  "POST /api/v1/import/history": {
    items: [
      { target_id: targetId, days: [{ date: new Date(Date.now() - 86_400_000).toISOString().slice(0, 10), up: 1440 }] },
    ],
  },
  "POST /api/v1/incidents/{id}/publish": {},
  "POST /api/v1/incidents/{id}/unpublish": {},
  "POST /api/v1/incidents/bulk-action": { ids: [incidentId], action: { type: "acknowledge" } },
  "POST /api/v1/maintenance": {
    title: "Upgrade",
    starts_at: "2126-11-20T22:00:00.000Z",
    ends_at: "2126-11-21T02:00:00.000Z",
    component_ids: [targetId],
    recurrence: { rule: "FREQ=WEEKLY;BYDAY=WE", time_zone: "Europe/Berlin" },
  },
  "PATCH /api/v1/maintenance/{id}": { title: "Other upgrade", component_ids: [targetId] },
  "PATCH /api/v1/maintenance/{id}/occurrences/{occurrence_id}": { cancelled: true },
  "POST /api/v1/status-pages": { slug: `other${mark}`, name: "Other" },
  "PATCH /api/v1/status-pages/{id}": { name: "Shop" },
  "POST /api/v1/snoozes": { scope: { tag: "staging" }, until: new Date(Date.now() + 3_600_000).toISOString() },
  "POST /api/v1/reports/recipients": { channel_id: channelId },
  "POST /api/v1/certificates": { name: `CA ${mark}`, kind: "ca", certificate: authority },
  "PATCH /api/v1/certificates/{id}": { name: `Renamed ${mark}` },
  "POST /api/v1/update-templates": { kind: "incident", name: `Template ${mark}`, body: "We are looking into it." },
  "PATCH /api/v1/update-templates/{id}": { name: `Renamed ${mark}`, phase: "identified" },
  "POST /api/v1/status-pages/{id}/reader-tokens": { name: "Wall display" },
  "POST /api/v1/status-pages/{id}/subscribers/import": {
    items: [{ email: `ann${mark}@example.org` }],
    confirmed: true,
    source: "our old page",
  },
  "POST /api/v1/status-pages/{id}/logo": { image: pixel },
  "PUT /api/v1/status-pages/{id}/logo": { image: pixel },
  "POST /api/v1/status-pages/{id}/logo-dark": { image: pixel },
  "PUT /api/v1/status-pages/{id}/logo-dark": { image: pixel },
  "POST /api/v1/status-pages/{id}/components": { target_id: targetId },
  "POST /api/v1/status-pages/{id}/components/bulk": { target_ids: [targetId] },
  "POST /api/v1/status-pages/{id}/components/reorder": { target_ids: [targetId] },
  "PATCH /api/v1/status-pages/{id}/components/{target_id}": { public_name: "Shop" },
  "POST /api/v1/config/plan": { project: "shop", document: { version: 1 } },
  "POST /api/v1/config/apply": { project: "shop", document: { version: 1 }, plan_token: "none" },
  "POST /api/v1/config/source": { project: "docker-nas", writer: "one", name: "Docker, host nas" },
  "POST /api/v1/config/adopt": { project: "shop", kind: "monitor", key: `key${mark}`, id: targetId },
  "POST /api/v1/config/detach": { project: "shop", kind: "monitor", key: `key${mark}`, id: targetId },
  "POST /api/v1/api-tokens": { name: "Pipeline", scopes: ["org:read"] },
  "POST /api/v1/orgs": { name: "Second" },
  "PATCH /api/v1/orgs/{id}": { name: "Acme" },
  "PATCH /api/v1/orgs/{id}/members/{user_id}": { role: "member" },
  "POST /api/v1/orgs/{id}/invitations": { email: `new${mark}@example.org`, role: "member" },
  "POST /api/v1/invitations/accept": { code: "a code" },
  "POST /api/v1/auth/magic-link": { email: "olga@example.org" },
  "POST /api/v1/sessions": { code: "a code" },
  "POST /api/v1/sessions/current/verify": { password: "not the password" },
  "POST /api/v1/me/totp/confirm": { code: "no code" },
  "POST /api/v1/sessions/passkey": { response: { ...credential, response: assertion } },
  "POST /api/v1/me/passkeys": { name: "Laptop", response: { ...credential, response: attestation } },
  "PATCH /api/v1/me/passkeys/{id}": { name: "Phone" },
  "PUT /api/v1/me/password": { current: "correct horse battery", password: "correct horse battery" },
  "PATCH /operator/orgs/{id}": { plan: "selfhost", overrides: { max_targets: 50 } },
  "POST /operator/regions": { id: "north", name: "North" },
  "PATCH /operator/regions/{id}": { name: "North" },
  "POST /operator/agents": { name: "North 1", region: "default" },
  "PATCH /operator/agents/{id}": { name: "North 2" },
  "POST /api/v1/targets/bulk": [{ name: "Shop", check: tcp }],
  "POST /api/v1/targets/bulk-action": { ids: [targetId], action: { type: "enable" } },
  "PUT /api/v1/targets/{id}/regions": { regions: ["default"] },
});
