import { createHash } from "node:crypto";
import { tokenizer, TokenType } from "@csstools/css-tokenizer";
import { AppError } from "@statusmesh/shared/errors";
import { takeTurns } from "../../platform/process/turns.ts";

export const maxCssBytes = 32_768;

/** Functions that load something, by CSS Images 4, Values 5 and what browsers had before; without vendor prefixes. */
const loading: ReadonlySet<string> = new Set([
  "url",
  "src",
  "image",
  "image-set",
  "cross-fade",
  "element",
  "url-prefix",
]);
/** At-rules that load something, or that change what the rest means. */
const refusedRules: ReadonlySet<string> = new Set(["import", "namespace", "font-face", "property", "charset"]);

const withoutPrefix = (name: string): string => name.toLowerCase().replace(/^-[a-z]+-/, "");

/**
 * The style sheet of a page, or INVALID_CSS with line and column where it is too long, no CSS, or would load something:
 * a page of visitors requests its own host only. At most 50 ms for 32 KiB.
 */
export function checkedCss(css: string | null | undefined): string | null {
  for (const _ of checks(css ?? ""));
  return (css ?? "").trim() === "" ? null : css!;
}

/** {@link checkedCss} in slices. */
export async function checkedCssInTurns(css: string | null | undefined): Promise<string | null> {
  if ((css ?? "").trim() === "") return null;
  const turns = await takeTurns();
  for (const _ of checks(css!)) if (turns.over()) await turns.next();
  return css!;
}

/** Refuses a style sheet token by token. Names are compared as the tokenizer reads them, without escapes. */
function* checks(css: string): Generator<void> {
  if (Buffer.byteLength(css) > maxCssBytes)
    throw new AppError("INVALID_CSS", `The style sheet has more than ${maxCssBytes} bytes.`, { field: "/custom_css" });
  const refuse = (at: number, what: string): never => {
    const before = css.slice(0, at).split("\n");
    const [line, column] = [before.length, [...before.at(-1)!].length + 1];
    throw new AppError("INVALID_CSS", `Line ${line}, column ${column}: ${what}`, { field: "/custom_css" });
  };
  const tokens = tokenizer({ css }, { onParseError: ({ sourceStart, message }) => refuse(sourceStart, message) });
  // Open functions and parentheses, true for attr().
  const open: boolean[] = [];
  let inAttr = 0;
  while (!tokens.endOfFile()) {
    const token = tokens.nextToken();
    const [type, , at] = token;
    if (type === TokenType.URL || type === TokenType.BadURL) refuse(at, loads("url"));
    else if (type === TokenType.Function) {
      const name = withoutPrefix(token[4].value);
      if (loading.has(name)) refuse(at, loads(name));
      open.push(name === "attr");
      if (name === "attr") inAttr++;
    } else if (type === TokenType.OpenParen) open.push(false);
    else if (type === TokenType.CloseParen) {
      if (open.pop() === true) inAttr--;
    } else if (type === TokenType.Ident && inAttr > 0 && token[4].value.toLowerCase() === "url")
      refuse(at, "attr() with url loads something and is not allowed.");
    else if (type === TokenType.AtKeyword && refusedRules.has(withoutPrefix(token[4].value)))
      refuse(at, `@${token[4].value} is not allowed.`);
    yield;
  }
}

const loads = (name: string): string => `${name}() loads something and is not allowed.`;

/** Names a style sheet in its address; null for none. */
export const cssHash = (css: string | null): string | null =>
  css === null ? null : createHash("sha256").update(css).digest("hex").slice(0, 16);
