import type { ChannelType } from "./kinds/index.ts";

/*
 * One case per kind for the conformance suite (kinds.test.ts). A kind without a case does not compile.
 */

/** A request or a mail that a kind sends. */
export interface Sent {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: string;
}

export interface KindCase {
  /** A config of every field. The values of secrets are unique texts of at least 16 characters. */
  config: Record<string, unknown>;
  /** Changes that make the config invalid, the field of the error and a part of its message. */
  refused: [changes: Record<string, unknown>, field: string, message: RegExp][];
  /** Body of the vendor's reply to an accepted message, where it is not free. */
  accepts?: string;
  /** True for a kind that sends mail: the tests of HTTP replies leave it out. */
  mail?: true;
  /** True for a kind whose channels are made by link codes only. */
  managed?: true;
  /** Bodies of 200 replies that report an error, with the text of the error and whether it is final. */
  errorsIn200?: { body: string; error: RegExp; permanent: boolean }[];
  /** The texts of a body that the vendor shows. */
  texts(body: string): string[];
  /** What would be a mention, a link or formatting in {@link texts}; null for a kind that programs read. */
  markup: RegExp | null;
  /** The message of a violated limit of the vendor; null for none. */
  overLimit(body: string): string | null;
}

type Json = Record<string, unknown>;
const json = (body: string): Json => JSON.parse(body) as Json;

/** Every text in a JSON value. */
function allTexts(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(allTexts) : [];
}

export const kindCases: Record<ChannelType, KindCase> = {
  slack: {
    config: { type: "slack", webhook_url: "https://hooks.slack.com/services/T000/B000/SECRET-OF-SLACK" },
    refused: [
      [{ webhook_url: "http://hooks.slack.com/services/T/B/X" }, "/webhook_url", /https/],
      [{ webhook_url: "https://hooks.slack.com/services/T/B/X?a=b" }, "/webhook_url", /no query/],
      [{ webhook_url: "hooks.slack.com" }, "/webhook_url", /not a URL/],
    ],
    texts: (body) => [String(json(body)["text"])],
    markup: /<(?!https:\/\/status\.example\.org\/)|<!/,
    overLimit: (body) => ([...String(json(body)["text"])].length > 40_000 ? "text" : null),
  },
  webhook: {
    config: {
      type: "webhook",
      url: "https://hooks.example.org/alerts/SECRET-OF-WEBHOOK",
      headers: { "X-Api-Key": "SECRET-IN-A-HEADER" },
      secret: "SECRET-OF-SIGNATURE",
    },
    refused: [
      [{ url: "http://hooks.example.org/" }, "/url", /https/],
      [{ secret: "short" }, "/secret", /at least 16/],
    ],
    texts: (body) => allTexts(json(body)),
    markup: null,
    overLimit: () => null,
  },
};
