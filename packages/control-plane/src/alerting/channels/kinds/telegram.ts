import Type, { type Static } from "typebox";
import { checkAll } from "@statusmesh/shared/schema/faults";
import { asObject } from "@statusmesh/shared/json";
import type { OutboundReply } from "../../../platform/outbound/client.ts";
import type { Content } from "../sending/content.ts";
import { fitted, textLines } from "../sending/message-text.ts";
import { messageText } from "../sending/message.ts";
import { channelKind, holds, ConfigText, SecretText, type Transports } from "./kind.ts";
import { deliver, isPermanent, jsonObject, jsonRequest, type VendorFailure, wordOf } from "./deliver.ts";
import { Shape } from "../../../platform/http/wire.ts";

const TelegramConfig = Shape("TelegramConfig", "Posts to a Telegram chat through your own bot", {
  type: Type.Literal("telegram"),
  bot_token: SecretText({
    maxLength: 200,
    description: "Token of your bot, from @BotFather; reads as ***",
    examples: ["123456789:AAExampleExampleExampleExampleExampl"],
    form: { label: "Bot token", placeholder: "123456789:AAE…", hint: "From @BotFather. Encrypted; reads as ***." },
  }),
  chat_id: ConfigText({
    maxLength: 64,
    description: "Id of a chat, negative for a group, or @name of a public channel",
    examples: ["-1001234567890"],
    form: {
      label: "Chat id",
      placeholder: "-1001234567890",
      hint: "The bot must be a member of the chat. Groups have negative ids.",
    },
  }),
});

export const telegramOrigin = "https://api.telegram.org";
/** UTF-16 code units of a message (https://core.telegram.org/bots/api#sendmessage, #messageentity). */
const maxUnits = 4096;

/**
 * Text for sendMessage without parse_mode. A word joiner after @ keeps a name of customers from mentioning a member of
 * the chat.
 */
export function telegramText(content: Content): string {
  const message = messageText(content);
  const quiet = (text: string): string => text.replaceAll(/@(?=\w)/g, "@\u2060");
  return fitted(
    {
      ...message,
      title: quiet(message.title),
      facts: message.facts.map(({ label, value }) => ({ label: quiet(label), value: quiet(value) })),
    },
    textLines,
    maxUnits,
  );
}

/**
 * Sends with a bot, with `more` parameters: sendMessage, https://core.telegram.org/bots/api#sendmessage. The token is part of the URL; errors
 * never contain the URL.
 */
export async function sendTelegram(
  { http }: Transports,
  { bot_token, chat_id }: Omit<Static<typeof TelegramConfig>, "type">,
  content: Content,
  more: object = {},
): Promise<void> {
  await deliver(
    http,
    jsonRequest(`${telegramOrigin}/bot${bot_token}/sendMessage`, {
      chat_id,
      text: telegramText(content),
      link_preview_options: { is_disabled: true },
      ...more,
    }),
    telegramFailure,
  );
}

/** `ok: false` with a description and parameters (https://core.telegram.org/bots/api#making-requests). */
function telegramFailure(reply: OutboundReply): VendorFailure | null {
  const body = jsonObject(reply);
  if (body["ok"] === true) return null;
  const { retry_after: wait, migrate_to_chat_id: moved } = asObject(body["parameters"]);
  if (typeof moved === "number" || typeof moved === "string")
    return {
      reason: `the group became a supergroup with the chat id ${moved}: replace chat_id with it`,
      permanent: true,
    };
  const code = body["error_code"];
  const inSuccess = reply.status < 300;
  const reason = wordOf(body["description"]) || (typeof code === "number" ? `error ${code}` : "");
  return {
    reason: reason || (inSuccess ? "no confirmation in the reply" : reply.text),
    ...(typeof wait === "number" && wait >= 0 ? { retryAfterSecs: Math.ceil(wait) } : {}),
    ...(inSuccess ? { permanent: typeof code === "number" && isPermanent(code) } : {}),
  };
}

export const telegram = channelKind({
  type: "telegram",
  label: "Telegram bot",
  purpose: "A bot of your own",
  icon: "telegram",
  schema: TelegramConfig,
  rules({ bot_token, chat_id }) {
    checkAll(
      holds(
        /^[\w:-]+$/.test(bot_token),
        "A bot token looks like 123456789:AAExample, with letters, digits, - and _ only.",
        "/bot_token",
      ),
      holds(
        /^(?:-?\d{1,20}|@[A-Za-z]\w{0,62})$/.test(chat_id),
        "The chat id is a whole number, negative for a group, or @name of a public channel.",
        "/chat_id",
      ),
    );
  },
  address: () => ({ url: telegramOrigin, pointer: null }),
  send: async (config, { content }, transports) => sendTelegram(transports, config, content),
});
