import Type from "typebox";
import { checkAll } from "@statusmesh/shared/schema/faults";
import { factLines, fitted, type MessageText } from "../sending/message-text.ts";
import { messageText } from "../sending/message.ts";
import { deliver, jsonRequest } from "./deliver.ts";
import { type AllowedUrls, channelKind, headerToken, invalid, ownServer, ConfigText } from "./kind.ts";
import { Shape } from "../../../platform/http/wire.ts";

/** A longer message becomes an attachment (https://docs.ntfy.sh/publish/#limitations). */
const maxMessageBytes = 4096;

const NtfyConfig = Shape("NtfyConfig", "Publishes to a topic of ntfy", {
  type: Type.Literal("ntfy"),
  topic: Type.String({
    pattern: "^[A-Za-z0-9_-]{1,64}$",
    expects: "The topic has 1 to 64 letters, digits, _ and -",
    description: "Topic to publish to: 1 to 64 letters, digits, _ and -",
    examples: ["ops-alerts-x7Kp2"],
    form: {
      label: "Topic",
      placeholder: "ops-alerts-x7Kp2",
      hint: "On a public server anyone who knows the topic can read it: choose one that cannot be guessed.",
    },
  }),
  server_url: ConfigText({
    maxLength: 2048,
    default: "https://ntfy.sh",
    description: "Root of the ntfy server",
    form: {
      label: "Server URL",
      control: "url",
      placeholder: "https://ntfy.sh",
      hint: "Root URL of your own server or the public one.",
    },
  }),
  access_token: Type.Optional(
    Type.Union([Type.String({ minLength: 1, maxLength: 1024 }), Type.Null()], {
      description: "For a protected topic, sent as Authorization: Bearer; reads as ***; null for none",
      examples: [null],
      secret: true,
      form: { label: "Access token", hint: "For a protected topic. Stored encrypted." },
    }),
  ),
});

function rootUrlRule(serverUrl: string, allowed: AllowedUrls): void {
  if (ownServer(serverUrl, "/server_url", allowed).pathname !== "/")
    invalid(
      "The server URL is the root of the server, such as https://ntfy.sh. Enter the topic in its own field.",
      "/server_url",
    );
}

/** Buttons: https://docs.ntfy.sh/publish/#action-buttons. The app sends the POST that acknowledges itself. */
const actionsOf = ({ acknowledgeUrl, linkLabel, url }: MessageText): object[] => [
  ...(acknowledgeUrl === null
    ? []
    : [{ action: "http", label: "Acknowledge", url: acknowledgeUrl, method: "POST", clear: true }]),
  { action: "view", label: linkLabel, url },
];

/**
 * ntfy, published as JSON because headers are ASCII only: https://docs.ntfy.sh/publish/#publish-as-json. Text is not
 * Markdown unless asked for.
 */
export const ntfy = channelKind({
  type: "ntfy",
  label: "ntfy",
  purpose: "Push to phones, self-hosted",
  icon: "ntfy",
  phone: true,
  delegable: () => true,
  schema: NtfyConfig,
  complete: (config) => ({ ...config, access_token: config.access_token ?? null }),
  address: ({ server_url }) => ({ url: server_url, pointer: "/server_url" }),
  rules({ server_url, access_token }, allowed) {
    checkAll(
      () => rootUrlRule(server_url, allowed),
      ...(access_token == null ? [] : [headerToken(access_token, "An access token", "/access_token")]),
    );
  },
  async send({ server_url, topic, access_token }, { content }, { http }) {
    const message = messageText(content);
    const text = fitted(message, factLines, maxMessageBytes, Buffer.byteLength);
    const authorization = access_token == null ? {} : { authorization: `Bearer ${access_token}` };
    await deliver(
      http,
      jsonRequest(
        `${new URL(server_url).origin}/`,
        {
          topic,
          title: message.title,
          message: text,
          priority: message.urgent ? 4 : 3,
          tags: [message.tone === "test" ? "bell" : message.tone === "up" ? "white_check_mark" : "rotating_light"],
          click: message.url,
          actions: actionsOf(message),
        },
        authorization,
      ),
    );
  },
});
