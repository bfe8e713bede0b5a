import Type, { type Static } from "typebox";
import type { Outbound } from "../../../platform/outbound/client.ts";
import { maxNameLength, messageText, plain, single, type SingleContent } from "../message.ts";
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
 * PagerDuty Events API v2: https://developer.pagerduty.com/docs/send-alert-event. All events of an incident have its id
 * as dedup_key, so that a repeated trigger updates one alert.
 */
export const pagerduty = channelKind({
  type: "pagerduty",
  label: "PagerDuty",
  purpose: "Pages the person on call",
  icon: "clock",
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
  async send(config, message, { http }) {
    const content = single(message.content);
    if (content.kind === "test") {
      const key = `test-${message.deliveryId}`;
      await trigger(http, config, content, key);
      await enqueue(http, config, { event_action: "resolve", dedup_key: key });
    } else if (content.notice.reason === "resolved")
      await enqueue(http, config, { event_action: "resolve", dedup_key: content.notice.incident_id });
    else await trigger(http, config, content, content.notice.incident_id);
  },
});

type Config = Static<typeof PagerDutyConfig>;

async function trigger(http: Outbound, config: Config, content: SingleContent, key: string): Promise<void> {
  const { title, facts, url, acknowledgeUrl, linkLabel } = messageText(content);
  const { severity, started_at, monitor_name } = content.notice;
  await enqueue(http, config, {
    event_action: "trigger",
    dedup_key: key,
    client: "StatusMesh",
    client_url: url,
    links: [
      { href: url, text: linkLabel },
      ...(acknowledgeUrl === null ? [] : [{ href: acknowledgeUrl, text: "Acknowledge in StatusMesh" }]),
    ],
    payload: {
      summary: [...title].slice(0, maxSummaryLength).join(""),
      source: plain(monitor_name, maxNameLength),
      severity: content.kind === "test" ? "info" : severities[severity],
      timestamp: started_at,
      custom_details: Object.fromEntries(facts.map(({ label, value }) => [label, value])),
    },
  });
}

async function enqueue(http: Outbound, { routing_key }: Config, event: object): Promise<void> {
  await deliver(http, jsonRequest(`${origin}/v2/enqueue`, { routing_key, ...event }));
}
