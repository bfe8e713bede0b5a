/** Characters that a URL parser drops, or that cannot be seen: blanks, control and format characters. */
const invisible = /[\p{Cc}\p{Cf}\p{Z}]/u;
const namesOfInvisible: Readonly<Record<string, string>> = {
  " ": "a blank",
  "\t": "a tab",
  "\n": "a line break",
  "\r": "a line break",
};

/**
 * What is wrong with a text that holds a character which cannot be seen, as the end of a sentence: `contains a tab`.
 * Null for nothing.
 */
export function invisibleIn(text: string): string | null {
  const found = invisible.exec(text)?.[0];
  if (found === undefined) return null;
  const code = found.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0");
  return `contains ${namesOfInvisible[found] ?? `the invisible character U+${code}`}`;
}

/**
 * What is wrong with an absolute URL with a host, as whole sentences; null for nothing. A URL parser (WHATWG) mends
 * what is refused here: it drops tabs and blanks, takes backslashes for slashes, and finds a host after one slash or
 * three.
 */
export function urlProblem(text: string): string | null {
  const character = invisibleIn(text);
  if (character !== null) return `The URL ${character}. Remove it, or percent-encode it (a blank is %20).`;
  if (/^[^?#]*\\/.test(text)) return "The URL has a backslash. Write a slash in its place, or %5C.";
  if (/^[a-z][a-z\d+.-]*:\/\/[^/?#]/i.test(text) && URL.canParse(text)) return null;
  return "This is not a URL with a host. Write scheme, two slashes and host, for example https://example.org/health.";
}

/** The port of a URL, also where its scheme implies it. */
export const portOf = ({ protocol, port }: Pick<URL, "protocol" | "port">): number =>
  port === "" ? (protocol === "https:" || protocol === "wss:" ? 443 : 80) : Number(port);

/** Host and port as a URL has them: `db.example.org:5432`, `[2001:db8::1]:5432`. */
export const hostAndPort = (host: string, port: number): string => `${host.includes(":") ? `[${host}]` : host}:${port}`;

/** A percent-encoded text in clear; a text that is not valid as it is. */
export function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
