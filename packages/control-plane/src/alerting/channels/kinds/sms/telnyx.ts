import { firstObject, joined, jsonObject, wordOf } from "../deliver.ts";
import { jsonType, opaque, type SmsProvider } from "./provider.ts";

/** Send a message: https://developers.telnyx.com/docs/messaging/messages/send-message. */
export const telnyx: SmsProvider = {
  label: "Telnyx",
  required: { api_key: opaque },
  optional: { messaging_profile_id: { pattern: /^[\w-]{1,64}$/, expects: "is the UUID of a messaging profile" } },
  secret: "api_key",
  origin: () => "https://api.telnyx.com",
  request({ api_key = "", messaging_profile_id: profile }, { to, from, text }) {
    return {
      method: "POST",
      url: `${this.origin({})}/v2/messages`,
      headers: { ...jsonType, authorization: `Bearer ${api_key}` },
      body: JSON.stringify({ from, to, text, ...(profile === undefined ? {} : { messaging_profile_id: profile }) }),
    };
  },
  failure(reply) {
    const body = jsonObject(reply);
    const error = firstObject(body["errors"]);
    if (Object.keys(error).length === 0) return null;
    return { reason: joined([wordOf(error["code"]), wordOf(error["title"]), wordOf(error["detail"])]) };
  },
};
