import { isSecretHeader, isSendableHeader } from "../checks/http-rules.ts";
import type { Json } from "../json.ts";
import { percentDecoded } from "../url.ts";
import { Secret } from "./check.ts";
import type { Item } from "./item.ts";
import { clamp } from "./values.ts";

/** A request as other products describe it. */
export interface HttpInput {
  url: string;
  method?: string;
  headers?: readonly (readonly [name: string, value: string])[];
  body?: string;
  basicAuth?: readonly [user: string, password: string] | null;
  bearer?: string;
  /** Ms; null for the default. */
  timeoutMs?: number | null;
  verifyTls?: boolean;
  followRedirects?: boolean;
  maxRedirects?: number;
  /** Status codes that are up: `200`, `200-299`, `2xx`; empty for 200-299. */
  statuses?: readonly string[];
  /** Expectations of the body, thresholds. */
  more?: Json;
}

/** Operators of `expected_json` by the names that other products give them. */
export const jsonOperators: ReadonlyMap<string, string> = new Map([
  ["==", "eq"],
  ["!=", "ne"],
  ["<", "lt"],
  ["<=", "le"],
  [">", "gt"],
  [">=", "ge"],
]);

const bodiless = new Set(["GET", "HEAD"]);

/** The check, and notes on what a StatusMesh check cannot say. */
export function httpCheck(item: Item, input: HttpInput): Json & { type: "http" } {
  const method = (input.method ?? "").toUpperCase() || "GET";
  const { url, basicAuth } = withoutCredentials(item, input);
  const headers = headersOf(item, input.headers ?? []);
  const bearer = input.bearer ?? "";
  const isAuthenticated =
    basicAuth !== null || bearer !== "" || headers.some(([name]) => /^(?:proxy-)?authorization$/i.test(name));
  const body = input.body ?? "";
  if (body !== "" && bodiless.has(method))
    item.note(`its ${method} request had a body, which is not sent here: use POST where the server takes it`);
  const isUnverified = input.verifyTls === false;
  const keepsCheck = isUnverified && isAuthenticated && /^https:/i.test(url);
  if (keepsCheck)
    item.note(
      "its certificate is verified, because credentials are sent: it is down until the agents trust the certificate",
      "silent",
    );
  return {
    type: "http",
    url,
    method: method === "GET" ? undefined : method,
    ...statusOf(item, input.statuses ?? []),
    headers:
      headers.length === 0
        ? undefined
        : Object.fromEntries(headers.map(([name, value]) => [name, isSecretHeader(name) ? new Secret(value) : value])),
    body: body === "" || bodiless.has(method) ? undefined : body,
    basic_auth: basicAuth === null ? undefined : [basicAuth[0], new Secret(basicAuth[1])],
    bearer_token: bearer === "" || basicAuth !== null ? undefined : new Secret(bearer),
    timeout: input.timeoutMs == null ? undefined : timeoutOf(item, input.timeoutMs),
    verify_tls: isUnverified && !keepsCheck ? false : undefined,
    follow_redirects: input.followRedirects === false ? false : undefined,
    max_redirects: input.maxRedirects === undefined ? undefined : clamp(input.maxRedirects, 0, 20),
    ...input.more,
  };
}

/** A timeout within our bounds, ms. */
export function timeoutOf(item: Item, ms: number): number {
  if (ms > 60_000) item.note(`its timeout is 60 s: longer ones are not possible`);
  return clamp(ms, 100, 60_000);
}

/** Credentials of the URL are moved to basic_auth, as a client does that sends them. */
function withoutCredentials(item: Item, { url: text, basicAuth = null }: HttpInput) {
  if (!URL.canParse(text)) return { url: text, basicAuth };
  const url = new URL(text);
  if (url.username === "" && url.password === "") return { url: text, basicAuth };
  const given = [percentDecoded(url.username), percentDecoded(url.password)] as const;
  url.username = "";
  url.password = "";
  item.note("the user and password of its URL are in basic_auth now", "detail");
  return { url: url.href, basicAuth: basicAuth ?? (given[0] === "" ? null : given) };
}

/** Headers that can be sent, each once. */
function headersOf(item: Item, headers: readonly (readonly [string, string])[]): [string, string][] {
  const seen = new Set<string>();
  return headers.flatMap(([name, value]): [string, string][] => {
    const lower = name.toLowerCase();
    if (isSendableHeader(name, value) && !seen.has(lower) && seen.size < 50) {
      seen.add(lower);
      return [[name, value]];
    }
    item.note("one of its headers is left out: it cannot be sent, is there twice, or is written by the agent");
    return [];
  });
}

/** Status codes as `expected_status`, from `200`, `200-299` and `2xx`. */
function statusOf(item: Item, wanted: readonly string[]): Json {
  const ranges: [number, number][] = [];
  for (const text of wanted.slice(0, 1000)) {
    const [, from, to] = /^\s*(\d{3})\s*(?:-\s*(\d{3}))?\s*$/.exec(text) ?? [];
    const [, hundred] = /^\s*([1-5])xx\s*$/i.exec(text) ?? [];
    const range: [number, number] =
      hundred === undefined ? [Number(from), Number(to ?? from)] : [Number(hundred) * 100, Number(hundred) * 100 + 99];
    if (range[0] >= 100 && range[1] <= 599 && range[0] <= range[1]) ranges.push(range);
    else item.note(`the status code ${text.slice(0, 20)} is left out: codes are 100 to 599`);
  }
  if (ranges.length === 0) return {};
  const codes = [
    ...new Set(ranges.flatMap(([from, to]) => Array.from({ length: to - from + 1 }, (_, at) => from + at))),
  ];
  return expectedStatus(codes.sort((a, b) => a - b));
}

/** Ascending status codes as `expected_status`; nothing for the default. */
export function expectedStatus(codes: readonly number[]): Json {
  const [first = 0, last = 0] = [codes[0], codes.at(-1)];
  if (first === last) return { expected_status: { kind: "exact", value: first } };
  if (last - first + 1 !== codes.length) return { expected_status: { kind: "one_of", value: codes } };
  return first === 200 && last === 299 ? {} : { expected_status: { kind: "range", value: { min: first, max: last } } };
}

/** A substring of at most 1,000 characters as an expectation; a longer one is cut, which still holds for `contains`. */
export function containing(item: Item, wanted: string, isAbsent: boolean): Json {
  if (wanted === "") return {};
  if (wanted.length > 1000 && isAbsent) {
    item.note("its keyword has more than 1,000 characters and is left out");
    return {};
  }
  if (wanted.length > 1000) item.note("its keyword is cut after 1,000 characters", "detail");
  return { [isAbsent ? "expected_body_absent" : "expected_body_contains"]: wanted.slice(0, 1000) };
}
