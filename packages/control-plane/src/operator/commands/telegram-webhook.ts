import { asObject, parsedJson } from "@statusmesh/shared/json";
import { messageOf } from "@statusmesh/shared/thrown";
import type { Config } from "../../config/config.ts";
import type { Clock } from "../../platform/process/clock.ts";
import { createOutbound } from "../../platform/outbound/client.ts";

/** Update types that /hooks/telegram reads. */
const allowedUpdates = ["message", "channel_post", "my_chat_member"];

/**
 * `statusmesh telegram-webhook`: registers /hooks/telegram at the Bot API (https://core.telegram.org/bots/api#setwebhook).
 * Repeating it changes nothing. Returns the exit code: 78 without a configured bot or an https address, 1 when Telegram
 * refuses or does not answer. No message contains the token, which is part of the URL.
 */
export async function registerTelegramWebhook(
  { channels, server }: Config,
  clock: Clock,
  say: (line: string) => void,
): Promise<number> {
  const { bot_token: token, webhook_secret: secret } = channels.telegram;
  if (token === "" || secret === "") {
    say("There is no bot: set channels.telegram.bot_token, bot_username and webhook_secret.");
    return 78;
  }
  if (!server.public_url.startsWith("https:")) {
    say(`Telegram sends to https only, and server.public_url is ${server.public_url}.`);
    return 78;
  }
  const hook = `${server.public_url.replace(/\/$/, "")}/hooks/telegram`;
  const outbound = createOutbound({ allowPrivate: false, clock });
  try {
    const { status, text } = await outbound.send({
      method: "POST",
      url: `https://api.telegram.org/bot${token}/setWebhook`,
      endpoint: channels.endpoints["telegram"] || undefined,
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ url: hook, secret_token: secret, allowed_updates: allowedUpdates }),
    });
    if (status === 200) {
      say(`Telegram sends updates to ${hook}.`);
      return 0;
    }
    say(`Telegram answered ${status}: ${descriptionOf(text)}`);
  } catch (error) {
    say(`Telegram cannot be reached: ${messageOf(error)}`);
  }
  return 1;
}

/** `description` of an error reply (https://core.telegram.org/bots/api#making-requests), on one line. */
function descriptionOf(text: string): string {
  const { description } = asObject(parsedJson(text));
  return typeof description === "string" ? description.replaceAll(/\s+/g, " ").slice(0, 200) : "no description";
}
