import type { Response } from "../http/response.ts";
import { blockTraits } from "./block-traits.ts";
import { originTraits } from "./origin-traits.ts";
import type { Trait } from "./trait.ts";

/** A response as far as it was read. */
export interface ReceivedResponse {
  readonly response: Pick<Response, "status" | "fields">;
  /** Null where the body was not read. */
  readonly body: { readonly start: Buffer } | null;
}

/** Headers that are looked at; the rest of a head may be of any number. */
const maxFields = 200;
const traits: readonly Trait[] = [...blockTraits, ...originTraits];

interface Seen {
  status: number;
  headers: ReadonlyMap<string, string>;
  cookies: readonly string[];
  /** The first KiB of the body in lower case. */
  text: string;
}

/** Recognises answers of products that stand before an origin, and limits of rate; null for any other response. */
export function responseDiagnosis({ response, body }: ReceivedResponse): string | null {
  const { status } = response;
  const headers = new Map<string, string>();
  const cookies: string[] = [];
  for (const [name, value] of response.fields.slice(0, maxFields)) {
    const key = name.toLowerCase();
    if (key === "set-cookie") cookies.push(value.slice(0, 100).toLowerCase());
    else if (!headers.has(key)) headers.set(key, value.slice(0, 200).toLowerCase());
  }
  const seen: Seen = { status, headers, cookies, text: (body?.start.toString("latin1") ?? "").toLowerCase() };
  const found = traits.find((trait) => holds(trait, seen));
  if (found !== undefined) return `${found.kind}:${found.provider}:${found.detail ?? ""}`;
  return cloudflare(seen) ?? (status === 429 ? limited("", seen) : null);
}

function holds({ status, headers, cookie, body }: Trait, seen: Seen): boolean {
  if (status !== undefined && !status.includes(seen.status)) return false;
  for (const name in headers) if (seen.headers.get(name)?.includes(headers[name]!) !== true) return false;
  if (cookie !== undefined && !seen.cookies.some((one) => one.startsWith(cookie))) return false;
  return body === undefined || body.every((part) => seen.text.includes(part));
}

/** A limit of rate, with the seconds of its Retry-After where it has them (RFC 9110 section 10.2.3). */
function limited(provider: string, { headers }: Seen): string {
  const wait = headers.get("retry-after")?.trim() ?? "";
  return `rate_limited:${provider}:${/^[0-9]{1,7}$/.test(wait) ? wait : ""}`;
}

/** Codes of Cloudflare that refuse a client, and those about the way to the origin. */
const clientCodes = new Set(["1005", "1006", "1007", "1008", "1009", "1010", "1012", "1020"]);
const originCodes = new Set(["502", "504", "520", "521", "522", "523", "524", "1000", "1001", "1016", "1033"]);

/**
 * Errors of Cloudflare itself, by their code: programs get the text `error code: 1020`, browsers a page whose title has
 * the status (developers.cloudflare.com/support/troubleshooting). Answers of an origin behind it are none.
 */
function cloudflare(seen: Seen): string | null {
  const { status, headers, text } = seen;
  if (headers.get("server") !== "cloudflare") return null;
  const isRestricted = text.includes("used cloudflare to restrict access</title>");
  const stated = text.startsWith("error code: ") ? text.slice("error code: ".length, 20).trim() : "";
  if (stated === "1015" || (isRestricted && status === 429)) return limited("cloudflare", seen);
  if (clientCodes.has(stated)) return `blocked:cloudflare:${stated}`;
  if (isRestricted && status === 403) return "blocked:cloudflare:";
  if (originCodes.has(stated)) return `origin_unreachable:cloudflare:${stated}`;
  const isOwn = (status >= 520 && status <= 524) || text.includes(` | ${status}: `);
  if (isOwn && originCodes.has(String(status))) return `origin_unreachable:cloudflare:${status}`;
  if (status !== 530) return null;
  return text.includes("origin dns error") ? "origin_unreachable:cloudflare:1016" : "origin_unreachable:cloudflare:";
}
