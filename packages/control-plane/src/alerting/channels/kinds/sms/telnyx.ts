import { firstObject, joined, jsonObject, jsonRequest, wordOf } from "../deliver.ts";
import { opaque, type SmsProvider } from "./provider.ts";

/** Send a message: https://developers.telnyx.com/docs/messaging/messages/send-message. */
export const telnyx: SmsProvider = {
  label: "Telnyx",
  required: { api_key: opaque },
  optional: { messaging_profile_id: { pattern: /^[\w-]{1,64}$/, expects: "is the UUID of a messaging profile" } },
  secret: "api_key",
  origin: () => "https://api.telnyx.com",
  request({ api_key = "", messaging_profile_id: profile }, { to, from, text }) {
    const sms = { from, to, text, ...(profile === undefined ? {} : { messaging_profile_id: profile }) };
    return jsonRequest(`${this.origin({})}/v2/messages`, sms, { authorization: `Bearer ${api_key}` });
  },
  failure(reply) {
    const body = jsonObject(reply);
    const error = firstObject(body["errors"]);
    if (Object.keys(error).length === 0) return null;
    return { reason: joined([wordOf(error["code"]), wordOf(error["title"]), wordOf(error["detail"])]) };
  },
};
