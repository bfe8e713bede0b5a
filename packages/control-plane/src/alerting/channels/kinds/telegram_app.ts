import Type from "typebox";
import { acknowledgeTokenIn } from "../sending/message-text.ts";
import { messageText } from "../sending/message.ts";
import { channelKind, DeliveryError } from "./kind.ts";
import { sendTelegram, telegramOrigin } from "./telegram.ts";
import { Shape, Text } from "../../../platform/http/wire.ts";

const TelegramAppConfig = Shape(
  "TelegramAppConfig",
  "A chat that was connected to the Telegram bot of the installation with a link code",
  {
    type: Type.Literal("telegram_app"),
    chat_id: Text("Id of the connected chat", "-1001234567890"),
    chat_title: Text("Name of the chat when it was connected", "Ops"),
  },
);

/** A button whose press comes to /hooks/telegram (https://core.telegram.org/bots/api#inlinekeyboardbutton). */
const buttonOf = (token: string): object => ({
  reply_markup: { inline_keyboard: [[{ text: "Acknowledge", callback_data: token }]] },
});

/** A chat with the bot of the installation (`channels.telegram`). */
export const telegramApp = channelKind({
  type: "telegram_app",
  label: "Telegram",
  purpose: "Connected by a code",
  icon: "telegram",
  delegable: ({ telegram: { bot_token } }) => bot_token !== "",
  schema: TelegramAppConfig,
  managed: true,
  address: () => ({ url: telegramOrigin, pointer: null }),
  endpoints: [],
  endpoint: () => "telegram",
  async send({ chat_id }, { content }, transports) {
    const { bot_token, webhook_secret } = transports.central.telegram;
    if (bot_token === "") throw new DeliveryError("no Telegram bot is configured (channels.telegram)");
    const token = acknowledgeTokenIn(messageText(content));
    const button = token === null || webhook_secret === "" ? {} : buttonOf(token);
    await sendTelegram(transports, { bot_token, chat_id }, content, button);
  },
});
