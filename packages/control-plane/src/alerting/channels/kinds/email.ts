import Type from "typebox";
import { alertMail } from "../../../platform/email/layout.ts";
import { messageText } from "../sending/message.ts";
import { channelKind, invalid, ConfigText } from "./kind.ts";
import { Shape } from "../../../platform/http/wire.ts";

const EmailConfig = Shape("EmailConfig", "Sends mail to one address, once its owner has confirmed it", {
  type: Type.Literal("email"),
  to: ConfigText({
    maxLength: 254,
    description: "One address, stored in lower case; it gets a mail with a link to confirm",
    examples: ["oncall@example.org"],
    form: {
      label: "Email address",
      placeholder: "oncall@example.org",
      hint: "Gets a mail with a link. Notifications are sent once the link is confirmed.",
    },
  }),
});

const label = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
/**
 * One address as browsers accept it (HTML Standard, section "Valid email address"), with a local part of at most 64
 * characters (RFC 5321 section 4.5.3.1.1).
 */
const address = new RegExp(`^[a-z0-9.!#$%&'*+/=?^_\`{|}~-]{1,64}@${label}(?:\\.${label})*$`, "i");

/** Mail through `email.smtp_url`. */
export const email = channelKind({
  type: "email",
  label: "Email",
  purpose: "To a person or a list",
  icon: "mail",
  delegable: () => true,
  schema: EmailConfig,
  rules({ to }) {
    if (!address.test(to)) invalid("Write one email address, like oncall@example.org.", "/to");
  },
  complete: (config) => ({ ...config, to: config.to.toLowerCase() }),
  // All mail is sent through the mail server of the installation.
  address: () => ({ url: "smtp://email", pointer: null }),
  endpoints: [],
  confirms: ({ to }) => to,
  endpoint: () => "",
  async send({ to }, { content, deliveryId, messageId = deliveryId, mail: thread }, { mail }) {
    const written = alertMail(messageText(content));
    if (thread === undefined) return await mail({ to, ...written });
    const idOf = (id: string): string => `<${id}@${thread.host}>`;
    const earlier = thread.earlier.map(idOf);
    await mail({
      to,
      ...written,
      messageId: idOf(messageId),
      ...(earlier.length === 0 ? {} : { inReplyTo: earlier.at(-1)!, references: earlier }),
    });
  },
});
