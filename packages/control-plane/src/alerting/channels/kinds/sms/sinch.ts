import { joined, jsonObject, jsonRequest, wordOf } from "../deliver.ts";
import { alphanumeric, opaque, type SmsProvider, withoutPlus } from "./provider.ts";

/** The region of an account that names none. */
export const defaultRegion = "us";

/** Batches: https://developers.sinch.com/docs/sms/api-reference/sms/batches. The account lives in one region. */
export const sinch: SmsProvider = {
  label: "Sinch",
  required: { service_plan_id: alphanumeric, api_token: opaque },
  optional: { region: { pattern: /^(?:us|eu|au|br|ca)$/, expects: "is us, eu, au, br or ca" } },
  secret: "api_token",
  origin: ({ region = defaultRegion }) => `https://${region}.sms.api.sinch.com`,
  request(credentials, { to, from, text }) {
    const url = `${this.origin(credentials)}/xms/v1/${credentials.service_plan_id}/batches`;
    // ${name} would be a parameter of the batch; a monitor name is no template.
    const batch = { from: withoutPlus(from), to: [withoutPlus(to)], body: text.replaceAll("${", "$ {") };
    return jsonRequest(url, batch, { authorization: `Bearer ${credentials.api_token}` });
  },
  failure(reply) {
    if (reply.status < 300) return null;
    const body = jsonObject(reply);
    return { reason: joined([wordOf(body["code"]), wordOf(body["text"]) || reply.text]) };
  },
};
