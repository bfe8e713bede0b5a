import { firstObject, formRequest, joined, jsonObject, wordOf } from "../deliver.ts";
import { opaque, type SmsProvider, withoutPlus } from "./provider.ts";

/**
 * Statuses that pass by themselves: 1 throttled, 5 internal error, 10 too many binds. 8 is a barred account, 9 no
 * credit: a retry does not help before a person does (https://developer.vonage.com/en/api/sms#errors).
 */
const passing = new Set(["1", "5", "10"]);

/** SMS API: https://developer.vonage.com/en/api/sms. Errors come with HTTP status 200 and a status in each message. */
export const vonage: SmsProvider = {
  label: "Vonage",
  required: {
    api_key: { pattern: /^[A-Za-z0-9]{1,32}$/, expects: "has letters and digits only" },
    api_secret: opaque,
  },
  secret: "api_secret",
  origin: () => "https://rest.nexmo.com",
  request({ api_key = "", api_secret = "" }, { to, from, text, unicode }) {
    return formRequest(`${this.origin({})}/sms/json`, {
      api_key,
      api_secret,
      to: withoutPlus(to),
      from: withoutPlus(from),
      text,
      type: unicode ? "unicode" : "text",
    });
  },
  failure(reply) {
    if (reply.status >= 300) return null;
    const message = firstObject(jsonObject(reply)["messages"]);
    const status = wordOf(message["status"]);
    if (status === "0") return null;
    if (status === "") return { reason: "no message in the reply", permanent: false };
    return {
      reason: joined([`status ${status}`, wordOf(message["error-text"])], ": "),
      permanent: !passing.has(status),
    };
  },
};
