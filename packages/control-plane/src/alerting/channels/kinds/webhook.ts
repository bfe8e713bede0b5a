import { createHmac } from "node:crypto";
import { validateHeaderName, validateHeaderValue } from "node:http";
import Type from "typebox";
import { checkAll } from "@statusmesh/shared/schema/faults";
import { messageOf } from "@statusmesh/shared/thrown";
import { pointerSegment } from "@statusmesh/shared/secrets";
import type { Round, SingleContent } from "../sending/content.ts";
import { textLines } from "../sending/message-text.ts";
import { messageText } from "../sending/message.ts";
import { deliver } from "./deliver.ts";
import { channelKind, type ChannelMessage, holds, invalid, SecretText, webUrl } from "./kind.ts";
import { Shape } from "../../../platform/http/wire.ts";

const maxTemplateBytes = 16_384;
const WebhookConfig = Shape("WebhookConfig", "Posts every notice as JSON", {
  type: Type.Literal("webhook"),
  url: SecretText({
    maxLength: 2048,
    description: "https (or http where channels.allow_http allows it); reads as ***",
    examples: ["https://hooks.example.org/statusmesh"],
    form: {
      label: "URL",
      control: "url",
      placeholder: "https://hooks.example.org/alerts",
      hint: "Receives a JSON POST per notification. Stored encrypted.",
    },
  }),
  headers: Type.Record(Type.String(), Type.String({ maxLength: 8192 }), {
    default: {},
    maxProperties: 50,
    description: "Sent with every delivery; values read as ***",
    secret: true,
    form: {
      label: "Headers",
      section: "Headers and signature",
      placeholder: "X-Api-Key: …",
      hint: "One per line, name and value.",
    },
  }),
  secret: Type.Optional(
    Type.Union([Type.String({ maxLength: 1024 }), Type.Null()], {
      description: "At least 16 characters; signs every delivery (X-Service-Signature). Reads as ***; null for none",
      examples: [null],
      secret: true,
      form: {
        label: "Signing secret",
        section: "Headers and signature",
        hint: "16 characters or more. Adds X-Service-Timestamp and X-Service-Signature (HMAC-SHA256).",
      },
    }),
  ),
  template: Type.Optional(
    Type.Union([Type.String({ minLength: 1, maxLength: maxTemplateBytes }), Type.Null()], {
      description:
        "Body in place of the usual one: JSON with {{field}} inside its strings. A field is one of the usual body, " +
        "title or text; lists are joined by commas, null is empty. null for the usual body",
      examples: [null],
      form: {
        label: "Template",
        section: "Body",
        control: "lines",
        placeholder: '{"text": "{{title}}", "link": "{{url}}"}',
        hint: "JSON for receivers with a format of their own. Empty: the usual body.",
      },
    }),
  ),
});
const minSecretLength = 16;

/**
 * Headers that this client sets, or that change the framing of the message (RFC 9110 section 7.6.1, RFC 9112 section
 * 6).
 */
const ownHeaders = new Set([
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "expect",
  "host",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "user-agent",
  "x-service-signature",
  "x-service-timestamp",
]);

/** Fields of the usual body, which are stable: none is renamed or removed. A test has the reason `test`. */
const usual = {
  delivery_id: (_content: SingleContent, deliveryId: string) => deliveryId,
  incident_id: ({ notice }: SingleContent) => notice.incident_id,
  target_id: ({ notice }: SingleContent) => notice.target_id,
  monitor_name: ({ notice }: SingleContent) => notice.monitor_name,
  reason: ({ kind, notice }: SingleContent) => (kind === "test" ? "test" : notice.reason),
  severity: ({ notice }: SingleContent) => notice.severity,
  urgency: ({ notice }: SingleContent) => notice.urgency,
  started_at: ({ notice }: SingleContent) => notice.started_at,
  ended_at: ({ notice }: SingleContent) => notice.ended_at,
  duration_secs: ({ notice }: SingleContent) => notice.duration_secs,
  error_sample: ({ notice }: SingleContent) => notice.error_sample,
  regions_down: ({ notice }: SingleContent) => notice.regions_down,
  regions_up: ({ notice }: SingleContent) => notice.regions_up,
  url: ({ notice }: SingleContent) => notice.url,
  acknowledge_url: ({ notice }: SingleContent) => notice.acknowledge_url ?? null,
  acknowledged_by: ({ notice }: SingleContent) => notice.acknowledged_by ?? null,
  affected: ({ notice }: SingleContent) => notice.affected,
  held: ({ notice }: SingleContent) => notice.held,
  level: ({ notice }: SingleContent) => notice.level,
  flapping: ({ notice: { flap } }: SingleContent) => (flap === "begins" || flap === "held" ? true : undefined),
  group: ({ group }: SingleContent): object | undefined => group,
};

/** Fields of a template: also the texts of messages for people. */
const templateFields = {
  ...usual,
  group: ({ group }: SingleContent) => group?.key,
  title: (content: SingleContent) => messageText(content).title,
  text: (content: SingleContent) => textLines(messageText(content)),
};

type Field = (
  content: SingleContent,
  deliveryId: string,
) => string | number | boolean | readonly string[] | null | undefined;

/** Body of a message of several notices; `severity` and `title` are those of the first line. */
function roundBody({ deliveryId, content }: ChannelMessage, { lines, ...round }: Round): Record<string, unknown> {
  const message = messageText(content);
  return {
    delivery_id: deliveryId,
    reason: "round",
    severity: round.severity,
    title: message.title,
    text: textLines(message),
    url: round.url,
    acknowledge_url: round.acknowledge_url ?? null,
    causes: lines.map(({ cause, severity, fresh, open, recovered, brief, since, error, names, brief_names }) => ({
      cause,
      severity,
      down: open,
      new: fresh,
      recovered,
      opened_and_ended: brief,
      since,
      error_sample: error,
      monitors: [...names, ...brief_names],
    })),
  };
}

function bodyOf(template: string | null | undefined, message: ChannelMessage): string {
  const { deliveryId, content } = message;
  if (content.kind === "reply") return JSON.stringify({ delivery_id: deliveryId, reason: "reply", text: content.text });
  if (content.kind === "round") {
    const body = roundBody(message, content.round);
    return template == null ? JSON.stringify(body) : filled(template, (name) => valueText(body[name] as string));
  }
  if (template != null)
    return filled(template, (name) => valueText((templateFields as Record<string, Field>)[name]!(content, deliveryId)));
  const fields = Object.entries<(...of: Parameters<Field>) => unknown>(usual);
  return JSON.stringify(Object.fromEntries(fields.map(([name, read]) => [name, read(content, deliveryId)])));
}

const valueText = (value: ReturnType<Field>): string => (Array.isArray(value) ? value.join(", ") : String(value ?? ""));

/** The template with its placeholders replaced, once. They are inside strings: elsewhere {{ is no JSON. */
function filled(template: string, valueOf: (name: string) => string): string {
  const [start = "", ...parts] = template.split("{{");
  const written = parts.map((part) => {
    const end = part.indexOf("}}");
    if (end < 0) return invalid(`"{{${part.slice(0, 40)}" is not closed: write {{field}}.`, "/template");
    return JSON.stringify(valueOf(part.slice(0, end).trim()).toWellFormed()).slice(1, -1) + part.slice(end + 2);
  });
  return start + written.join("");
}

function templateRule(template: string): void {
  if (Buffer.byteLength(template) > maxTemplateBytes) invalid("A template has at most 16 KiB.", "/template");
  try {
    JSON.parse(template);
  } catch (error) {
    invalid(`The template is not JSON: ${messageOf(error)}. Put {{field}} inside a string.`, "/template");
  }
  filled(template, (name) => {
    if (!Object.hasOwn(templateFields, name))
      invalid(
        `There is no field {{${name.slice(0, 40)}}}. The fields are ${Object.keys(templateFields).join(", ")}.`,
        "/template",
      );
    return "";
  });
}

/** Signature headers: HMAC-SHA256 over `<unix seconds>.<body>`. `sentAt` is Unix ms. */
export function signature(secret: string, sentAt: number, body: string): Record<string, string> {
  const timestamp = String(Math.floor(sentAt / 1000));
  const mac = createHmac("sha256", secret).update(`${timestamp}.${body}`).digest("hex");
  return { "x-service-timestamp": timestamp, "x-service-signature": `sha256=${mac}` };
}

/** `seen` has the lower-case names of the headers before this one. */
function headerRule(name: string, value: string, seen: Set<string>): void {
  const lower = name.toLowerCase();
  const field = headerPointer(name);
  if (name.length > 128 || throws(() => validateHeaderName(name)))
    invalid("A header name has 1 to 128 letters, digits and -_.!#$%&'*+^`|~.", field);
  if (ownHeaders.has(lower)) invalid(`"${name}" is written by StatusMesh and cannot be set.`, field);
  if (seen.has(lower)) invalid(`"${name}" is a duplicate.`, field);
  seen.add(lower);
  if (throws(() => validateHeaderValue(name, value)))
    invalid(`The value of "${name}" has a line break or a character that cannot be sent.`, field);
}

export const webhook = channelKind({
  type: "webhook",
  label: "Webhook",
  purpose: "JSON to your own server",
  icon: "swap",
  delegable: () => true,
  schema: WebhookConfig,

  rules(config, allowed) {
    const seen = new Set<string>();
    const headers = Object.entries(config.headers).map(
      ([name, value]) =>
        () =>
          headerRule(name, value, seen),
    );
    checkAll(
      () => webUrl(config.url, "/url", allowed),
      holds(
        config.secret == null || [...config.secret].length >= minSecretLength,
        `The signing secret must have at least ${minSecretLength} characters.`,
        "/secret",
      ),
      () => {
        if (config.template != null) templateRule(config.template);
      },
      ...headers,
    );
  },

  complete: (config) => ({ ...config, secret: config.secret ?? null, template: config.template ?? null }),
  address: ({ url }) => ({ url, pointer: "/url" }),
  rounds: "possible",
  shares: "group",
  everyChange: true,

  async send(config, message, { http }) {
    const body = bodyOf(config.template, message);
    const signed = config.secret == null ? {} : signature(config.secret, message.sentAt, body);
    await deliver(http, {
      method: "POST",
      url: config.url,
      headers: { ...config.headers, "content-type": "application/json", ...signed },
      body,
    });
  },
});

const headerPointer = (name: string): string => `/headers/${pointerSegment(name)}`;

function throws(check: () => void): boolean {
  try {
    check();
    return false;
  } catch {
    return true;
  }
}
