import Type from "typebox";
import type { Content } from "../sending/content.ts";
import { messageText } from "../sending/message.ts";
import { alertOf, alertSubject } from "./alerts.ts";
import { deliver, jsonRequest } from "./deliver.ts";
import { channelKind, invalid, SecretText } from "./kind.ts";
import { Shape } from "../../../platform/http/wire.ts";

/** A server of the EU service region is set with channels.endpoints.pagerduty (https://developer.pagerduty.com/docs/events-api-v2-overview). */
const origin = "https://events.pagerduty.com";
/** Length of a summary (https://developer.pagerduty.com/docs/send-alert-event). */
const maxSummaryLength = 1024;

const PagerDutyConfig = Shape("PagerDutyConfig", "Opens and resolves alerts of PagerDuty", {
  type: Type.Literal("pagerduty"),
  routing_key: SecretText({
    maxLength: 100,
    description: "Integration key of an Events API v2 integration, 32 letters and digits; reads as ***",
    examples: ["0123456789abcdef0123456789abcdef"],
    form: {
      label: "Integration key",
      hint: "In PagerDuty: the service, Integrations, Events API v2. 32 letters and digits. Stored encrypted.",
    },
  }),
});

const severities = { critical: "critical", major: "error", minor: "warning" } as const;

/**
 * PagerDuty Events API v2: https://developer.pagerduty.com/docs/send-alert-event. Incidents of one cause share a
 * dedup_key; a repeated trigger updates its alert and pages nobody.
 */
export const pagerduty = channelKind({
  type: "pagerduty",
  label: "PagerDuty",
  purpose: "Pages the person on call",
  icon: "pagerduty",
  delegable: () => true,
  schema: PagerDutyConfig,
  address: () => ({ url: origin, pointer: null }),
  rules({ routing_key }) {
    if (!/^[A-Za-z0-9]{32}$/.test(routing_key))
      invalid(
        "An integration key of PagerDuty has 32 letters and digits. Copy that of an Events API v2 integration.",
        "/routing_key",
      );
  },
  rounds: "never",
  shares: "alert",
  async send({ routing_key }, message, { http }) {
    const { key, events } = alertOf(message);
    for (const event of events) {
      const updates = event === "trigger" || event === "update";
      const body = updates
        ? { event_action: "trigger", dedup_key: key, ...alertText(message.content) }
        : { event_action: event, dedup_key: key };
      await deliver(http, jsonRequest(`${origin}/v2/enqueue`, { routing_key, ...body }));
    }
  },
});

function alertText(content: Content): object {
  const { title, facts, url, acknowledgeUrl, linkLabel } = messageText(content);
  const { severity, subject, since } = alertSubject(content);
  return {
    client: "StatusMesh",
    client_url: url,
    links: [
      { href: url, text: linkLabel },
      ...(acknowledgeUrl === null ? [] : [{ href: acknowledgeUrl, text: "Acknowledge in StatusMesh" }]),
    ],
    payload: {
      summary: [...title].slice(0, maxSummaryLength).join(""),
      source: subject,
      severity: severity === null ? "info" : severities[severity],
      timestamp: since,
      custom_details: Object.fromEntries(facts.map(({ label, value }) => [label, value])),
    },
  };
}
