import Type from "typebox";
import { checkAll } from "@statusmesh/shared/schema/faults";
import { factsAndAcknowledge, fitted } from "../sending/message-text.ts";
import { messageText } from "../sending/message.ts";
import { channelKind, holds, SecretText } from "./kind.ts";
import { deliver, formRequest, jsonObject, joined, wordOf } from "./deliver.ts";
import { Shape } from "../../../platform/http/wire.ts";

const origin = "https://api.pushover.net";
/** Limits in characters, of up to 4 bytes in UTF-8 (https://pushover.net/api#limits). */
const maxTitleLength = 250;
const maxMessageLength = 1024;
const maxUrlLength = 512;

/** `rules` checks the format of secrets, so that a mask is reported as one. */
const key = (label: string, where: string) =>
  SecretText({
    maxLength: 100,
    description: `${label}, 30 letters and digits; reads as ***`,
    examples: [label.startsWith("API") ? "azGDORePK8gMaC0QOYAMyEEuzJnyUi" : "uQiRzpo4DXghDmr9QzzfQu27cmVRsG"],
    form: { label, hint: `${where} 30 letters and digits. Stored encrypted.` },
  });

const PushoverConfig = Shape("PushoverConfig", "Notifies devices through Pushover", {
  type: Type.Literal("pushover"),
  token: key("API token", "Of the application that you created at pushover.net."),
  user: key("User key", "Of the user or group that is notified."),
  device: Type.Union(
    [
      Type.String({
        pattern: "^[A-Za-z0-9_-]{1,25}(?:,[A-Za-z0-9_-]{1,25})*$",
        maxLength: 250,
        expects: "A device name has 1 to 25 letters, digits, _ and -; commas separate several",
      }),
      Type.Null(),
    ],
    {
      default: null,
      description: "Names of devices, separated by commas; null: all devices of the user",
      examples: ["phone"],
      form: { label: "Device", placeholder: "phone", hint: "Empty: all devices. Several are separated by commas." },
    },
  ),
});

const length = (text: string): number => [...text].length;

/** Pushover message API: https://pushover.net/api. Text is plain unless `html` is set. */
export const pushover = channelKind({
  type: "pushover",
  label: "Pushover",
  purpose: "Push to phones",
  icon: "pushover",
  phone: true,
  delegable: () => true,
  schema: PushoverConfig,
  address: () => ({ url: origin, pointer: null }),
  rules(config) {
    const key = (field: "token" | "user", name: string) =>
      holds(/^[A-Za-z0-9]{30}$/.test(config[field]), `${name} of Pushover has 30 letters and digits.`, `/${field}`);
    checkAll(key("token", "An API token"), key("user", "A user key"));
  },
  async send({ token, user, device }, { content }, { http }) {
    const message = messageText(content);
    const high = message.urgent || (content.kind === "notice" && content.notice.urgency === "high");
    const form = {
      token,
      user,
      ...(device === null ? {} : { device }),
      title: [...message.title].slice(0, maxTitleLength).join(""),
      message: fitted(message, factsAndAcknowledge, maxMessageLength, length),
      priority: message.tone === "up" ? "-1" : high ? "1" : "0",
      ...(length(message.url) > maxUrlLength ? {} : { url: message.url, url_title: message.linkLabel }),
    };
    await deliver(http, formRequest(`${origin}/1/messages.json`, form), (reply) => {
      const { status, errors } = jsonObject(reply);
      // A status other than 1 is an error of the input, which a retry repeats.
      if (status === undefined || status === 1) return null;
      const reason = joined(Array.isArray(errors) ? errors.map(wordOf) : [], ", ");
      return reply.status < 300 ? { reason, permanent: true } : { reason };
    });
  },
});
