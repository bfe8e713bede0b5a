import type { Sql } from "postgres";
import { inPlain } from "@statusmesh/control-plane/platform/crypto/seal";
import { newToken } from "@statusmesh/control-plane/platform/crypto/token";
import { newId } from "@statusmesh/shared/ids";
import { insertTargetsIn } from "../../harness/targets.ts";
import { goodBodies, webhook } from "../bodies.ts";

/** Kinds of things that ids name. */
export type Thing =
  | "target"
  | "heartbeat"
  | "share"
  | "channel"
  | "device"
  | "window"
  | "occurrence"
  | "snooze"
  | "mailChannel"
  | "reportRecipient"
  | "updateTemplate"
  | "certificate"
  | "clientCertificate"
  | "telegramCode"
  | "whatsappCode"
  | "delegation"
  | "page"
  | "component"
  | "readerToken"
  | "subscriber"
  | "incident"
  | "delivery"
  | "session"
  | "identity"
  | "passkey"
  | "apiToken"
  | "connectedApp"
  | "org"
  | "member"
  | "invitation"
  | "auditEntry"
  | "region";

/** Owner of new fixtures: an organisation with its owner and a member, one of whom has the sessions and tokens. */
export interface Home {
  readonly orgId: string;
  readonly userId: string;
  readonly ownerId: string;
  readonly memberId: string;
}

type Make = (sql: Sql, home: Home, parent: string) => Promise<string>;

async function linkCode(sql: Sql, orgId: string, purpose: string): Promise<string> {
  const id = newId();
  await sql`
    insert into channel_links (id, org_id, purpose, code_hash, created_at, expires_at)
    values (${id}, ${orgId}, ${purpose}, ${Buffer.from(id)}, now(), now() + interval '1 hour')`;
  return id;
}

/** An authority, or with a key a client certificate; no agent uses it. */
async function certificateOf(sql: Sql, { orgId }: Home, key: string | null): Promise<string> {
  const id = newId();
  await sql`
    insert into certificates
      (id, org_id, name, kind, certificate, private_key, subject, expires_at, created_at, updated_at)
    values (${id}, ${orgId}, ${id}, ${key === null ? "ca" : "client"}, 'PEM', ${key}, 'CN=Test',
      now() + interval '1 year', now(), now())`;
  return id;
}

/** Inserts a new thing and returns its id; `parent` is the preceding id of the path. */
export const make: Readonly<Record<Thing, Make>> = {
  async target(sql, { orgId }) {
    const id = newId();
    await insertTargetsIn(sql, { ids: [id], orgId, region: "default", intervalSecs: 60, confirmations: 2 });
    return id;
  },
  async heartbeat(sql, { orgId }) {
    const id = newId();
    const spec = {
      type: "heartbeat",
      period: 60_000,
      schedule: null,
      grace: 60_000,
      max_runtime: null,
      methods: "any",
    } as const;
    await insertTargetsIn(sql, {
      ids: [id],
      orgId,
      region: "heartbeat",
      intervalSecs: 60,
      confirmations: 1,
      spec: () => spec,
    });
    await sql`insert into heartbeats (target_id, token) values (${id}, ${inPlain(id)})`;
    return id;
  },
  async share(sql, { orgId }, targetId) {
    const id = newId();
    await sql`
      insert into shares (id, org_id, target_id, token_hash, token_sealed, created_at)
      values (${id}, ${orgId}, ${targetId}, ${Buffer.from(id)}, ${inPlain(id)}, now())`;
    return id;
  },
  async channel(sql, { orgId }) {
    const id = newId();
    const config = sql.json({ ...webhook, headers: {}, secret: null });
    await sql`
      insert into channels (id, org_id, name, kind, config, enabled, write_source, created_at, updated_at)
      values (${id}, ${orgId}, ${id}, 'webhook', ${config}, true, 'api', now(), now())`;
    return id;
  },
  async device(sql, { orgId, userId }) {
    const id = newId();
    const { name, subscription } = goodBodies({ targetId: "", mark: id })[
      "POST /api/v1/notification-channels/devices"
    ] as { name: string; subscription: { endpoint: string; keys: { p256dh: string; auth: string } } };
    const config = sql.json({
      type: "web_push",
      endpoint: inPlain(subscription.endpoint),
      p256dh: subscription.keys.p256dh,
      auth: inPlain(subscription.keys.auth),
      server_key: "",
      private: false,
      expires_at: null,
    });
    await sql`
      insert into channels (id, org_id, name, kind, config, enabled, write_source, created_at, updated_at, owner_id,
        device_name, endpoint_hash)
      values (${id}, ${orgId}, 'Device of a member', 'web_push', ${config}, true, 'api', now(), now(), ${userId},
        ${name}, ${Buffer.from(id)})`;
    return id;
  },
  async mailChannel(sql, { orgId }) {
    const id = newId();
    const config = sql.json({ type: "email", to: `${id}@example.org` });
    await sql`
      insert into channels (id, org_id, name, kind, config, enabled, verified_at, write_source, created_at, updated_at)
      values (${id}, ${orgId}, ${id}, 'email', ${config}, true, now(), 'api', now(), now())`;
    return id;
  },
  async reportRecipient(sql, home) {
    const id = newId();
    const channelId = await make.mailChannel(sql, home, "");
    await sql`
      insert into report_recipients (id, org_id, channel_id, created_at)
      values (${id}, ${home.orgId}, ${channelId}, now())`;
    return id;
  },
  async window(sql, { orgId }) {
    const id = newId();
    await sql`
      insert into maintenance_windows
        (id, org_id, title, starts_at, ends_at, over_at, write_source, created_at, updated_at)
      values (${id}, ${orgId}, 'Upgrade', now() + interval '1 day', now() + interval '2 days',
        now() + interval '2 days', 'api', now(), now())`;
    await sql`
      insert into maintenance_occurrences (id, window_id, org_id, starts_at, ends_at)
      select id, id, org_id, starts_at, ends_at from maintenance_windows where id = ${id}`;
    return id;
  },
  async occurrence(sql, _home, windowId) {
    await sql`
      update maintenance_windows set recurrence_rule = 'FREQ=WEEKLY', recurrence_time_zone = 'UTC', over_at = null,
        generated_until = now() + interval '60 days' where id = ${windowId}`;
    return windowId;
  },
  async snooze(sql, { orgId }) {
    const id = newId();
    await sql`
      insert into snoozes (id, org_id, scope, until, created_by, created_at)
      values (${id}, ${orgId}, ${sql.json({ tag: "snoozed" })}, now() + interval '1 day',
        ${sql.json({ type: "engine", id: null, name: null })}, now())`;
    return id;
  },
  async updateTemplate(sql, { orgId }) {
    const id = newId();
    await sql`
      insert into update_templates (id, org_id, kind, name, body, created_at, updated_at)
      values (${id}, ${orgId}, 'incident', ${id}, 'Text', now(), now())`;
    return id;
  },
  certificate: (sql, home) => certificateOf(sql, home, null),
  clientCertificate: (sql, home) => certificateOf(sql, home, inPlain("key")),
  telegramCode: (sql, { orgId }) => linkCode(sql, orgId, "telegram"),
  whatsappCode: (sql, { orgId }) => linkCode(sql, orgId, "whatsapp"),
  delegation: (sql, { orgId }) => linkCode(sql, orgId, "delegation"),
  async page(sql, { orgId }) {
    const id = newId();
    const branding = sql.json({
      display_name: null,
      about: null,
      brand_color: null,
      style: "auto",
      show_powered_by: true,
      website_url: null,
      hide_from_search: false,
    });
    await sql`
      insert into status_pages (id, org_id, slug, name, enabled, branding, created_at, updated_at)
      values (${id}, ${orgId}, ${`p-${id.slice(-12)}`}, 'Page', true, ${branding}, now(), now())`;
    return id;
  },
  async component(sql, home, pageId) {
    const id = await make.target(sql, home, "");
    await sql`
      insert into status_page_components (page_id, target_id, org_id, sort_order)
      values (${pageId}, ${id}, ${home.orgId}, 0)`;
    return id;
  },
  async readerToken(sql, { orgId }, pageId) {
    const id = newId();
    await sql`
      insert into reader_tokens (id, org_id, page_id, name, scope, token_hash, hint, created_at)
      values (${id}, ${orgId}, ${pageId}, ${id}, 'data', ${Buffer.from(id)}, 'hint', now())`;
    return id;
  },
  async subscriber(sql, { orgId }, pageId) {
    const id = newId();
    await sql`
      insert into subscribers (id, org_id, page_id, kind, address, token, state, asked_at, created_at)
      values (${id}, ${orgId}, ${pageId}, 'email', ${`${id}@example.org`}, ${id}, 'active', now(), now())`;
    return id;
  },
  async incident(sql, home) {
    const id = newId();
    const targetId = await make.target(sql, home, "");
    await sql`
      insert into incidents
        (id, org_id, target_id, started_at, opened_at, outage_since, severity, impact, peak_impact,
          regions_down, regions_up, created_at, updated_at)
      values
        (${id}, ${home.orgId}, ${targetId}, now(), now(), now(), 'major', 'major_outage', 'major_outage', '{default}',
          '{}', now(), now())`;
    const content = { status_line: "HTTP/1.1 500", headers: [], headers_omitted: 0, body: null, body_state: "none" };
    await sql`
      insert into failure_snapshots (id, org_id, target_id, region, slot, content)
      values (${newId()}, ${home.orgId}, ${targetId}, 'default', now(), ${`plain:${JSON.stringify(content)}`})`;
    return id;
  },
  async delivery(sql, home, incidentId) {
    const id = newId();
    // Its channel pauses, so that no deliverer changes the row while the test compares rows.
    const channelId = await make.channel(sql, home, "");
    await sql`insert into channel_health (channel_id, paused_until) values (${channelId}, now() + interval '1 day')`;
    await sql`
      insert into deliveries (id, org_id, incident_id, channel_id, channel_name, channel_kind, reason, seq, notice,
        state, created_at)
      select ${id}, i.org_id, i.id, ${channelId}, 'Paused', 'webhook', 'reminder', 0, '{}', 'dead', now()
      from incidents i where i.id = ${incidentId}`;
    return id;
  },
  async session(sql, { userId, orgId }) {
    const id = newId();
    await sql`
      insert into sessions (id, user_id, org_id, secret_hash, created_at, last_used_at, expires_at)
      values (${id}, ${userId}, ${orgId}, ${Buffer.from(id)}, now(), now(), now() + interval '1 hour')`;
    return id;
  },
  async identity(sql, { userId }) {
    const id = newId();
    await sql`
      insert into user_identities (id, user_id, provider, issuer, subject, email, created_at, last_used_at)
      values (${id}, ${userId}, 'google', 'https://accounts.google.com', ${id}, ${`${id}@example.org`}, now(), now())`;
    return id;
  },
  async passkey(sql, { userId }) {
    const id = newId();
    // Of another host: it signs nobody in, so it is never the last way.
    await sql`
      insert into passkeys (id, user_id, rp_id, credential_id, public_key, counter, name, created_at)
      values (${id}, ${userId}, 'old.example.org', ${Buffer.from(id)}, '', 0, 'Laptop', now())`;
    return id;
  },
  async apiToken(sql, { userId, orgId }) {
    const id = newId();
    await sql`
      insert into api_tokens (id, user_id, org_id, name, token_hash, scopes, created_at)
      values (${id}, ${userId}, ${orgId}, 'Planted', ${Buffer.from(newToken(""))}, '{targets:read}', now())`;
    return id;
  },
  async connectedApp(sql, { userId, orgId }) {
    const id = newId();
    await sql`
      insert into oauth_clients (id, name, redirect_uris, created_at, expires_at)
      values (${id}, 'App', '{https://app.example/cb}', now(), now() + interval '1 day')`;
    await sql`
      insert into oauth_connections (id, client_id, user_id, org_id, redirect_host, scopes, audience, created_at,
        expires_at)
      values (${id}, ${id}, ${userId}, ${orgId}, 'app.example', '{targets:read}', 'https://mcp.example.org', now(),
        now() + interval '1 day')`;
    return id;
  },
  async org(sql, { ownerId, memberId }) {
    const id = newId();
    await sql`
      insert into orgs (id, slug, name, plan_id, created_at, updated_at)
      values (${id}, ${`o-${id.slice(-12)}`}, 'Fresh', 'selfhost', now(), now())`;
    await sql`
      insert into memberships (org_id, user_id, role, created_at)
      values (${id}, ${ownerId}, 'owner', now()), (${id}, ${memberId}, 'member', now())`;
    return id;
  },
  async member(sql, _home, orgId) {
    const id = newId();
    await sql`insert into users (id, email, created_at) values (${id}, ${`${id}@example.org`}, now())`;
    await sql`insert into memberships (org_id, user_id, role, created_at) values (${orgId}, ${id}, 'member', now())`;
    return id;
  },
  async invitation(sql, _home, orgId) {
    const id = newId();
    await sql`
      insert into invitations (id, org_id, email, role, code_hash, created_at, expires_at)
      values (${id}, ${orgId}, ${`${id}@example.org`}, 'member', ${Buffer.from(id)}, now(), now() + interval '1 day')`;
    return id;
  },
  async auditEntry(sql, _home, orgId) {
    const id = newId();
    await sql`
      insert into audit_log (id, org_id, at, actor_type, action, write_source)
      values (${id}, ${orgId}, now(), 'system', 'POST /api/v1/targets', 'api')`;
    return id;
  },
  region: () => Promise.resolve("default"),
};
