import Type, { type Static, type TSchema } from "typebox";
import { AppError, type ErrorCode } from "../errors.ts";
import type { SecretsDestination } from "../secrets.ts";
import { unseenIn } from "../url.ts";
import type { ShellForm } from "./shell.ts";

/** The details that results of a kind carry, whatever their status. */
export interface KindDetails<D = Record<string, unknown>> {
  /** Strict and bounded: a result of the kind takes a few hundred bytes more. */
  readonly schema: TSchema;
  /** The time that the details are about, Unix ms: monitors are sorted by it. */
  expiresAt(details: D): number;
  /** One sentence as of `now` (Unix ms), without a full stop: `Expires in 74 days, on 4 February 2027, issued by R11`. */
  inWords(details: D, now: number): string;
}

/** The shared half of a check kind. The other half, the probe, is in the agent under the same file name. */
export interface CheckKind<S extends TSchema = TSchema> {
  readonly type: string;
  /** How people call it: "HTTP". */
  readonly label: string;
  /** The wire shape. Fields with a `default` may be omitted on create. */
  readonly schema: S;
  readonly minIntervalSecs: number;
  readonly defaultIntervalSecs: number;
  /** Rules that a schema cannot say. Throws AppError whose field is a pointer relative to the check (`/url`). */
  rules(spec: Static<S>): void;
  /**
   * The host and port that the check talks to first, for the guard, the per-host cap and the circuit breaker. Null where the
   * check chooses none (it asks the machine's own resolver, or a public registry): none of the three applies then.
   */
  destination(spec: Static<S>): { host: string; port: number; pointer: string } | null;
  /** The name that the check asks others about without talking to it, where the kind has one: the lists of what may not be monitored hold for it too. */
  subject?(spec: Static<S>): { name: string; pointer: string } | null;
  /** The name that the check has the machine's own name server look up, to tell what it answers: where the guard stands it must be one of the public DNS. */
  asksAtHome?(spec: Static<S>): { name: string; pointer: string } | null;
  /** The URL that the check asks for, where the kind has one. Its field is `/url`. */
  url?(spec: Static<S>): URL;
  /** Applies `change` to every secret of the check, and returns the copy. `pointer` names the field. */
  mapSecrets(spec: Static<S>, change: (secret: string, pointer: string) => string): Static<S>;
  /** True for a secret that earlier versions took for none and stored as it came; it is sealed at the next write. */
  formerlyPlain?(pointer: string): boolean;
  /**
   * The server that the secrets are sent to; null for a kind without secrets. An edit that changes it must bring every
   * stored secret again. Called after {@link rules}.
   */
  secretsGoTo(spec: Static<S>): SecretsDestination | null;
  /** One line that says what is checked, without secrets: `GET https://example.org/health`. */
  summary(spec: Static<S>): string;
  /** What a search of the list finds the check by, beside the name of its target: without secrets, one text a line. */
  searchText(spec: Static<S>): string;
  /** How it is written in a shell. */
  readonly shell: ShellForm;
  /** For a kind whose results carry details beside the measurement. */
  readonly details?: KindDetails<never>;
  /** For a kind whose results carry a JSON document as their error: what it says, as a sentence without a full stop. Null for what is no such document. */
  errorInWords?(error: string): string | null;
}

/** Total time budget of a check, ms. The same for every kind. */
export const Timeout = Type.Integer({
  minimum: 100,
  maximum: 60_000,
  default: 10_000,
  errorCode: "INVALID_TIMEOUT",
  description: "Time budget of the whole check, milliseconds",
});

/** A name or address as a person writes it, in the form that the dialler and the guard understand; throws what URL throws. */
export function canonicalHost(host: string): string {
  const bare = host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
  // A URL parser reads 2130706433, 0x7f.1 and full-width dots the way a resolver would; nothing else does it reliably.
  const url = new URL(`http://${bare}/`);
  if (
    url.port !== "" ||
    url.username !== "" ||
    url.pathname !== "/" ||
    url.search !== "" ||
    url.hash !== "" ||
    url.hostname === ""
  ) {
    throw new TypeError("not a bare host");
  }
  return url.hostname.replace(/^\[|\]$/g, "").replace(/(?<=.)\.$/, "");
}

/** {@link canonicalHost}, with the error that the API gives. */
export function hostOrThrow(host: string, pointer: string): string {
  try {
    if (/[\s/@?#\\]/.test(host)) throw new TypeError("not a bare host");
    return canonicalHost(host);
  } catch (cause) {
    throw new AppError(
      "INVALID_TCP_HOST",
      `"${host}" is not a host name or an IP address. Write it without scheme, port or path, for example db.example.org.`,
      {
        field: pointer,
        cause,
      },
    );
  }
}

/**
 * Refuses a name or address with a character that cannot be seen: resolvers and URL parsers drop some of them, and the
 * monitor would show another name than it checks. A rule for what is entered; stored rows of earlier versions keep running.
 */
export function refuseUnseen(text: string, code: ErrorCode, pointer: string): void {
  const found = unseenIn(text);
  if (found !== null)
    throw new AppError(code, `The name or address ${found}. Remove that character.`, { field: pointer });
}

/** The JSON object that a text is; empty for any other text. */
export function documentIn(text: string): Readonly<Record<string, unknown>> {
  if (!text.startsWith("{")) return {};
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** `in 5 days`, from whole days left (0 and more). */
export function inDays(left: number): string {
  return left === 0 ? "in less than a day" : left === 1 ? "in 1 day" : `in ${left} days`;
}

/** `5 days ago`, from whole days left, rounded down (-1 and less). */
export function daysAgo(left: number): string {
  return left === -1 ? "less than a day ago" : left === -2 ? "1 day ago" : `${-left - 1} days ago`;
}
