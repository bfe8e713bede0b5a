import Type from "typebox";
import type { Content } from "../sending/content.ts";
import { factLines, fitted, linkLines } from "../sending/message-text.ts";
import { messageText } from "../sending/message.ts";
import { alertOf, alertSubject } from "./alerts.ts";
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

/**
 * Alert API: https://docs.opsgenie.com/docs/alert-api. Incidents of one cause share an alias. A repeated creation
 * changes no text, so texts have requests of their own, which notify nobody.
 */
export const opsgenie = channelKind({
  type: "opsgenie",
  label: "Opsgenie",
  purpose: "Pages the person on call",
  icon: "opsgenie",
  delegable: () => true,
  schema: OpsgenieConfig,
  address: ({ region }) => ({ url: roots[region], pointer: null }),
  rules({ api_key }) {
    headerToken(api_key, "An API key", "/api_key")();
  },
  rounds: "never",
  shares: "alert",
  async send({ api_key, region }, message, { http }) {
    const { key, events } = alertOf(message);
    const { content } = message;
    const authorization = { authorization: `GenieKey ${api_key}` };
    const request = async (method: "POST" | "PUT", action: string, body: object): Promise<void> => {
      const path = action === "" ? "" : `/${encodeURIComponent(key)}/${action}?identifierType=alias`;
      await deliver(http, { ...jsonRequest(`${roots[region]}/v2/alerts${path}`, body, authorization), method });
    };
    const note = { source: "StatusMesh", note: messageText(content).title };
    for (const event of events)
      if (event === "trigger") await request("POST", "", { alias: key, ...alertBody(content) });
      else if (event === "update") {
        await request("PUT", "message", { message: messageOf(content) });
        await request("PUT", "description", { description: descriptionOf(content) });
      } else await request("POST", event === "resolve" ? "close" : "acknowledge", note);
  },
});

const messageOf = (content: Content): string => [...messageText(content).title].slice(0, maxMessageLength).join("");

const descriptionOf = (content: Content): string =>
  fitted(messageText(content), (part) => `${factLines(part)}\n${linkLines(part)}`, maxDescriptionLength);

function alertBody(content: Content): object {
  const { severity, subject } = alertSubject(content);
  return {
    message: messageOf(content),
    description: descriptionOf(content),
    details: Object.fromEntries(messageText(content).facts.map(({ label, value }) => [label, value])),
    entity: subject,
    source: "StatusMesh",
    priority: severity === null ? "P5" : priorities[severity],
  };
}
