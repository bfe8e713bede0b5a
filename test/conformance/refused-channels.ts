import { createHmac } from "node:crypto";
import type { Sql } from "postgres";
import { newId } from "@statusmesh/shared/ids";
import { castIn } from "../harness/cast.ts";
import { make } from "./isolation/things.ts";
import type { Stage } from "./refusals.ts";
import { type Case, refusedBody } from "./refused.ts";

/** An email channel whose address is not confirmed. */
async function emailChannel(sql: Sql, orgId: string): Promise<string> {
  const id = newId();
  await sql`
    insert into channels (id, org_id, name, kind, config, enabled, write_source, created_at, updated_at)
    values
      (${id}, ${orgId}, ${id}, 'email', ${sql.json({ type: "email", to: "ops@example.org" })}, true, 'api', now(),
        now())`;
  return id;
}

/** The link that a message of the delivery has. */
async function acknowledgePath(sql: Sql, deliveryId: string): Promise<string> {
  const [key] = await sql<{ secret: string }[]>`select secret from signing_keys where name = 'acknowledge'`;
  const proof = createHmac("sha256", key!.secret).update(deliveryId).digest().subarray(0, 16);
  const token = Buffer.concat([Buffer.from(deliveryId.replaceAll("-", ""), "hex"), proof]);
  return `/a/${token.toString("base64url")}`;
}

/** Unconfirmed channels and invalid links. */
export async function gatedChannels({ sql, olga, milan, anonymous, asking }: Stage): Promise<Case[]> {
  const path = "/api/v1/notification-channels";
  const home = { orgId: olga.orgId, userId: olga.userId, ownerId: olga.userId, memberId: milan.userId };
  const webhook = await make.channel(sql, home, "");
  const email = await emailChannel(sql, olga.orgId);
  const tired = await emailChannel(sql, olga.orgId);
  for (let sent = 0; sent < 5; sent++)
    await sql`
      insert into channel_verifications (id, org_id, channel_id, address, code_hash, resent, created_at, expires_at)
      values (${newId()}, ${olga.orgId}, ${tired}, 'ops@example.org', ${Buffer.from(newId())}, true, now(), now())`;
  const { olga: busy } = await castIn(sql);
  const full = { ...home, orgId: busy.orgId };
  for (let n = 0; n < 50; n++) {
    await make.delegation(sql, full, "");
    if (n < 20) await make.telegramCode(sql, full, "");
    if (n < 20) await make.whatsappCode(sql, full, "");
  }
  const over = await make.incident(sql, home, "");
  const delivery = await make.delivery(sql, home, over);
  await sql`update incidents set ended_at = now(), outage_since = null where id = ${over}`;
  const overPath = await acknowledgePath(sql, delivery);
  const absent = newId();
  const tooMany = (route: string, code: Case["code"]): Case => ({
    title: `one code too many at ${route}`,
    ask: `POST ${path}/${route}`,
    send: { json: {} },
    as: asking(busy.token),
    code,
  });
  return [
    tooMany("telegram-link", "TELEGRAM_LINK_LIMIT"),
    tooMany("whatsapp-link", "WHATSAPP_LINK_LIMIT"),
    tooMany("delegate", "DELEGATE_LINK_LIMIT"),
    { title: "an unknown Telegram code", ask: `GET ${path}/telegram-link/${absent}`, code: "TELEGRAM_LINK_NOT_FOUND" },
    { title: "an unknown WhatsApp code", ask: `GET ${path}/whatsapp-link/${absent}`, code: "WHATSAPP_LINK_NOT_FOUND" },
    {
      title: "an unknown delegation link",
      ask: `DELETE ${path}/delegate/${absent}`,
      code: "DELEGATE_LINK_NOT_FOUND",
    },
    refusedBody(`POST ${path}/delegate`)("a kind without a form", { kind: "sms" }, "DELEGATE_KIND_INVALID", "/kind"),
    refusedBody(`POST ${path}`)(
      "a kind that codes create",
      { name: "App", config: { type: "telegram_app", chat_id: "1", chat_title: "x" } },
      "CHANNEL_KIND_MANAGED",
    ),
    { title: "a forged update of Telegram", ask: "POST /hooks/telegram", as: anonymous, code: "UNAUTHENTICATED" },
    { title: "a hook that is not configured", ask: "POST /hooks/resend", as: anonymous, code: "NOT_FOUND" },
    { title: "a test of an unconfirmed address", ask: `POST ${path}/${email}/test`, code: "CHANNEL_UNVERIFIED" },
    {
      title: "a test of an email config that is not stored",
      ask: `POST ${path}/test`,
      send: { json: { config: { type: "email", to: "ops@example.org" } } },
      code: "CHANNEL_UNVERIFIED",
    },
    {
      title: "a verification of a webhook",
      ask: `POST ${path}/${webhook}/resend-verification`,
      code: "CHANNEL_NOT_VERIFIABLE",
    },
    {
      title: "one verification mail too many",
      ask: `POST ${path}/${tired}/resend-verification`,
      code: "CHANNEL_VERIFICATION_LIMIT",
    },
    {
      title: "a link to acknowledge that is cut off",
      ask: "POST /a/guess",
      as: anonymous,
      code: "ACKNOWLEDGE_LINK_INVALID",
    },
    {
      title: "a link to acknowledge what is over",
      ask: `POST ${overPath}`,
      as: anonymous,
      code: "ACKNOWLEDGE_LINK_EXPIRED",
    },
    { title: "a code that was never sent", ask: "POST /confirm/guess", as: anonymous, code: "CHANNEL_LINK_INVALID" },
    {
      title: "a link to unsubscribe that is forged",
      ask: `POST /unsubscribe/${email}/guess`,
      as: anonymous,
      code: "CHANNEL_LINK_INVALID",
    },
  ];
}
