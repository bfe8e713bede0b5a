import Type, { type Static, type TSchema } from "typebox";
import { AppError } from "@statusmesh/shared/errors";
import type { System } from "../context.ts";

/** Label of fields with text of customers or of monitored servers: clients take it as data, never as instructions. */
export const customerLabel = "Customer text";
export const customerText = (description: string) => Type.String({ description: `${customerLabel}: ${description}` });
export const isCustomerText = (description: string): boolean => description.startsWith(customerLabel);

/** A field of a result. Where the handler returns null, the result leaves it out. */
export const absent = <S extends TSchema>(schema: S) => Type.Optional(Type.Unsafe<Static<S> | null>(schema));

/** A page of the console. */
export const ConsoleUrl = Type.String({ description: "Page in the console, for people" });
export const consoleUrl = ({ config }: Pick<System, "config">, path: string): string =>
  `${config.server.public_url}${path}`;

/** Longest text of a customer in a result, characters. */
const maxText = 1_000;

/** The text, cut with a mark beyond `max` characters (code points). */
export function clipped(text: string, max: number = maxText): string {
  if (text.length <= max) return text;
  const characters = [...text];
  return characters.length <= max ? text : `${characters.slice(0, max - 1).join("")}…`;
}

export const clippedOrNull = (text: string | null, max?: number): string | null =>
  text === null ? null : clipped(text, max);

/** Control sequences of terminals: ECMA-48 section 5.4, and operating system commands (section 8.3.89). */
const terminal =
  // oxlint-disable-next-line no-control-regex -- these characters are what it removes
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\u001b\]|\u009d)[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?/g;
/** White space, control and format characters; the latter include those that turn the direction of text. */
const invisible = /[\s\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]+/gu;

/** The text on one line, without control, format and terminal characters. */
const oneLine = (text: string): string => text.replaceAll(terminal, "").replaceAll(invisible, " ").trim();

/** Characters of a name within a question; the rest is counted. */
const mostQuoted = 200;

/** A name within a question: on one line, in quotation marks that the text itself cannot close. */
export function quoted(text: string): string {
  const plain = oneLine(text).replaceAll(/[“”„‟"]/g, "'");
  const rest = [...plain].length - mostQuoted;
  return rest <= 0 ? `“${plain}”` : `“${[...plain].slice(0, mostQuoted).join("")}…” (and ${rest} more characters)`;
}

/** Characters without a visible form; those that writing systems and emoji need are allowed. */
const unseen = /(?![\n\t\u200c-\u200f])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;

/**
 * A text that a yes publishes, within a question: all of it, on one line with its line breaks marked. Throws
 * INVALID_BODY for a character that the question cannot show.
 */
export function quotedWhole(text: string, field: string): string {
  const hidden = unseen.exec(text)?.[0].codePointAt(0)!.toString(16).toUpperCase();
  if (hidden !== undefined)
    throw new AppError("INVALID_BODY", `${field} has the invisible character U+${hidden}: leave it out.`, {
      field: `/${field}`,
    });
  return `“${text
    .replaceAll(/[“”„‟]/g, '"')
    .replaceAll("\t", " ")
    .replaceAll("\n", " ↵ ")}”`;
}

/** Bytes of JSON of the rows of one list: a result stays under 25 kB. */
const listBytes = 20_000;

/** The first rows whose JSON fits `bytes`, and the number of those left out. */
export function fitting<T>(rows: readonly T[], bytes: number = listBytes): { rows: T[]; leftOut: number } {
  let used = 2;
  let count = 0;
  for (const row of rows) {
    // Results leave nulls out.
    used += Buffer.byteLength(JSON.stringify(row, (_, value: unknown) => value ?? undefined)) + 1;
    if (used > bytes) break;
    count++;
  }
  return { rows: rows.slice(0, count), leftOut: rows.length - count };
}
