import { createHmac } from "node:crypto";
import { sameSecret } from "../../../../platform/crypto/token.ts";
import { jsonObject, jsonRequest, wordOf } from "../deliver.ts";
import { alphanumeric, basic, opaque, type SmsProvider, withoutPlus, withPlus } from "./provider.ts";

/** Send a message: https://docs.plivo.com/docs/messaging/api/message/send-a-message. */
export const plivo: SmsProvider = {
  label: "Plivo",
  required: { auth_id: alphanumeric, auth_token: opaque },
  secret: "auth_token",
  origin: () => "https://api.plivo.com",
  request({ auth_id = "", auth_token = "" }, { to, from, text }) {
    const sms = { src: withoutPlus(from), dst: withoutPlus(to), text, type: "sms" };
    const url = `${this.origin({})}/v1/Account/${auth_id}/Message/`;
    return jsonRequest(url, sms, { authorization: basic(auth_id, auth_token) });
  },
  inbound: {
    // https://www.plivo.com/docs/messaging/concepts/inbound-messages
    read: ({ form }) => ({
      id: form.get("MessageUUID") ?? "",
      from: withPlus(form.get("From") ?? ""),
      to: withPlus(form.get("To") ?? ""),
      text: form.get("Text") ?? "",
    }),
    // The signature covers the URL and a nonce: https://www.plivo.com/docs/messaging/concepts/signature-validation
    isSigned({ auth_token = "" }, { url, header }) {
      const mac = createHmac("sha256", auth_token)
        .update(url + header("x-plivo-signature-v2-nonce"))
        .digest("base64");
      return header("x-plivo-signature-v2-nonce") !== "" && sameSecret(header("x-plivo-signature-v2"), mac);
    },
  },
  failure(reply) {
    const body = jsonObject(reply);
    const error = wordOf(body["error"]);
    if (reply.status < 300 && error === "" && !Array.isArray(body["message_uuid"]))
      return { reason: "no message id in the reply", permanent: false };
    return error === "" ? null : { reason: error };
  },
};
