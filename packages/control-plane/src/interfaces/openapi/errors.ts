import { errorCodes, type ErrorCode } from "@statusmesh/shared/errors";
import { errorExamples } from "./error-examples.ts";
import type { Json } from "@statusmesh/shared/json";
import { fixedHeader, sharedHeader } from "./parts.ts";

/** The codes of each status, in the order of the statuses. */
export function byStatus(codes: readonly ErrorCode[]): [status: number, codes: ErrorCode[]][] {
  const found = new Map<number, ErrorCode[]>();
  for (const code of codes) {
    const { status } = errorCodes[code];
    found.set(status, [...(found.get(status) ?? []), code]);
  }
  return [...found].sort(([a], [b]) => a - b);
}

/** When a response has one of these codes. */
export const whenOf = (codes: readonly ErrorCode[]): string =>
  codes.map((code) => `${code}: ${errorCodes[code].when}`).join("; ");

/** Responses of these codes by status, with references to components. `challenge` is what a 401 asks for. */
export function errorResponses(codes: Iterable<ErrorCode>, used: Set<ErrorCode>, challenge = "Bearer"): Json {
  const all = [...codes];
  for (const code of all) used.add(code);
  // A status with a single code shares one response component.
  return Object.fromEntries(
    byStatus(all).map(([status, [only, ...more]]) => [
      status,
      more.length === 0 && (status !== 401 || challenge === "Bearer")
        ? { $ref: `#/components/responses/${only}` }
        : response(status, [only!, ...more], challenge),
    ]),
  );
}

/**
 * Components of the codes in use: an example each, and a response for codes that are alone under a status in `paths`.
 */
export function errorComponents(used: ReadonlySet<ErrorCode>, paths: Json): { examples: Json; responses: Json } {
  const codes = [...used].sort();
  const text = JSON.stringify(paths);
  const alone = codes.filter((code) => text.includes(`"#/components/responses/${code}"`));
  return {
    examples: Object.fromEntries(
      codes.map((code) => [code, { summary: sentence(errorCodes[code].when), value: envelopeOf(code) }]),
    ),
    responses: Object.fromEntries(alone.map((code) => [code, response(errorCodes[code].status, [code])])),
  };
}

function response(status: number, codes: ErrorCode[], challenge = "Bearer"): Json {
  const headers: Json = {
    "X-Request-Id": sharedHeader("RequestId"),
    "Cache-Control": sharedHeader("NoStore"),
  };
  if (status === 429 || status === 503) headers["Retry-After"] = sharedHeader("RetryAfter");
  if (status === 401)
    headers["WWW-Authenticate"] =
      challenge === "Bearer" ? sharedHeader("Authenticate") : fixedHeader("Authentication scheme", challenge);
  return {
    description: whenOf(codes),
    headers,
    content: {
      "application/json": {
        schema: { $ref: "#/components/schemas/Error" },
        examples: Object.fromEntries(codes.map((code) => [code, { $ref: `#/components/examples/${code}` }])),
      },
    },
  };
}

/** Example body of an error with this code. */
function envelopeOf(code: ErrorCode): Json {
  const { message = sentence(errorCodes[code].when), field = null, details = null } = errorExamples[code] ?? {};
  return { error: { code, message, field, details, trace_id: "4bf92f3577b34da6a3ce929d0e0e4736" } };
}

const sentence = (when: string): string => `${when.charAt(0).toUpperCase()}${when.slice(1)}.`;
