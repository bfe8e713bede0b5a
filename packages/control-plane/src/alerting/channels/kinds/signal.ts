import Type from "typebox";
import { checkAll } from "@statusmesh/shared/schema/faults";
import { fitted, textLines, withIcon } from "../sending/message-text.ts";
import { messageText } from "../sending/message.ts";
import { deliver, jsonObject, jsonRequest, wordOf } from "./deliver.ts";
import { below, channelKind, holds, ownServer, ConfigText } from "./kind.ts";
import { e164 } from "./sms/provider.ts";
import { Shape } from "../../../platform/http/wire.ts";

/** Longer texts become an attachment (https://github.com/signalapp/Signal-Android, MessageUtil). */
const maxMessageLength = 2000;
/** A phone number, the id of a group as `GET /v1/groups/{number}` lists it, or a user name. */
const recipient = /^(?:\+[1-9]\d{6,14}|group\.[A-Za-z0-9+/=]{20,200}|[A-Za-z_][A-Za-z0-9_]{2,31}\.\d{2,9})$/;

const SignalConfig = Shape("SignalConfig", "Sends through signal-cli-rest-api", {
  type: Type.Literal("signal"),
  url: ConfigText({
    maxLength: 2048,
    description: "Address of signal-cli-rest-api (https://github.com/bbernhard/signal-cli-rest-api)",
    examples: ["https://signal.example.org"],
    form: { label: "API URL", control: "url", hint: "Of your own signal-cli-rest-api." },
  }),
  number: ConfigText({
    maxLength: 40,
    description: "Registered number that sends, in international format",
    examples: ["+4915112345678"],
    form: { label: "Sender", hint: "The number that is registered or linked there, such as +4915112345678." },
  }),
  recipients: Type.Array(Type.String({ minLength: 1, maxLength: 210 }), {
    minItems: 1,
    maxItems: 20,
    description: "Phone numbers, groups (group.…) or user names; each reads as *** and its last 4 characters",
    examples: [["+4915187654321"]],
    secret: true,
    shows: 4,
    form: { label: "Recipients", placeholder: "+4915187654321", hint: "One per line: a phone number or a group." },
  }),
});

/** Signal through signal-cli-rest-api: https://bbernhard.github.io/signal-cli-rest-api/#/Messages/post_v2_send. */
export const signal = channelKind({
  type: "signal",
  label: "Signal",
  purpose: "A message to phones or a group",
  icon: "signal",
  phone: true,
  schema: SignalConfig,
  address: ({ url }) => ({ url, pointer: "/url" }),
  rules({ url, number, recipients }, allowed) {
    checkAll(
      () => ownServer(url, "/url", allowed),
      holds(
        e164.test(number),
        "Enter the sender in international format with + and digits only, such as +4915112345678.",
        "/number",
      ),
      ...recipients.map((one, at) =>
        holds(
          recipient.test(one),
          "A recipient is a phone number such as +4915187654321, a group id such as group.QUJD…, or a user name.",
          `/recipients/${at}`,
        ),
      ),
    );
  },
  async send({ url, number, recipients }, { content }, { http }) {
    const message = fitted(withIcon(messageText(content)), textLines, maxMessageLength);
    const sent = { number, recipients, message, text_mode: "normal" };
    await deliver(http, jsonRequest(below(url, "/v2/send"), sent), (reply) => {
      const { error } = jsonObject(reply);
      return wordOf(error) === "" ? null : { reason: wordOf(error) };
    });
  },
});
