import { createHmac } from "node:crypto";
import { sameSecret } from "../../../../platform/crypto/token.ts";
import { formRequest, joined, jsonObject, wordOf } from "../deliver.ts";
import { basic, opaque, type SmsProvider } from "./provider.ts";

/** Messages resource: https://www.twilio.com/docs/messaging/api/message-resource#create-a-message-resource. */
export const twilio: SmsProvider = {
  label: "Twilio",
  required: {
    account_sid: { pattern: /^AC[0-9a-fA-F]{32}$/, expects: "is AC and 32 hexadecimal digits" },
    auth_token: opaque,
  },
  secret: "auth_token",
  origin: () => "https://api.twilio.com",
  request({ account_sid = "", auth_token = "" }, { to, from, text }) {
    const url = `${this.origin({})}/2010-04-01/Accounts/${account_sid}/Messages.json`;
    return formRequest(url, { To: to, From: from, Body: text }, { authorization: basic(account_sid, auth_token) });
  },
  inbound: {
    // https://www.twilio.com/docs/messaging/guides/webhook-request
    read: ({ form }) => ({
      id: form.get("MessageSid") ?? "",
      from: form.get("From") ?? "",
      to: form.get("To") ?? "",
      text: form.get("Body") ?? "",
    }),
    // https://www.twilio.com/docs/usage/security#validating-requests
    isSigned({ auth_token = "" }, { url, header, form }) {
      const fields = [...form].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).flat();
      const mac = createHmac("sha1", auth_token)
        .update([url, ...fields].join(""))
        .digest("base64");
      return sameSecret(header("x-twilio-signature"), mac);
    },
  },
  failure(reply) {
    const body = jsonObject(reply);
    if (reply.status >= 400)
      return { reason: joined([wordOf(body["code"]), wordOf(body["message"]) || reply.text], " ") };
    // A message that fails at once is created with 201 (https://www.twilio.com/docs/messaging/api/message-resource#message-status-values).
    if (body["status"] === "failed" || body["status"] === "undelivered")
      return { reason: joined([wordOf(body["error_code"]), wordOf(body["error_message"])]), permanent: true };
    return null;
  },
};
