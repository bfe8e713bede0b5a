import Type, { type Static } from "typebox";
import { Closed, described, nullable, OneOf } from "../schema/shapes.ts";

/** Limits of a snapshot. The sum bounds the names and values of all headers, characters. */
export const snapshotLimits = { statusLine: 200, headers: 40, name: 100, value: 500, headerSum: 4096, body: 1024 };

const bodyStates = ["complete", "truncated", "interrupted", "not_text", "none"] as const;

/** The response of a failed HTTP run, on the agent's wire and in the API. Secrets are masked by the agent. */
export const FailureSnapshot = Closed(
  {
    status_line: described(
      Type.String({ maxLength: snapshotLimits.statusLine }),
      "Status line of the last response of the run",
      "HTTP/1.1 503 Service Unavailable",
    ),
    headers: Type.Array(
      Closed(
        {
          name: Type.String({ maxLength: snapshotLimits.name, description: "As received", examples: ["Content-Type"] }),
          value: described(
            Type.String({ maxLength: snapshotLimits.value }),
            "Secrets read as ***, control characters as escapes",
            "text/html",
          ),
        },
        { description: "One header" },
      ),
      { maxItems: snapshotLimits.headers, description: "Headers in the order received" },
    ),
    headers_omitted: described(
      Type.Integer({ minimum: 0, maximum: 100_000 }),
      "Headers beyond the limit, which are left out",
      0,
    ),
    body: described(
      nullable(Type.String({ maxLength: snapshotLimits.body })),
      "Beginning of a text body, at most 1 KiB; null for any other body and where none was received",
      "<h1>Service Unavailable</h1>",
    ),
    body_state: OneOf(
      bodyStates,
      "`complete`: `body` is all of it; `truncated`: it is longer; `interrupted`: the connection or the time " +
        "ended before it; `not_text`: binary or compressed; `none`: no body was received",
      "complete",
    ),
  },
  { description: "Response of a failed HTTP run" },
);
export type FailureSnapshot = Static<typeof FailureSnapshot>;

/** Unicode categories of characters that are invisible or change the direction or layout of text around them. */
const unseen = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** The text with invisible characters as escapes (`\u202e`); line breaks and tabs stay where `lines` is true. */
function visible(text: string, lines: boolean): string {
  const broken = lines ? text.replaceAll("\r\n", "\n") : text;
  return broken.replaceAll(unseen, (character) =>
    lines && (character === "\n" || character === "\t")
      ? character
      : `\\u${character.codePointAt(0)!.toString(16).padStart(4, "0")}`,
  );
}

/** The first `max` UTF-16 units of a text, ending at a character and with an ellipsis where it is cut. */
function cut(text: string, max: number): string {
  if (text.length <= max) return text;
  return `${text.slice(0, max - 1).replace(/[\ud800-\udbff]$/, "")}…`;
}

/** A snapshot within {@link snapshotLimits} and without invisible characters; idempotent. */
export function boundedSnapshot(from: FailureSnapshot): FailureSnapshot {
  const headers: FailureSnapshot["headers"] = [];
  let sum = 0;
  for (const header of from.headers.slice(0, snapshotLimits.headers)) {
    const name = cut(visible(header.name, false), snapshotLimits.name);
    const value = cut(visible(header.value, false), snapshotLimits.value);
    sum += name.length + value.length;
    if (sum > snapshotLimits.headerSum) break;
    headers.push({ name, value });
  }
  const body = from.body === null ? null : visible(from.body, true);
  const longer = body !== null && body.length > snapshotLimits.body;
  return {
    status_line: cut(visible(from.status_line, false), snapshotLimits.statusLine),
    headers,
    headers_omitted: Math.min(100_000, from.headers_omitted + from.headers.length - headers.length),
    body: longer ? cut(body, snapshotLimits.body) : body,
    body_state: longer && from.body_state === "complete" ? "truncated" : from.body_state,
  };
}
