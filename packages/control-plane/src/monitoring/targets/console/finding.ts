import Type, { type Static } from "typebox";
import { errorInWords } from "@statusmesh/shared/checks";
import { checkStatuses } from "@statusmesh/shared/protocol/result";
import { nullable } from "@statusmesh/shared/schema/shapes";
import { validate } from "@statusmesh/shared/schema/validate";
import type { phasesOf } from "../../results/latency/service.ts";

const milliseconds = Type.Optional(nullable(Type.Number({ minimum: 0, maximum: 1e7 })));
const text = (maxLength: number) => Type.Optional(nullable(Type.String({ maxLength })));

/** The parts of a result of `POST /targets/test` and `check-now` that the console shows. */
const ShownResult = Type.Object({
  status: Type.Enum([...checkStatuses]),
  error: text(4000),
  http_status: Type.Optional(nullable(Type.Integer({ minimum: 0, maximum: 999 }))),
  region: text(40),
  total_ms: milliseconds,
  dns_ms: milliseconds,
  connect_ms: milliseconds,
  tls_ms: milliseconds,
  ttfb_ms: milliseconds,
});

const titles: Record<string, string> = { test: "Result", now: "Checked now" };

/**
 * A run made in the console as its pages show it: state, answer and phases, in the words of every other page; of
 * `region` without the phases, as one of several. `result` is the JSON of the result, `regionName` the name of a
 * region. Throws INVALID_BODY for any other text.
 */
export function findingOf(query: Readonly<Record<string, string>>, regionName: (id: string) => string) {
  const result = validate(ShownResult, parsed(query["result"] ?? ""), "/result");
  const { status, total_ms: total = null, region = null, error = null, http_status: code = null } = result;
  const name = region === null ? null : regionName(region);
  const isOne = query["of"] === "region" && name !== null;
  return {
    title: isOne ? name : (titles[query["of"] ?? ""] ?? titles["test"]!),
    status,
    answer: [code, error === null ? null : errorInWords(error)].filter((part) => part !== null).join(" "),
    total,
    region: isOne ? null : name,
    phases: isOne ? null : phasesIn(result),
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Time of each phase; null for a run without phases. */
function phasesIn(result: Static<typeof ShownResult>): ReturnType<typeof phasesOf> {
  const { dns_ms, connect_ms, tls_ms, ttfb_ms, total_ms } = result;
  const parts = { dns: dns_ms ?? 0, connect: connect_ms ?? 0, tls: tls_ms ?? 0, ttfb: ttfb_ms ?? 0 };
  const known = parts.dns + parts.connect + parts.tls + parts.ttfb;
  return known > 0 ? { ...parts, rest: Math.max(0, (total_ms ?? 0) - known) } : null;
}
