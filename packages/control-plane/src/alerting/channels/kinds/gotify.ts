import Type from "typebox";
import { checkAll } from "@statusmesh/shared/schema/faults";
import { factsAndAcknowledge, fitted } from "../sending/message-text.ts";
import { messageText } from "../sending/message.ts";
import { deliver, jsonRequest } from "./deliver.ts";
import { below, channelKind, headerToken, ownServer, ConfigText, SecretText } from "./kind.ts";
import { Shape } from "../../../platform/http/wire.ts";

/** Ours: Gotify has no documented limit, and a phone shows far less. */
const maxMessageLength = 4096;
/** Clients ring from 8 on (https://gotify.net/docs/more-settings#message-priority). */
const priorities = { urgent: 8, usual: 5, recovered: 2 };

const GotifyConfig = Shape("GotifyConfig", "Pushes through a Gotify server", {
  type: Type.Literal("gotify"),
  url: ConfigText({
    maxLength: 2048,
    description: "Address of the Gotify server, with its base path where it has one",
    examples: ["https://gotify.example.org"],
    form: { label: "Server URL", control: "url", hint: "The address at which you open Gotify in a browser." },
  }),
  token: SecretText({
    maxLength: 200,
    description: "Token of an application; reads as ***",
    examples: ["AXcpjnKsZdOvTYi"],
    form: { label: "Application token", hint: "In Gotify: Apps, Create application. Stored encrypted." },
  }),
});

/** Gotify: https://gotify.net/docs/pushmsg. The extras say that the text is plain and where a tap leads. */
export const gotify = channelKind({
  type: "gotify",
  label: "Gotify",
  purpose: "Push to phones, self-hosted",
  icon: "gotify",
  phone: true,
  delegable: () => true,
  schema: GotifyConfig,
  address: ({ url }) => ({ url, pointer: "/url" }),
  rules({ url, token }, allowed) {
    checkAll(() => ownServer(url, "/url", allowed), headerToken(token, "A token of Gotify", "/token"));
  },
  async send({ url, token }, { content }, { http }) {
    const message = messageText(content);
    const push = {
      title: message.title,
      message: fitted(message, factsAndAcknowledge, maxMessageLength),
      priority: message.tone === "up" ? priorities.recovered : message.urgent ? priorities.urgent : priorities.usual,
      extras: {
        "client::display": { contentType: "text/plain" },
        "client::notification": { click: { url: message.url } },
      },
    };
    await deliver(http, jsonRequest(below(url, "/message"), push, { "x-gotify-key": token }));
  },
});
