import { isIP } from "node:net";
import Type, { type Static, type TSchema } from "typebox";
import { AppError, type ErrorCode } from "../errors.ts";
import { checkAll, rule } from "../schema/faults.ts";
import type { FieldForm } from "../schema/form.ts";
import type { IpVersion } from "../net/resolve.ts";
import type { SecretsDestination } from "../secrets.ts";
import type { ShellForm } from "./shell.ts";

/** Details of the results of a kind, for every status. */
export interface KindDetails<D = Record<string, unknown>> {
  /** Strict and bounded: a few hundred bytes per result. */
  readonly schema: TSchema;
  /** The expiry in the details, Unix ms: the sort key of lists. None for details that only their result has. */
  expiresAt?(details: D): number;
  /** What expires; a certificate unless said. */
  readonly expires?: "domain";
  /**
   * One sentence as of `now` (Unix ms), without a full stop: `Expires in 74 days, on 4 February 2027, issued by R11`.
   */
  inWords(details: D, now: number): string;
}

/** A component of a status page, as a test lists it. */
export interface TestedComponent {
  id: string;
  name: string;
}

/** The shared half of a check kind. The other half, the probe, is in the agent under the same file name. */
export interface CheckKind<S extends TSchema = TSchema, D = never> {
  readonly type: string;
  /** Display name: "HTTP". */
  readonly label: string;
  /** What it is for, in a few words, and the icon of the console beside them. */
  readonly purpose: string;
  readonly icon: string;
  /** The wire shape. Fields with a `default` may be omitted on create. */
  readonly schema: S;
  readonly minIntervalSecs: number;
  readonly defaultIntervalSecs: number;
  /** Minimum time between rechecks, for a kind whose servers limit requests. */
  readonly minRecheckSecs?: number;
  /** Rules beyond the schema. Throws AppError whose field is a pointer relative to the check (`/url`). */
  rules(spec: Static<S>): void;
  /**
   * First host and port of the check, for guard, per-host cap and circuit breaker; no port for a kind that does not use
   * one. Null for a check without a chosen host (the system resolver, a public registry): none of the three applies.
   */
  destination(spec: Static<S>): { host: string; port?: number; pointer: string } | null;
  /** A name that the check looks up without connecting to it: the deny-lists apply to it too. */
  subject?(spec: Static<S>): { name: string; pointer: string } | null;
  /** A name that the system resolver looks up: with the guard on it must be a public name. */
  systemResolverName?(spec: Static<S>): { name: string; pointer: string } | null;
  /** The URL of the check, where the kind has one. Its field is `/url`. */
  url?(spec: Static<S>): URL;
  /** Returns a copy with `change` applied to every secret. `pointer` names the field. */
  mapSecrets(spec: Static<S>, change: (secret: string, pointer: string) => string): Static<S>;
  /**
   * The server that gets the secrets; null for a kind without secrets. An edit that changes it must send every stored
   * secret again. Called after {@link rules}.
   */
  secretsGoTo(spec: Static<S>): SecretsDestination | null;
  /** One line without secrets: `GET https://example.org/health`. */
  summary(spec: Static<S>): string;
  /** Search terms of the list besides the name: without secrets, one per line. */
  searchText(spec: Static<S>): string;
  /** Shell syntax of the check; none for a kind that no agent probes. */
  readonly shell?: ShellForm;
  /** The URL whose components a test of this check lists, where the check names one of them; else null. */
  testedUrl?(spec: Static<S>): string | null;
  /**
   * Sentences for who saves a check: what it will not find out. Called after {@link rules}. `tested`: what a recent
   * test of its {@link testedUrl} has listed; null without one.
   */
  savedWarnings?(spec: Static<S>, tested: readonly TestedComponent[] | null): string[];
  /** What a check names that an agent must have, such as a command; none where every agent runs every check. */
  needs?(spec: Static<S>): string;
  /** Why an agent without that does not run the check, with what to do. */
  lacks?(spec: Static<S>): string;
  /** Causes for which an agent runs no check of the kind, by the name that it reports, with what to do. */
  readonly causes?: Readonly<Record<string, string>>;
  /** For a kind of which a test does more than ask a server: it is in the audit log. */
  readonly testIsAudited?: true;
  /** For a kind that no agent probes: what it checks reports to the control plane. */
  readonly reported?: true;
  /** For a kind whose results have details. */
  readonly details?: KindDetails<D>;
  /** For a kind with a JSON document as error: its sentence without a full stop. Null for any other text. */
  errorInWords?(error: string): string | null;
}

/** Total time budget of a check, ms. Its bounds are the same for every kind. */
export const timeout = (form: Pick<FieldForm, "hint" | "section" | "beside">, fallback = 10_000) =>
  Type.Integer({
    minimum: 100,
    maximum: 60_000,
    default: fallback,
    errorCode: "INVALID_TIMEOUT",
    description: "Time budget of the whole check, milliseconds",
    form: { label: "Timeout (ms)", ...form },
  });

/** A text, null unless it is set. `errorCode` is the API error of another value, INVALID_BODY by default. */
export const nullableText = (maxLength: number, description: string, form: FieldForm, errorCode?: ErrorCode) =>
  Type.Union([Type.String({ minLength: 1, maxLength }), Type.Null()], {
    default: null,
    ...(errorCode !== undefined && { errorCode }),
    description,
    form,
  });

/** Whether the certificate of the server counts. */
export const verifyTls = (section: string, description = "false accepts any certificate") =>
  Type.Boolean({ default: true, description, form: { section, label: "Verify the certificate" } });

/** The address family of a kind that connects. {@link ipVersionRule} has its other rule. */
export const ipVersion = (section: string) =>
  Type.Optional(
    Type.Enum(["any", "4", "6"], {
      default: "any",
      description: "Connects over IPv4 or IPv6 only; any: over both, the first that answers",
      form: {
        section,
        label: "IP version",
        options: { any: "Any", 4: "IPv4 only", 6: "IPv6 only" },
        beside: true,
      },
    }),
  );

/** Throws for a host that is an address of another family than the one chosen. */
export function ipVersionRule(host: string, version: IpVersion = "any", code: ErrorCode = "INVALID_TCP_HOST"): void {
  const family = isIP(host);
  if (version === "any" || family === 0 || String(family) === version) return;
  throw new AppError(
    code,
    `${host} is an IPv${family} address, which a check over IPv${version} never connects to. Set ip_version to any.`,
    { field: "/ip_version" },
  );
}

/** Why a check with credentials must verify the certificate, and the way for an internal authority. */
export const credentialsUnverified =
  "Credentials are not sent to a server whose certificate is not verified. Set verify_tls to true (for an internal " +
  "authority name it in certificates.ca_id, or start the agent with --ca-file)";

/** A time in ms above which a run that found nothing wrong is slow. {@link thresholdRules} has its other rules. */
export const threshold = (description: string, form: FieldForm) =>
  Type.Union([Type.Integer({ minimum: 1, maximum: 60_000 }), Type.Null()], {
    default: null,
    errorCode: "INVALID_THRESHOLD",
    description,
    form,
  });

/** The threshold that every kind with a duration has. */
export const degradedAbove = (form: Pick<FieldForm, "section" | "beside"> = {}) =>
  threshold("Degraded when the whole check takes longer than this, milliseconds; null: never", {
    label: "Degraded above (ms)",
    hint: "A slower check is degraded. Empty: never.",
    ...form,
  });

/** Throws INVALID_THRESHOLD for thresholds that no run could exceed, or in the wrong order. */
export function thresholdRules(spec: {
  timeout: number;
  degraded_above_ms?: number | null;
  down_above_ms?: number | null;
}): void {
  const { timeout: most, degraded_above_ms: degraded = null, down_above_ms: down = null } = spec;
  checkAll(
    ...Object.entries({ degraded_above_ms: degraded, down_above_ms: down }).map(([name, limit]) =>
      rule(
        limit === null || limit <= most,
        "INVALID_THRESHOLD",
        `${name} (${limit}) must be at most the timeout (${most}): a run never takes longer.`,
        `/${name}`,
      ),
    ),
    rule(
      degraded === null || down === null || down > degraded,
      "INVALID_THRESHOLD",
      `down_above_ms (${down}) must be more than degraded_above_ms (${degraded}): a check is degraded first.`,
      "/down_above_ms",
    ),
  );
}
