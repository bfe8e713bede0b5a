import type { Json } from "@statusmesh/shared/json";
import { expectedStatus } from "@statusmesh/shared/foreign/http-check";
import type { Item } from "@statusmesh/shared/foreign/item";
import { number, type Row, rows, text } from "@statusmesh/shared/foreign/values";

/** Operators of expectations by the names of comparisons. */
const operators: ReadonlyMap<string, string> = new Map([
  ["equals", "eq"],
  ["not_equals", "ne"],
  ["contains", "contains"],
  ["greater_than", "gt"],
  ["less_than", "lt"],
  ["greater_than_or_equals", "ge"],
  ["less_than_or_equals", "le"],
  ["exists", "exists"],
  ["not_exists", "absent"],
]);

/** Comparisons of numbers, for the status code. */
const compared: Readonly<Record<string, (code: number, target: number) => boolean>> = {
  equals: (code, target) => code === target,
  not_equals: (code, target) => code !== target,
  greater_than: (code, target) => code > target,
  less_than: (code, target) => code < target,
};

/**
 * `apiAssertions {logic, checks [{property, comparison, target}]}` as expectations, which are joined by AND. A property
 * is `status_code`, `body`, `headers.<name>` or a JSONPath.
 */
export function assertionsOf(item: Item, assertions: Row): Json {
  const checks = rows(assertions["checks"]);
  if (checks.length > 1 && text(assertions["logic"]).toUpperCase() === "OR") {
    item.note("one of its assertions was enough: all are left out. Write them as expected_json", "silent");
    return {};
  }
  const found: Found = { codes: null, body: {}, headers: [], json: [] };
  for (const one of checks) {
    const property = text(one["property"]);
    const comparison = text(one["comparison"])
      .toLowerCase()
      .replaceAll(/[\s-]+/g, "_");
    if (!add(found, { property, comparison, target: one["target"] }))
      item.note(`its assertion of ${property.slice(0, 60)} is left out: write it as an expectation`, "silent");
  }
  return {
    ...found.body,
    ...(found.codes === null || found.codes.length === 0 ? {} : expectedStatus(found.codes)),
    ...(found.headers.length === 0 ? {} : { expected_headers: found.headers }),
    ...(found.json.length === 0 ? {} : { expected_json: found.json }),
  };
}

interface Found {
  /** The status codes that are left; null for no assertion of them. */
  codes: number[] | null;
  readonly body: Record<string, string>;
  readonly headers: Json[];
  readonly json: Json[];
}

interface Assertion {
  readonly property: string;
  readonly comparison: string;
  readonly target: unknown;
}

/** The most expectations of a kind that a check has. */
const most = 10;

/** Adds an assertion; false where no expectation says the same. */
function add(found: Found, { property, comparison, target }: Assertion): boolean {
  if (property === "status_code") {
    const holds = Object.hasOwn(compared, comparison) ? compared[comparison]! : null;
    const wanted = number(target, NaN);
    if (holds === null || Number.isNaN(wanted)) return false;
    const all = found.codes ?? Array.from({ length: 500 }, (_, at) => 100 + at);
    found.codes = all.filter((code) => holds(code, wanted));
    return found.codes.length > 0;
  }
  if (property === "body") {
    const field = { contains: "expected_body_contains", not_contains: "expected_body_absent" }[comparison];
    const wanted = text(target);
    if (field === undefined || wanted === "" || wanted.length > 1000 || field in found.body) return false;
    found.body[field] = wanted;
    return true;
  }
  const header = /^headers\.(.+)$/i.exec(property)?.[1];
  if (header !== undefined) {
    const op = operators.get(comparison);
    if (op === undefined || found.headers.length >= most) return false;
    const isBare = op === "exists" || op === "absent";
    found.headers.push(isBare ? { name: header, op } : { name: header, op, value: text(target) });
    return true;
  }
  const one = property.startsWith("$") && property.length <= 400 ? jsonOf(property, comparison, target) : null;
  if (one === null || found.json.length >= most) return false;
  found.json.push(one);
  return true;
}

function jsonOf(path: string, comparison: string, target: unknown): Json | null {
  if (comparison === "is_null") return { path, op: "eq", value: null };
  if (comparison === "is_not_null") return { path, op: "ne", value: null };
  const op = operators.get(comparison);
  if (op === undefined) return null;
  if (op === "exists" || op === "absent") return { path, op };
  const isOrdered = /^(?:gt|ge|lt|le)$/.test(op);
  const value = isOrdered ? number(target, NaN) : op === "contains" ? text(target) : target;
  const fits = ["string", "number", "boolean"].includes(typeof value) && !Number.isNaN(value) && value !== "";
  return fits ? { path, op, value } : null;
}
