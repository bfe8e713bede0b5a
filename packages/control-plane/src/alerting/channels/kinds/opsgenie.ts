import Type, { type Static } from "typebox";
import {
  factLines,
  fitted,
  linkLines,
  maxNameLength,
  messageText,
  plain,
  single,
  type SingleContent,
} from "../message.ts";
import { deliver, jsonRequest } from "./deliver.ts";
import { channelKind, headerToken, SecretText } from "./kind.ts";
import { Shape } from "../../../platform/http/wire.ts";

/**
 * Opsgenie ends in April 2027; its successor Jira Service Management takes the same requests
 * (https://developer.atlassian.com/cloud/jira/service-desk-ops/rest/v2/api-group-integration-events/).
 */
const roots = {
  us: "https://api.opsgenie.com",
  eu: "https://api.eu.opsgenie.com",
  jsm: "https://api.atlassian.com/jsm/ops/integration",
};
/** Lengths in characters (https://docs.opsgenie.com/docs/alert-api#create-alert). */
const maxMessageLength = 130;
const maxDescriptionLength = 15_000;
const priorities = { critical: "P1", major: "P2", minor: "P3" } as const;

const OpsgenieConfig = Shape("OpsgenieConfig", "Opens and closes alerts of Opsgenie or of Jira Service Management", {
  type: Type.Literal("opsgenie"),
  api_key: SecretText({
    maxLength: 200,
    description: "Key of an API integration; reads as ***",
    examples: ["eb243592-faa2-4ba2-a551-1afdf565c889"],
    form: { label: "API key", hint: "Of an API integration of the team. Stored encrypted." },
  }),
  region: Type.Enum(["us", "eu", "jsm"], {
    default: "us",
    description: "us and eu: Opsgenie. jsm: Jira Service Management, its successor",
    form: {
      label: "Service",
      options: { us: "Opsgenie", eu: "Opsgenie, European region", jsm: "Jira Service Management" },
    },
  }),
});

type Config = Static<typeof OpsgenieConfig>;

/** Alert API: https://docs.opsgenie.com/docs/alert-api. The incident's id is the alias: one alert per incident. */
export const opsgenie = channelKind({
  type: "opsgenie",
  label: "Opsgenie",
  purpose: "Pages the person on call",
  icon: "clock",
  delegable: () => true,
  schema: OpsgenieConfig,
  address: ({ region }) => ({ url: roots[region], pointer: null }),
  rules({ api_key }) {
    headerToken(api_key, "An API key", "/api_key")();
  },
  rounds: "never",
  async send(config, message, { http }) {
    const content = single(message.content);
    const alias = content.kind === "test" ? `test-${message.deliveryId}` : content.notice.incident_id;
    const close = `/${encodeURIComponent(alias)}/close?identifierType=alias`;
    const resolved = content.kind === "notice" && content.notice.reason === "resolved";
    if (!resolved) await deliver(http, alertRequest(config, "", { alias, ...alertOf(content) }));
    if (resolved || content.kind === "test")
      await deliver(http, alertRequest(config, close, { source: "StatusMesh", note: messageText(content).title }));
  },
});

const alertRequest = ({ api_key, region }: Config, path: string, body: object) =>
  jsonRequest(`${roots[region]}/v2/alerts${path}`, body, { authorization: `GenieKey ${api_key}` });

function alertOf(content: SingleContent): object {
  const text = messageText(content);
  const { severity, monitor_name } = content.notice;
  return {
    message: [...text.title].slice(0, maxMessageLength).join(""),
    description: fitted(text, (part) => `${factLines(part)}\n${linkLines(part)}`, maxDescriptionLength),
    details: Object.fromEntries(text.facts.map(({ label, value }) => [label, value])),
    entity: plain(monitor_name, maxNameLength),
    source: "StatusMesh",
    priority: content.kind === "test" ? "P5" : priorities[severity],
  };
}
