import Type from "typebox";
import { fitted, type MessageText, type Tone } from "../sending/message-text.ts";
import { messageText } from "../sending/message.ts";
import { deliver, jsonRequest } from "./deliver.ts";
import { channelKind, invalid, SecretText, vendorUrl } from "./kind.ts";
import { Shape } from "../../../platform/http/wire.ts";

/**
 * A post of the Teams connector has about 28 KB
 * (https://learn.microsoft.com/connectors/teams/#known-issues-and-limitations-with-actions).
 */
const maxCardBytes = 24_000;
/**
 * Hosts of workflow triggers. Those on logic.azure.com moved to api.powerplatform.com in 2025; the others are the
 * national clouds of the Power Platform (https://learn.microsoft.com/power-platform/admin/online-requirements).
 */
const hosts = [
  ".logic.azure.com",
  ".logic.azure.us",
  ".logic.azure.cn",
  ".api.powerplatform.com",
  ".api.gov.powerplatform.microsoft.us",
  ".api.high.powerplatform.microsoft.us",
  ".api.appsplatform.us",
  ".api.powerplatform.partner.microsoftonline.cn",
];
const retiredHosts = [".webhook.office.com", "outlook.office.com", "outlook.office365.com"];
const howTo = 'In Teams, open Workflows, add "Send webhook alerts to a channel" and copy its URL.';

const TeamsConfig = Shape("TeamsConfig", "Posts an adaptive card to Microsoft Teams", {
  type: Type.Literal("msteams"),
  webhook_url: SecretText({
    maxLength: 2048,
    description: "URL of a Teams workflow that posts webhook alerts to a channel; reads as ***",
    examples: [
      "https://default0000.00.environment.api.powerplatform.com/powerautomate/automations/direct/workflows/0000/triggers/manual/paths/invoke?api-version=1&sig=XXXX",
    ],
    form: {
      label: "Workflow URL",
      control: "url",
      placeholder: "https://….environment.api.powerplatform.com/…",
      hint: `${howTo} Stored encrypted.`,
    },
  }),
});

/** Colours of text (https://adaptivecards.io/explorer/TextRun.html). */
const colours: Readonly<Record<Tone, string>> = { down: "Attention", degraded: "Warning", up: "Good", test: "Accent" };

/**
 * The message as an adaptive card. A TextRun shows its text as it is; TextBlock and FactSet would read Markdown
 * (https://learn.microsoft.com/adaptive-cards/authoring-cards/text-features).
 */
function card({ tone, title, facts, url, acknowledgeUrl, linkLabel }: MessageText): string {
  const lines = facts.map(({ label, value }) => ({
    type: "RichTextBlock",
    spacing: "Small",
    inlines: [
      { type: "TextRun", text: `${label}: `, weight: "Bolder" },
      { type: "TextRun", text: value },
    ],
  }));
  const heading = { type: "TextRun", text: title, weight: "Bolder", size: "Large", color: colours[tone] };
  return JSON.stringify({
    $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
    type: "AdaptiveCard",
    version: "1.4",
    msteams: { width: "Full" },
    body: [{ type: "RichTextBlock", inlines: [heading] }, ...lines],
    actions: [
      ...(acknowledgeUrl === null ? [] : [{ type: "Action.OpenUrl", title: "Acknowledge", url: acknowledgeUrl }]),
      { type: "Action.OpenUrl", title: linkLabel, url },
    ],
  });
}

/**
 * Teams workflow:
 * https://support.microsoft.com/office/create-incoming-webhooks-with-workflows-for-microsoft-teams-8ae491c7-0394-4861-ba59-055e33f75498.
 */
export const msteams = channelKind({
  type: "msteams",
  label: "Microsoft Teams",
  purpose: "A card in a channel",
  icon: "teams",
  delegable: () => true,
  schema: TeamsConfig,
  address: ({ webhook_url }) => ({ url: webhook_url, pointer: "/webhook_url" }),
  rules({ webhook_url }) {
    const { hostname } = URL.canParse(webhook_url) ? new URL(webhook_url) : { hostname: "" };
    if (retiredHosts.some((host) => hostname.endsWith(host)))
      invalid(`Microsoft has retired the connectors of this URL. ${howTo}`, "/webhook_url");
    const url = vendorUrl(webhook_url, "/webhook_url", hosts, `This is not the URL of a Teams workflow. ${howTo}`);
    if (!url.searchParams.get("sig"))
      invalid(
        "The URL has no sig parameter, and Microsoft refuses requests without it. Let anyone trigger the " +
          "workflow, and copy its whole URL.",
        "/webhook_url",
      );
  },
  async send({ webhook_url }, { content }, { http }) {
    const text = fitted(messageText(content), card, maxCardBytes, Buffer.byteLength);
    await deliver(
      http,
      jsonRequest(webhook_url, {
        type: "message",
        attachments: [
          {
            contentType: "application/vnd.microsoft.card.adaptive",
            contentUrl: null,
            content: JSON.parse(text) as object,
          },
        ],
      }),
    );
  },
});
