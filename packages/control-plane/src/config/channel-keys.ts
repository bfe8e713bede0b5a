import Type from "typebox";
import { secret, text } from "./reader.ts";

/** The bot, the number and the reports of vendors that link codes and hooks need. */
export const linkedChannels = {
  slack: Type.Object({
    signing_secret: secret(
      "Signing secret of the Slack app whose incoming webhooks channels use: messages get a button, /hooks/slack is on",
      "32 hexadecimal digits",
      "^(?:[0-9a-f]{32})?$",
    ),
  }),
  telegram: Type.Object({
    bot_token: secret(
      "Token of the Telegram bot that link codes connect chats to",
      "a token from @BotFather",
      "^(?:\\d+:[\\w-]+)?$",
    ),
    bot_username: text("", "Username of that bot, without @", "a username like statusmesh_bot", "^(?:\\w{5,32})?$"),
    webhook_secret: secret(
      "Secret that Telegram sends to /hooks/telegram",
      "16 to 256 of A-Z a-z 0-9 - _",
      "^(?:[A-Za-z0-9_-]{16,256})?$",
    ),
  }),
  whatsapp: Type.Object({
    access_token: secret(
      "Access token of the WhatsApp number that link codes are sent to",
      "a token without spaces",
      "^\\S*$",
    ),
    phone_number_id: text("", "Id of that number at Meta", "digits", "^\\d*$"),
    app_secret: secret(
      "Secret of the Meta app, which signs requests to /hooks/whatsapp",
      "a secret without spaces",
      "^\\S*$",
    ),
    verify_token: secret(
      "Token of the verification request of Meta",
      "at least 16 characters without spaces",
      "^(?:\\S{16,})?$",
    ),
    number: text("", "That number in international format", "a number like +4915112345678", "^(?:\\+[1-9]\\d{6,14})?$"),
    template_name: text(
      "statusmesh_alert",
      "Approved template with {{1}} summary, {{2}} details and {{3}} link in its body",
      "a name of a-z, 0-9 and _",
      "^[a-z0-9_]+$",
    ),
    template_language: text(
      "en",
      "Language of the template",
      "a language like en or en_US",
      "^[a-z]{2,3}(?:_[A-Za-z]{2,4})?$",
    ),
  }),
  pagerduty: Type.Object({
    signing_secret: secret(
      "Signing secret of the webhook subscription at PagerDuty; empty turns /hooks/pagerduty off",
      "a secret of at least 16 characters without spaces",
      "^(?:[!-~]{16,256})?$",
    ),
  }),
  resend: Type.Object({
    signing_secret: secret(
      "Signing secret of the webhook at Resend; empty turns /hooks/resend off",
      "whsec_ and base64",
      "^(?:whsec_[A-Za-z0-9+/]{16,}={0,2})?$",
    ),
  }),
};
