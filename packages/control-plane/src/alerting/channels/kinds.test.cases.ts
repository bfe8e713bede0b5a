import type { ChannelType } from "./kinds/index.ts";
import { segmentsOf } from "./kinds/sms/segments.ts";

/*
 * One case per kind for the conformance suite (kinds.test.ts). A kind without a case does not compile.
 */

/** A request or a mail that a kind sends. */
export interface Sent {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: string;
}

export interface KindCase {
  /** A config of every field. The values of secrets are unique texts of at least 16 characters. */
  config: Record<string, unknown>;
  /** Changes that make the config invalid, the field of the error and a part of its message. */
  refused: [changes: Record<string, unknown>, field: string, message: RegExp][];
  /** Body of the vendor's reply to an accepted message, where the kind reads it. */
  accepts?: string;
  /** True for a kind that sends mail; the tests of HTTP replies skip it. */
  mail?: true;
  /** True for a kind whose channels are created by link codes only. */
  managed?: true;
  /** Bodies of 200 replies that report an error, with the text of the error and whether it is final. */
  errorsIn200?: { body: string; error: RegExp; permanent: boolean }[];
  /** The texts of a body that the vendor shows. */
  texts(body: string): string[];
  /** Mentions, links or formatting in {@link texts}; null for a kind that programs read. */
  markup: RegExp | null;
  /** The message of a violated limit of the vendor; null for none. */
  overLimit(body: string): string | null;
}

/** The key pair of the sender in RFC 8291 section 5, as that of the installation. */
export const exampleKeys = {
  publicKey: "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8",
  privateKey: "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw",
};

type Json = Record<string, unknown>;
const json = (body: string): Json => JSON.parse(body) as Json;

/** Every text in a JSON value. */
function allTexts(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(allTexts) : [];
}

/** Every object in a JSON value. */
function elementsOf(value: unknown): Json[] {
  if (typeof value !== "object" || value === null) return [];
  const own = Array.isArray(value) ? [] : [value as Json];
  return [...own, ...Object.values(value).flatMap(elementsOf)];
}

export const kindCases: Record<ChannelType, KindCase> = {
  slack: {
    config: { type: "slack", webhook_url: "https://hooks.slack.com/services/T000/B000/SECRET-OF-SLACK" },
    refused: [
      [{ webhook_url: "http://hooks.slack.com/services/T/B/X" }, "/webhook_url", /https/],
      [{ webhook_url: "https://hooks.slack.com/services/T/B/X?a=b" }, "/webhook_url", /no query/],
      [{ webhook_url: "hooks.slack.com" }, "/webhook_url", /not a URL/],
    ],
    texts: (body) => [String(json(body)["text"])],
    markup: /<(?!https:\/\/status\.example\.org\b)/,
    overLimit: (body) => ([...String(json(body)["text"])].length > 4000 ? "text" : null),
    errorsIn200: [
      { body: '{"ok":false,"error":"invalid_token"}', error: /answered 200: invalid_token/, permanent: true },
    ],
  },
  discord: {
    config: { type: "discord", webhook_url: "https://discord.com/api/webhooks/123456789012/SECRET-OF-DISCORD" },
    refused: [
      [{ webhook_url: "http://discord.com/api/webhooks/1/abc" }, "/webhook_url", /https/],
      [{ webhook_url: "https://discord.com.evil.example/api/webhooks/1/abc" }, "/webhook_url", /begins with https/],
      [{ webhook_url: "https://discord.com:8443/api/webhooks/1/abc" }, "/webhook_url", /begins with https/],
      [{ webhook_url: "https://discord.com/channels/1/2" }, "/webhook_url", /begins with https/],
      [{ webhook_url: "https://discord.com/api/webhooks/1/abc/slack" }, "/webhook_url", /ends with \/slack/],
    ],
    texts: (body) => [String(json(body)["content"]).replaceAll(/\\[\p{P}\p{S}]/gu, "")],
    markup: /[*_~`|@[\]]|<(?!https:\/\/status\.example\.org\b)|:\/\/(?!status\.example\.org)/,
    overLimit: (body) => (String(json(body)["content"]).length > 2000 ? "content" : null),
  },
  msteams: {
    config: {
      type: "msteams",
      webhook_url:
        "https://default1234.ae.environment.api.powerplatform.com:443/powerautomate/automations/direct/workflows/1234abcd5678/triggers/manual/paths/invoke?api-version=1&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=SECRET-OF-TEAMS",
    },
    refused: [
      [{ webhook_url: "https://acme.webhook.office.com/webhookb2/x/IncomingWebhook/y" }, "/webhook_url", /retired/],
      [{ webhook_url: "https://outlook.office.com/webhook/x" }, "/webhook_url", /retired.*Workflows/],
      [{ webhook_url: "https://prod-1.westeurope.logic.azure.com/workflows/x" }, "/webhook_url", /no sig parameter/],
      [{ webhook_url: "https://logic.azure.com.evil.example/?sig=x" }, "/webhook_url", /not the URL of a Teams/],
      [{ webhook_url: "https://evillogic.azure.com/?sig=x" }, "/webhook_url", /not the URL of a Teams/],
      [{ webhook_url: "http://prod-1.westeurope.logic.azure.com/?sig=x" }, "/webhook_url", /https/],
      [{ webhook_url: "no URL" }, "/webhook_url", /URL/],
    ],
    // TextRun is the only element that shows text as it is.
    texts: (body) =>
      elementsOf(json(body))
        .flatMap((it) => (it["type"] === "TextRun" ? [] : [it["text"], it["title"]]))
        .map(String),
    markup: /[*_~`<>[\]]/,
    overLimit: (body) => (Buffer.byteLength(body) > 28_000 ? "28 KB" : null),
  },
  google_chat: {
    config: {
      type: "google_chat",
      webhook_url:
        "https://chat.googleapis.com/v1/spaces/AAAA1234/messages?key=SECRET-KEY-OF-CHAT&token=SECRET-OF-CHAT",
    },
    refused: [
      [{ webhook_url: "https://chat.google.com/v1/spaces/A/messages?key=a&token=b" }, "/webhook_url", /begins with/],
      [{ webhook_url: "https://chat.googleapis.com/v1/spaces/A/messages" }, "/webhook_url", /key and token/],
      [{ webhook_url: "http://chat.googleapis.com/v1/spaces/A/messages?key=a&token=b" }, "/webhook_url", /https/],
    ],
    texts: (body) => [String(json(body)["text"])],
    markup: /[*~`<>]|(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/u,
    overLimit: (body) => (String(json(body)["text"]).length > 4096 || Buffer.byteLength(body) > 32_000 ? "text" : null),
  },
  webhook: {
    config: {
      type: "webhook",
      url: "https://hooks.example.org/alerts/SECRET-OF-WEBHOOK",
      headers: { "X-Api-Key": "SECRET-IN-A-HEADER" },
      secret: "SECRET-OF-SIGNATURE",
      template: null,
    },
    refused: [
      [{ url: "http://hooks.example.org/" }, "/url", /https/],
      [{ secret: "short" }, "/secret", /at least 16/],
      [{ template: '{"text": {{title}}}' }, "/template", /not JSON.*inside a string/],
      [{ template: '{"text": "{{titel}}"}' }, "/template", /no field \{\{titel\}\}.*title, text/],
      [{ template: '"{{__proto__}}"' }, "/template", /no field/],
      [
        { template: '{"text": "{{title}} of {{url}"}' },
        "/template",
        /"\{\{url\}"\}" is not closed: write \{\{field\}\}/,
      ],
      // Quadratic and cubic expressions take seconds for these.
      [{ template: `"{{${" ".repeat(16_000)}"` }, "/template", /not closed/],
      [{ template: `"${"{{ ".repeat(5_000)}"` }, "/template", /not closed/],
      [{ template: `"${"ä".repeat(8192)}"` }, "/template", /16 KiB/],
    ],
    texts: (body) => allTexts(json(body)),
    markup: null,
    overLimit: () => null,
  },
  pagerduty: {
    config: { type: "pagerduty", routing_key: "SECRET0OF0PAGERDUTY0000123456789" },
    accepts: '{"status":"success","message":"Event processed","dedup_key":"a"}',
    refused: [
      [{ routing_key: "SECRET0OF0PAGERDUTY000012345678" }, "/routing_key", /32 letters and digits/],
      [{ routing_key: "SECRET-OF-PAGERDUTY-000012345678" }, "/routing_key", /32 letters and digits/],
    ],
    texts: (body) => allTexts(json(body)),
    markup: null,
    overLimit: (body) =>
      [...allTexts((json(body)["payload"] as Json | undefined)?.["summary"] ?? "")].join("").length > 1024
        ? "summary"
        : null,
  },
  ntfy: {
    config: {
      type: "ntfy",
      topic: "ops_Alerts-1",
      server_url: "https://ntfy.example.org",
      access_token: "tk_SECRET-OF-NTFY",
    },
    refused: [
      [{ topic: "a b" }, "/topic", /1 to 64/],
      [{ topic: "a".repeat(65) }, "/topic", /1 to 64/],
      [{ topic: "" }, "/topic", /1 to 64/],
      [{ server_url: "http://ntfy.example.org" }, "/server_url", /https/],
      [{ server_url: "https://ntfy.example.org/ops" }, "/server_url", /root of the server/],
      [{ server_url: "https://ntfy.example.org/?a=b" }, "/server_url", /no query/],
      [{ access_token: "tk_\u00e4" }, "/access_token", /ASCII/],
      [{ access_token: "tk_\r\nx-evil: 1" }, "/access_token", /ASCII/],
    ],
    // Neither title nor message is Markdown, and nobody can be mentioned.
    texts: (body) => allTexts(json(body)),
    markup: /^$/,
    overLimit: (body) => (Buffer.byteLength(String(json(body)["message"])) > 4096 ? "message" : null),
  },
  gotify: {
    config: { type: "gotify", url: "https://push.example.org/gotify/", token: "SECRET-OF-GOTIFY" },
    accepts: '{"id":25,"appid":1,"message":"…"}',
    refused: [
      [{ url: "http://push.example.org" }, "/url", /https.*allow_private_targets/],
      [{ url: "https://push.example.org/?token=a" }, "/url", /no query/],
      [{ token: "two words" }, "/token", /without blanks/],
    ],
    texts: (body) => [json(body)["title"], json(body)["message"]].map(String),
    markup: /^$/,
    overLimit: (body) => (String(json(body)["message"]).length > 4096 ? "message" : null),
  },
  mattermost: {
    config: { type: "mattermost", webhook_url: "https://chat.example.org/team/hooks/SECRET-OF-MATTERMOST" },
    refused: [
      [{ webhook_url: "http://chat.example.org/hooks/abc" }, "/webhook_url", /https.*allow_private_targets/],
      [{ webhook_url: "https://chat.example.org/api/v4/posts" }, "/webhook_url", /ends with \/hooks\//],
    ],
    texts: (body) => [String(json(body)["text"]).replaceAll(/\\[\p{P}\p{S}]/gu, "")],
    markup: /[*_~`|#[\]]|@\w|:[\w+-]+:|:\/\/(?!status\.example\.org\b)|www\.\w|<(?!https:\/\/status\.example\.org\b)/,
    overLimit: (body) => (String(json(body)["text"]).length > 16_383 ? "text" : null),
  },
  matrix: {
    config: {
      type: "matrix",
      homeserver: "https://matrix.example.org",
      access_token: "syt_SECRET-OF-MATRIX",
      room_id: "!qporfwtidtrDHcQwOI:example.org",
    },
    accepts: '{"event_id":"$YUwRidLecu:example.org"}',
    refused: [
      [{ homeserver: "http://matrix.example.org" }, "/homeserver", /https.*allow_private_targets/],
      [{ access_token: "two words" }, "/access_token", /without blanks/],
      [{ room_id: "#ops:example.org" }, "/room_id", /begins with !/],
    ],
    errorsIn200: [
      { body: '{"errcode":"M_FORBIDDEN","error":"Not in the room"}', error: /M_FORBIDDEN: Not in/, permanent: false },
      { body: "<html>", error: /no event id/, permanent: false },
    ],
    // A body is plain text; m.mentions says that nobody is mentioned.
    texts: (body) => [String(json(body)["body"])],
    markup: /^$/,
    overLimit: (body) => (Buffer.byteLength(body) > 60_000 ? "event" : null),
  },
  signal: {
    config: {
      type: "signal",
      url: "https://signal.example.org",
      number: "+4915112345678",
      recipients: ["+491518765432109", "group.QUJDREVGR0hJSktMTU5PUFFSU1Q="],
    },
    accepts: '{"timestamp":"1764000000000"}',
    refused: [
      [{ url: "http://signal.example.org" }, "/url", /https.*allow_private_targets/],
      [{ number: "015112345678" }, "/number", /international/],
      [{ recipients: ["+4915187654321", "Olga"] }, "/recipients/1", /phone number/],
    ],
    errorsIn200: [{ body: '{"error":"untrusted identity"}', error: /untrusted identity/, permanent: false }],
    texts: (body) => [String(json(body)["message"])],
    markup: /^$/,
    overLimit: (body) => (String(json(body)["message"]).length > 2000 ? "message" : null),
  },
  opsgenie: {
    config: { type: "opsgenie", api_key: "SECRET-OF-OPSGENIE-0123", region: "jsm" },
    accepts: '{"result":"Request will be processed","took":0.3,"requestId":"43a29c5c"}',
    refused: [[{ api_key: "two words" }, "/api_key", /without blanks/]],
    texts: (body) => allTexts(json(body)),
    markup: null,
    overLimit(body) {
      const { message = "", description = "" } = json(body) as { message?: string; description?: string };
      return [...message].length > 130 ? "message" : description.length > 15_000 ? "description" : null;
    },
  },
  pushover: {
    config: {
      type: "pushover",
      token: "SECRETxTOKENxOFxPUSHOVER123456",
      user: "SECRETxUSERxKEYxPUSHOVER123456",
      device: "phone",
    },
    accepts: '{"status":1,"request":"e460545a8b333d0da2f3602aff3133d6"}',
    refused: [
      [{ token: "short" }, "/token", /API token of Pushover has 30/],
      [{ user: "SECRET-USER-KEY-PUSHOVER123456" }, "/user", /user key of Pushover has 30/],
      [{ device: "my phone" }, "/device", /1 to 25/],
    ],
    errorsIn200: [
      {
        body: '{"status":0,"errors":["user identifier is invalid"]}',
        error: /user identifier is invalid/,
        permanent: true,
      },
    ],
    texts: (body) => [...new URLSearchParams(body).values()],
    markup: /^$/,
    overLimit(body) {
      const limits = { title: 250, message: 1024, url: 512, url_title: 100 };
      const form = new URLSearchParams(body);
      return Object.entries(limits).find(([name, most]) => [...(form.get(name) ?? "")].length > most)?.[0] ?? null;
    },
  },
  telegram: {
    config: { type: "telegram", bot_token: "123456789:SECRET-OF-TELEGRAM", chat_id: "-1001234567890" },
    refused: [
      [{ bot_token: "123/../x" }, "/bot_token", /bot token/],
      [{ chat_id: "ops" }, "/chat_id", /whole number/],
    ],
    accepts: '{"ok":true,"result":{"message_id":1}}',
    errorsIn200: [
      {
        body: '{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}',
        error: /chat not found/,
        permanent: true,
      },
      { body: '{"ok":false,"error_code":429,"parameters":{"retry_after":9}}', error: /error 429/, permanent: false },
      { body: '{"ok":false,"parameters":{"migrate_to_chat_id":-1009}}', error: /-1009/, permanent: true },
      { body: "<html>", error: /no confirmation/, permanent: false },
    ],
    texts: (body) => [String(json(body)["text"])],
    markup: /@\w/,
    overLimit: (body) => (String(json(body)["text"]).length > 4096 ? "text" : null),
  },
  telegram_app: {
    config: { type: "telegram_app", chat_id: "-1001234567890", chat_title: "Ops" },
    managed: true,
    refused: [],
    accepts: '{"ok":true,"result":{"message_id":1}}',
    texts: (body) => [String(json(body)["text"])],
    markup: /@\w/,
    overLimit: (body) => (String(json(body)["text"]).length > 4096 ? "text" : null),
  },
  whatsapp_app: {
    config: { type: "whatsapp_app", phone: "+4915112345678", profile_name: "Olga" },
    managed: true,
    refused: [],
    accepts: '{"messaging_product":"whatsapp","messages":[{"id":"wamid.1"}]}',
    texts: (body) => allTexts((json(body)["template"] as Json)["components"]).filter((text) => text !== "text"),
    markup: /[\n\t]| {5}/,
    overLimit: (body) =>
      allTexts((json(body)["template"] as Json)["components"]).join("").length > 1024 ? "1024 characters" : null,
  },
  whatsapp: {
    config: {
      type: "whatsapp",
      access_token: "EAAG-SECRET-OF-WHATSAPP",
      phone_number_id: "106540352242922",
      to: "+4915112345678",
      template_name: "statusmesh_alert",
      language_code: "en_US",
    },
    refused: [
      [{ access_token: "two words" }, "/access_token", /no spaces/],
      [{ phone_number_id: "+49151" }, "/phone_number_id", /digits/],
      [{ to: "015112345678" }, "/to", /international/],
      [{ template_name: "Status-Mesh" }, "/template_name", /lower-case/],
      [{ language_code: "English" }, "/language_code", /en_US/],
    ],
    accepts: '{"messaging_product":"whatsapp","messages":[{"id":"wamid.1"}]}',
    errorsIn200: [
      { body: '{"error":{"message":"(#132001) Template","code":132001}}', error: /132001/, permanent: true },
      { body: '{"error":{"message":"(#130429) Rate limit","code":130429}}', error: /Rate limit/, permanent: false },
      { body: "{}", error: /no message id/, permanent: false },
    ],
    texts: (body) => allTexts((json(body)["template"] as Json)["components"]).filter((text) => text !== "text"),
    markup: /[\n\t]| {5}/,
    overLimit: (body) =>
      allTexts((json(body)["template"] as Json)["components"]).join("").length > 1024 ? "1024 characters" : null,
  },
  sms: {
    config: {
      type: "sms",
      provider: "twilio",
      to: "+4915112345678",
      from: "+15005550006",
      account_sid: "AC0123456789abcdef0123456789abcdef",
      auth_token: "SECRET-OF-TWILIO-0123",
    },
    refused: [
      [{ to: "015112345678" }, "/to", /international/],
      [{ from: "a sender that is long" }, "/from", /11 letters/],
      [{ account_sid: "AC12" }, "/account_sid", /32 hexadecimal/],
      [{ auth_token: "two words" }, "/auth_token", /without spaces/],
      [{ api_key: "a1b2c3d4" }, "/api_key", /Twilio has no api_key/],
      [{ provider: "telnyx", account_sid: undefined, auth_token: undefined }, "/api_key", /Telnyx needs api_key/],
      [{ provider: "sinch", account_sid: undefined, auth_token: undefined }, "/service_plan_id", /Sinch needs/],
    ],
    accepts: '{"sid":"SM1","status":"queued"}',
    errorsIn200: [
      { body: '{"status":"failed","error_code":30008,"error_message":"Unknown"}', error: /30008/, permanent: true },
    ],
    texts: (body) => [new URLSearchParams(body).get("Body")!],
    markup: /[…“”–]/,
    overLimit: (body) => (segmentsOf(new URLSearchParams(body).get("Body")!) > 3 ? "three segments" : null),
  },
  web_push: {
    // Keys of RFC 8291 section 5.
    config: {
      type: "web_push",
      endpoint: "https://push.example.org/push/SECRET-OF-THE-BROWSER",
      p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
      auth: "BTBZMqHH6r4Tts7J_aSIgg",
      server_key: exampleKeys.publicKey,
      private: false,
      expires_at: null,
    },
    managed: true,
    refused: [],
    texts: (body) => [json(body)["title"], json(body)["body"]].map(String),
    markup: /^$/,
    overLimit: (body) => (Buffer.byteLength(body) > 3072 ? "3 KiB" : null),
  },
  email: {
    config: { type: "email", to: "oncall@example.org" },
    refused: [[{ to: "a@example.org,b@example.org" }, "/to", /one email address/]],
    mail: true,
    texts: (body) => [body.slice(body.indexOf("\n---\n"))],
    markup: /<\/?b>|<!channel|<@|<U123|href="https:\/\/evil/,
    overLimit: () => null,
  },
};
