import { createHmac } from "node:crypto";
import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import { asObject, type Json } from "@statusmesh/shared/json";
import { dayMs } from "@statusmesh/shared/time";
import { useCode } from "../../alerting/channel-links/service.ts";
import { acknowledgeAtPager, acknowledgeInWords, acknowledgeReply } from "../../alerting/acknowledge/service.ts";
import { acknowledgeAction, type InboundRequest, readInbound } from "../../alerting/channels/kinds/service.ts";
import {
  channelsAt,
  disableAt,
  moveTelegramChat,
  replyThrough,
  smsChannels,
  tellVendor,
} from "../../alerting/channels/sending/service.ts";
import { afterCommit, inTransaction, type System } from "../../platform/context.ts";
import { endSubscriptions } from "../../publishing/subscribers/service.ts";
import { sameSecret } from "../../platform/crypto/token.ts";
import { claimEvent, forgetEvents, type Source } from "./queries.ts";
import { listOf, objectIn, textOf } from "./reading.ts";

/** Age of a signed request that is still accepted, seconds (https://docs.svix.com/receiving/verifying-payloads/how-manual). */
const toleranceSecs = 300;

const forged = () => new AppError("UNAUTHENTICATED", "The request is not signed with the configured secret.");
const notHere = () => new AppError("NOT_FOUND", "There is no such route.");

/** Handles an event once, in one transaction. Returns null for a duplicate. */
async function once<T>(
  system: System,
  source: Source,
  id: string,
  work: (tx: System) => Promise<T>,
): Promise<T | null> {
  return await inTransaction(system, async (tx) => {
    const now = tx.clock.now();
    await forgetEvents(tx.sql, new Date(now - 7 * dayMs));
    return (await claimEvent(tx.sql, source, id, new Date(now))) ? await work(tx) : null;
  });
}

const codeIn = (text: string): string | null => /(?:^|\s)([\w-]{43})(?:\s|$)/.exec(text)?.[1] ?? null;

/** Redeems a code and returns the reply for the chat. */
async function connectInWords(tx: System, code: string, use: Parameters<typeof useCode>[2]): Promise<string> {
  try {
    const name = await useCode(tx, code, use);
    return name === null
      ? "This code is unknown, used or expired. Create a new one in StatusMesh."
      : `Connected. This chat receives the notifications of the channel “${name}”.`;
  } catch (error) {
    if (error instanceof AppError) return `Not connected: ${error.message}`;
    throw error;
  }
}

/** Throws NOT_FOUND without a bot, UNAUTHENTICATED for another secret than that of `channels.telegram`. */
export function authenticateTelegram({ config }: System, secret: string): void {
  if (config.channels.telegram.webhook_secret === "") throw notHere();
  if (!sameSecret(secret, config.channels.telegram.webhook_secret)) throw forged();
}

const telegramAction = "POST /hooks/telegram";

/**
 * Handles an update of the bot (https://core.telegram.org/bots/api#update): a code, /stop, the removal of the bot, and a
 * migrated group. Returns the Bot API method to call in reply, `{}` for none.
 */
export async function handleTelegram(system: System, update: Json): Promise<Json> {
  const id = update["update_id"];
  if (typeof id !== "number") return {};
  return (await once(system, "telegram", String(id), async (tx) => telegramUpdate(tx, update))) ?? {};
}

async function telegramUpdate(tx: System, update: Json): Promise<Json> {
  const member = asObject(update["my_chat_member"]);
  const status = textOf(asObject(member["new_chat_member"])["status"]);
  if (status === "left" || status === "kicked") {
    const chat = asObject(member["chat"]);
    const reason =
      chat["type"] === "private" ? "the bot was blocked in Telegram" : "the bot was removed from the Telegram chat";
    await disableAt(tx, chatPlace(chat), reason, telegramAction);
    return {};
  }
  const pressed = asObject(update["callback_query"]);
  if (textOf(pressed["id"]) !== "") return await telegramPressed(tx, pressed);
  const message = asObject(update["message"] ?? update["channel_post"]);
  const chat = asObject(message["chat"]);
  const chatId = textOf(chat["id"]);
  if (chatId === "") return {};
  const moved = textOf(message["migrate_to_chat_id"]);
  if (moved !== "") {
    await moveTelegramChat(tx, chatId, moved, telegramAction);
    return {};
  }
  const text = textOf(message["text"]).trim();
  const [, command, argument = ""] = /^\/(start|stop)(?:@\w+)?(?:\s+(\S+))?$/.exec(text) ?? [];
  if (command === "stop") {
    const stopped = await disableAt(tx, chatPlace(chat), "stopped with /stop in Telegram", telegramAction);
    return say(
      chatId,
      stopped === 0 ? "No channel is connected here." : "Stopped. This chat receives no more notifications.",
    );
  }
  // A message of the code alone also counts: people copy it without the command.
  const code = command === "start" ? argument : (/^[\w-]{43}$/.exec(text)?.[0] ?? "");
  if (code === "") return {};
  const title = textOf(chat["title"]) || [textOf(chat["first_name"]), textOf(chat["last_name"])].join(" ").trim();
  const name = nameOf(title, "Telegram");
  const config = { type: "telegram_app", chat_id: chatId, chat_title: name } as const;
  return say(chatId, await connectInWords(tx, code, { config, name, action: telegramAction }));
}

/**
 * A press of the button that acknowledges (https://core.telegram.org/bots/api#callbackquery): the reply ends the progress
 * bar of who pressed, and the message loses its button and says who it was.
 */
async function telegramPressed(tx: System, pressed: Json): Promise<Json> {
  const [from, message] = [asObject(pressed["from"]), asObject(pressed["message"])];
  const person = nameOf([textOf(from["first_name"]), textOf(from["last_name"])].join(" "), textOf(from["username"]));
  const said = await acknowledgeInWords(tx, textOf(pressed["data"]), { action: telegramAction, person });
  const text = textOf(message["text"]);
  const { bot_token: botToken } = tx.config.channels.telegram;
  if (text !== "" && botToken !== "")
    await afterCommit(tx, (system) =>
      tellVendor(system, "telegram", {
        method: "POST",
        url: `https://api.telegram.org/bot${botToken}/editMessageText`,
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
          chat_id: asObject(message["chat"])["id"],
          message_id: message["message_id"],
          text: `${text.slice(0, 4096 - 2 - said.length).toWellFormed()}\n\n${said}`,
          link_preview_options: { is_disabled: true },
        }),
      }),
    );
  return { method: "answerCallbackQuery", callback_query_id: pressed["id"], text: said.slice(0, 200).toWellFormed() };
}

/** Throws NOT_FOUND without `channels.slack`, UNAUTHENTICATED for bytes that Slack has not signed, or long ago. */
export function authenticateSlack(
  { config, clock }: System,
  { timestamp, signature }: { timestamp: string; signature: string },
  body: Buffer,
): void {
  const { signing_secret: secret } = config.channels.slack;
  if (secret === "") throw notHere();
  // https://docs.slack.dev/authentication/verifying-requests-from-slack
  const age = Math.abs(clock.now() / 1000 - Number(timestamp || Number.NaN));
  const mac = createHmac("sha256", secret).update(`v0:${timestamp}:`).update(body).digest("hex");
  if (!sameSecret(signature, `v0=${mac}`) || !(age <= toleranceSecs)) throw forged();
}

/**
 * Handles a press of the button that acknowledges
 * (https://docs.slack.dev/reference/interaction-payloads/block_actions-payload): the message loses its button and says
 * who it was.
 */
export async function handleSlack(system: System, body: Buffer): Promise<void> {
  const payload = objectIn(Buffer.from(new URLSearchParams(body.toString("utf8")).get("payload") ?? ""));
  const action = listOf(payload["actions"])
    .map(asObject)
    .find((one) => one["action_id"] === acknowledgeAction);
  if (action === undefined) return;
  const user = asObject(payload["user"]);
  const person = nameOf(textOf(user["name"]) || textOf(user["username"]), "");
  const said = await acknowledgeInWords(system, textOf(action["value"]), { action: "POST /hooks/slack", person });
  const url = textOf(payload["response_url"]);
  if (!url.startsWith("https://hooks.slack.com/")) return;
  const text = textOf(asObject(payload["message"])["text"]);
  const layout = { mrkdwn: false, parse: "none", link_names: false, unfurl_links: false, unfurl_media: false };
  await tellVendor(system, "slack", {
    method: "POST",
    url,
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ replace_original: true, text, attachments: [{ text: said, mrkdwn_in: [] }], ...layout }),
  });
}

/** `ack` covers what the last message listed as open, `ack all` everything that was told; null for another text. */
function readAck(text: string): "last" | "all" | null {
  const [verb = "", scope = "last", ...rest] = text.trim().toLowerCase().replace(/[.!]$/, "").split(/\s+/, 3);
  if (!["ack", "acknowledge"].includes(verb) || rest.length > 0) return null;
  return scope === "last" || scope === "all" ? scope : null;
}

/**
 * Handles an answer to a text message by {@link readAck}, and replies how many incidents it has acknowledged. Throws
 * UNAUTHENTICATED unless the provider has signed it for the account of a channel.
 */
export async function handleSms(system: System, provider: string, request: InboundRequest): Promise<void> {
  const message = readInbound(provider, request);
  const channels = message === null ? [] : await smsChannels(system, message.from);
  const answered = channels.filter(({ config }) => message!.isFor(config));
  if (answered.length === 0) throw forged();
  const ack = readAck(message!.text);
  if (ack === null) return;
  const action = `POST /hooks/sms/${provider}`;
  await once(system, "sms", `${provider}/${message!.id}`, async (tx) => {
    const channelIds = answered.map(({ id }) => id);
    const text = await acknowledgeReply(tx, { channelIds, everything: ack === "all", action });
    await afterCommit(tx, (after) => replyThrough(after, channelIds[0]!, text));
  });
}

const chatPlace = (chat: Json) => ({ kind: "telegram_app", field: "chat_id", value: textOf(chat["id"]) }) as const;
const say = (chatId: string, text: string): Json => ({ method: "sendMessage", chat_id: chatId, text });

/** Name of a channel, from the name of a chat or profile. */
function nameOf(text: string, fallback: string): string {
  const clean = text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ")
    .normalize("NFC")
    .trim();
  const name = [...clean].slice(0, 80).join("").trim();
  return /[\p{L}\p{N}\p{S}\p{P}]/u.test(name) ? name : fallback;
}

/** The challenge of Meta's verification request; throws for another token. */
export function whatsappChallenge({ config }: System, query: URLSearchParams): string {
  const { verify_token } = config.channels.whatsapp;
  if (query.get("hub.mode") !== "subscribe" || !sameSecret(query.get("hub.verify_token") ?? "", verify_token))
    throw new AppError("FORBIDDEN", "The verify token is not the configured one.");
  return query.get("hub.challenge") ?? "";
}

/** Throws unless the bytes are signed (https://developers.facebook.com/docs/graph-api/webhooks/getting-started). */
export function authenticateWhatsapp({ config }: System, signature: string, body: Buffer): void {
  const { app_secret } = config.channels.whatsapp;
  if (app_secret === "") throw notHere();
  const wanted = `sha256=${createHmac("sha256", app_secret).update(body).digest("hex")}`;
  if (!sameSecret(signature, wanted)) throw forged();
}

const whatsappAction = "POST /hooks/whatsapp";

/**
 * Handles messages to the number
 * (https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/reference/messages): a code,
 * `stop`, or `ack`.
 */
export async function handleWhatsapp(system: System, event: Json): Promise<void> {
  for (const entry of listOf(event["entry"]))
    for (const change of listOf(asObject(entry)["changes"])) {
      const value = asObject(asObject(change)["value"]);
      const number = textOf(asObject(value["metadata"])["phone_number_id"]);
      if (number !== system.config.channels.whatsapp.phone_number_id) continue;
      for (const message of listOf(value["messages"])) await whatsappMessage(system, asObject(message), value);
    }
}

async function whatsappMessage(system: System, message: Json, value: Json): Promise<void> {
  const [id, from, text] = [
    textOf(message["id"]),
    textOf(message["from"]),
    textOf(asObject(message["text"])["body"]).trim(),
  ];
  if (id === "" || !/^\d{6,20}$/.test(from)) return;
  const phone = `+${from}`;
  await once(system, "whatsapp", id, async (tx) => {
    if (/^stop[.!]?$/i.test(text)) {
      const place = { kind: "whatsapp_app", field: "phone", value: phone } as const;
      await disableAt(tx, place, "stopped with a message from the phone", whatsappAction);
      return;
    }
    const ack = readAck(text);
    if (ack !== null) {
      const channelIds = await channelsAt(tx, { kind: "whatsapp_app", field: "phone", value: phone });
      await acknowledgeReply(tx, { channelIds, everything: ack === "all", action: whatsappAction });
      return;
    }
    const code = codeIn(text);
    if (code === null) return;
    const contact = listOf(value["contacts"])
      .map(asObject)
      .find((one) => textOf(one["wa_id"]) === from);
    const name = nameOf(textOf(asObject(contact?.["profile"])["name"]), "WhatsApp");
    const config = { type: "whatsapp_app", phone, profile_name: name } as const;
    await connectInWords(tx, code, { config, name, action: whatsappAction });
  });
}

/**
 * Throws unless one of the signatures is right: while a secret is replaced, there are several
 * (https://developer.pagerduty.com/docs/webhook-signatures). They have no time: {@link handlePagerDuty} refuses what is
 * old.
 */
export function authenticatePagerDuty({ config }: System, signatures: string, body: Buffer): void {
  const { signing_secret: secret } = config.channels.pagerduty;
  if (secret === "") throw notHere();
  const wanted = `v1=${createHmac("sha256", secret).update(body).digest("hex")}`;
  const offered = signatures.split(",", maxSignatures).map((one) => one.trim());
  if (offered.filter((one) => sameSecret(one, wanted)).length === 0) throw forged();
}

const maxSignatures = 10;
/** Age of an event of PagerDuty that is still handled: less than the time for which handled events are remembered. */
const maxPagerDutyAgeMs = 3 * dayMs;

/**
 * Handles an event of PagerDuty (https://developer.pagerduty.com/docs/webhooks-overview): an acknowledgement of an
 * alert acknowledges its incidents. Others are ignored, as are events of alerts that this installation has not sent.
 */
export async function handlePagerDuty(system: System, body: Json): Promise<void> {
  const event = asObject(body["event"]);
  const [id, key] = [textOf(event["id"]), textOf(asObject(event["data"])["incident_key"])];
  const at = Date.parse(textOf(event["occurred_at"]));
  if (event["event_type"] !== "incident.acknowledged" || id === "" || !isId(key)) return;
  if (!(Math.abs(system.clock.now() - at) <= maxPagerDutyAgeMs)) return;
  const agent = asObject(event["agent"]);
  const person = agent["type"] === "user_reference" ? nameOf(textOf(agent["summary"]), "") : "";
  const by = { action: "POST /hooks/pagerduty", person: person === "" ? null : person };
  await once(system, "pagerduty", id.slice(0, 200), async (tx) => {
    await acknowledgeAtPager(tx, { kind: "pagerduty", key, at: new Date(at), ...by });
  });
}

/** Throws unless the bytes are signed and fresh (https://docs.svix.com/receiving/verifying-payloads/how-manual). */
export function authenticateResend(
  { config, clock }: System,
  headers: { id: string; timestamp: string; signature: string },
  body: Buffer,
): void {
  const { signing_secret } = config.channels.resend;
  if (signing_secret === "") throw notHere();
  const age = Math.abs(clock.now() / 1000 - Number(headers.timestamp || Number.NaN));
  const key = Buffer.from(signing_secret.replace(/^whsec_/, ""), "base64");
  const signed = createHmac("sha256", key).update(`${headers.id}.${headers.timestamp}.`).update(body).digest("base64");
  const offered = headers.signature.split(" ").slice(0, 10);
  const holds = offered.filter((one) => sameSecret(one, `v1,${signed}`)).length > 0;
  if (!holds || headers.id === "" || !(age <= toleranceSecs)) throw forged();
}

/**
 * Handles an event of Resend (https://resend.com/docs/webhooks/emails/bounced): a permanent bounce or a complaint
 * disables every email channel with that address, of every organisation, and ends its subscriptions.
 */
export async function handleResend(system: System, id: string, event: Json): Promise<void> {
  const data = asObject(event["data"]);
  const bounce = asObject(data["bounce"]);
  const permanent = event["type"] === "email.bounced" && textOf(bounce["type"]).toLowerCase() === "permanent";
  if (!permanent && event["type"] !== "email.complained") return;
  const detail = nameOf(textOf(bounce["message"]), "the mailbox does not exist").slice(0, 200).toWellFormed();
  const reason = permanent ? `mail to the address bounced: ${detail}` : "the recipient reported a mail as spam";
  await once(system, "resend", id, async (tx) => {
    const addresses = new Set(listOf(data["to"]).map((to) => addressIn(textOf(to))));
    for (const value of [...addresses].sort()) {
      await disableAt(tx, { kind: "email", field: "to", value }, reason, "POST /hooks/resend");
      await endSubscriptions(tx, value);
    }
  });
}

/** `Ops <ops@example.org>` as `ops@example.org`. */
const addressIn = (text: string): string => (/<([^<>]+)>\s*$/.exec(text)?.[1] ?? text).trim().toLowerCase();
