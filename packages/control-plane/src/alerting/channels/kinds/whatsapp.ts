import Type, { type Static } from "typebox";
import { checkAll } from "@statusmesh/shared/schema/faults";
import { asObject } from "@statusmesh/shared/json";
import type { OutboundReply } from "../../../platform/outbound/client.ts";
import type { Content } from "../sending/content.ts";
import { factLine, plain } from "../sending/message-text.ts";
import { messageText } from "../sending/message.ts";
import { channelKind, ConfigText, holds, PhoneText, SecretText, type Transports } from "./kind.ts";
import { deliver, joined, jsonObject, jsonRequest, type VendorFailure, wordOf } from "./deliver.ts";
import { e164 } from "./sms/provider.ts";
import { Shape } from "../../../platform/http/wire.ts";

const WhatsappConfig = Shape(
  "WhatsappConfig",
  "Sends a template message through your own WhatsApp Business number (Meta Cloud API)",
  {
    type: Type.Literal("whatsapp"),
    access_token: SecretText({
      maxLength: 1024,
      description: "Permanent access token of a system user; reads as ***",
      examples: ["EAAGexample"],
      form: { label: "Access token", hint: "Of a system user of your business. Encrypted; reads as ***." },
    }),
    phone_number_id: ConfigText({
      maxLength: 32,
      description: "Id of the sending number (digits), not the number itself",
      examples: ["106540352242922"],
      form: { label: "Phone number id", placeholder: "106540352242922", hint: "The id of the sending number." },
    }),
    to: PhoneText,
    template_name: ConfigText({
      maxLength: 512,
      description: "Approved template whose body has {{1}} (summary), {{2}} (details) and {{3}} (link)",
      examples: ["statusmesh_alert"],
      form: {
        label: "Template name",
        placeholder: "statusmesh_alert",
        hint: "An approved template whose body has {{1}} summary, {{2}} details and {{3}} link.",
      },
    }),
    language_code: Type.String({
      default: "en",
      minLength: 1,
      maxLength: 16,
      description: "Exact language of the template",
      examples: ["en_US"],
      form: { label: "Template language", placeholder: "en", hint: "The exact language of the template." },
    }),
  },
);

export const whatsappOrigin = "https://graph.facebook.com";
/** Versions end about two years after their release; this one is of October 2025. */
const graphVersion = "v24.0";

const maxSummaryLength = 230;
const maxDetailsLength = 400;

/**
 * Body parameters of the template: summary, details, link. A filled body has at most 1024 characters, and a parameter
 * no line break, tab or more than four spaces in a row
 * (https://developers.facebook.com/documentation/business-messaging/whatsapp/templates/components).
 */
export function templateParameters(content: Content): string[] {
  const { title, facts, url, acknowledgeUrl } = messageText(content);
  const details = facts.map(factLine).join(" · ");
  const links = acknowledgeUrl === null ? url : `${url} · Acknowledge: ${acknowledgeUrl}`;
  return [plain(title, maxSummaryLength), plain(details, maxDetailsLength) || "-", plain(links, 2000)];
}

/** Sends a template message: https://developers.facebook.com/docs/whatsapp/cloud-api/guides/send-message-templates. */
export async function sendWhatsapp(
  { http }: Transports,
  { access_token, phone_number_id, to, template_name, language_code }: Omit<Static<typeof WhatsappConfig>, "type">,
  content: Content,
): Promise<void> {
  await deliver(
    http,
    jsonRequest(
      `${whatsappOrigin}/${graphVersion}/${phone_number_id}/messages`,
      {
        messaging_product: "whatsapp",
        recipient_type: "individual",
        to,
        type: "template",
        template: {
          name: template_name,
          language: { code: language_code },
          components: [
            { type: "body", parameters: templateParameters(content).map((text) => ({ type: "text", text })) },
          ],
        },
      },
      { authorization: `Bearer ${access_token}` },
    ),
    whatsappFailure,
  );
}

/**
 * Codes that pass by themselves: unknown and temporary failures of the API, rate limits of application, number and
 * recipient, maintenance (https://developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes).
 */
const passing = new Set([1, 2, 4, 80007, 130429, 131000, 131016, 131048, 131056, 131057, 133004, 133005]);

function whatsappFailure(reply: OutboundReply): VendorFailure | null {
  const body = jsonObject(reply);
  const error = asObject(body["error"]);
  const code = error["code"];
  if (typeof code !== "number")
    return reply.status < 300 && !Array.isArray(body["messages"])
      ? { reason: "no message id in the reply", permanent: false }
      : null;
  const details = wordOf(asObject(error["error_data"])["details"]);
  return {
    reason: joined([wordOf(error["message"]) || `error ${code}`, details], ": "),
    ...(passing.has(code) ? { permanent: false } : reply.status < 500 ? { permanent: true } : {}),
  };
}

export const whatsapp = channelKind({
  type: "whatsapp",
  label: "WhatsApp",
  purpose: "Your own business account",
  icon: "whatsapp",
  phone: true,
  schema: WhatsappConfig,
  rules({ access_token, phone_number_id, to, template_name, language_code }) {
    const isLanguage = /^[a-z]{2,3}(?:_[A-Za-z0-9]{2,4})?$/.test(language_code);
    checkAll(
      holds(/^[\x21-\x7e]+$/.test(access_token), "The access token has no spaces.", "/access_token"),
      holds(
        /^\d+$/.test(phone_number_id),
        "The phone number id has digits only. It is the id, not the number.",
        "/phone_number_id",
      ),
      holds(e164.test(to), "Write the number in international format, like +4915112345678.", "/to"),
      holds(
        /^[a-z0-9_]+$/.test(template_name),
        "A template name has lower-case letters, digits and _ only.",
        "/template_name",
      ),
      holds(isLanguage, "A language code looks like en or en_US.", "/language_code"),
    );
  },
  address: () => ({ url: whatsappOrigin, pointer: null }),
  send: async (config, { content }, transports) => sendWhatsapp(transports, config, content),
});
