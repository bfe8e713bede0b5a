import { OAuthProblem } from "./problem.ts";

/** Addresses that a client may register. */
const maxRedirects = 10;
const maxLength = 2048;

/** Cleartext only on this machine (RFC 8252, section 7.3), by these names alone: 2130706433 is 127.0.0.1, too. */
const loopback = /^(http:\/\/(?:localhost|127\.0\.0\.1|\[::1\]))(?::\d{1,5})?(?=[/?]|$)/;
/** Scheme and authority of an https address, without a user. */
const https = /^https:\/\/([^/?#@\\]+)(?=[/?]|$)/;

const refuse = (why: string): OAuthProblem => new OAuthProblem("invalid_redirect_uri", why);

/** The redirect_uris of a registration. Throws invalid_redirect_uri with the rule when none of them is valid. */
export function checkRedirects(value: unknown): { valid: string[]; refused: string[] } {
  if (!Array.isArray(value) || value.length === 0 || value.length > maxRedirects)
    throw refuse(`redirect_uris must be a list of 1 to ${maxRedirects} addresses.`);
  const valid: string[] = [];
  const refused: string[] = [];
  for (const [at, uri] of (value as unknown[]).entries()) {
    const why = typeof uri === "string" ? faultOf(uri) : "is no text";
    if (why === null) valid.push(uri as string);
    else refused.push(`redirect_uris[${at}] ${why}.`);
  }
  if (valid.length === 0) throw refuse(refused.join(" "));
  return { valid, refused };
}

function faultOf(uri: string): string | null {
  if (uri.length > maxLength) return `is longer than ${maxLength} characters`;
  // The URL parser silently removes line breaks and tabs, and reads a backslash as a slash.
  if (!/^[\x21-\x7e]+$/.test(uri) || /[\\"<>^`{|}]/.test(uri)) return "has characters that an address cannot have";
  if (uri.includes("#")) return "has a fragment";
  if (!URL.canParse(uri)) return "is not an address";
  const { username, password, hostname, port } = new URL(uri);
  if (username !== "" || password !== "") return "has a user name";
  if (loopback.test(uri)) return null;
  const authority = https.exec(uri)?.[1]?.toLowerCase();
  if (authority === undefined)
    return "must be https, or http on localhost, 127.0.0.1 or [::1]; other schemes are not supported";
  const host = authority.replace(/:\d*$/, "");
  return host === hostname && (port === "" || authority === `${hostname}:${port}`)
    ? null
    : "writes its host in another way than browsers do";
}

/** True for an app on the computer of its user. */
export const isLoopback = (uri: string): boolean => loopback.test(uri);

/** The loopback address without its port, which is free (RFC 8252, section 7.3); others as they are. */
const withoutPort = (uri: string): string => uri.replace(loopback, "$1");

/** True when the client registered the address: equal as text, but for the port of a loopback address. */
export function isRegistered(uri: string, registered: readonly string[]): boolean {
  if (registered.includes(uri)) return true;
  return faultOf(uri) === null && loopback.test(uri) && registered.some((one) => withoutPort(one) === withoutPort(uri));
}

/** Host and port of an address, for people. */
export const hostOf = (uri: string): string => new URL(uri).host;

/** The address with the parameters of an answer appended; null ones are left out. */
export function answerAt(uri: string, answer: Readonly<Record<string, string | null>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(answer)) if (value !== null) query.append(name, value);
  const separator = uri.includes("?") ? (/[?&]$/.test(uri) ? "" : "&") : "?";
  return `${uri}${separator}${query}`;
}
