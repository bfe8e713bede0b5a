import fc, { type Arbitrary } from "fast-check";
import type { Json } from "../harness/api.ts";

/* Values generated from the schemas of the OpenAPI document: valid ones, and ones with a single defect. */

export type Node = Record<string, Json>;

/** Resolves a `$ref` of the document. */
export function resolve(document: Json, node: Node): Node {
  if (typeof node["$ref"] !== "string") return node;
  const target = node["$ref"]
    .slice(2)
    .split("/")
    .reduce((at: Json, key: string) => at[key], document);
  return resolve(document, target);
}

/**
 * Values that fit the schema. Half of the texts and numbers are the schema's own examples, so that many get past the
 * rules that no schema expresses.
 */
export function fitting(document: Json, schema: Node): Arbitrary<Json> {
  const node = resolve(document, schema);
  let arbitrary = arbitraries.get(node);
  if (arbitrary === undefined) arbitraries.set(node, (arbitrary = fittingNode(document, node)));
  return arbitrary;
}

/** By node: schemas share many of them. */
const arbitraries = new WeakMap<Node, Arbitrary<Json>>();

function fittingNode(document: Json, node: Node): Arbitrary<Json> {
  if ("const" in node) return fc.constant(node["const"]);
  if (Array.isArray(node["enum"])) return fc.constantFrom(...node["enum"]);
  const branches = node["oneOf"] ?? node["anyOf"];
  if (Array.isArray(branches)) return fc.oneof(...branches.map((branch: Node) => fitting(document, branch)));
  const made = ofType(document, node);
  const examples = (node["examples"] ?? []) as Json[];
  return examples.length === 0 ? made : fc.oneof(fc.constantFrom(...examples), made);
}

function ofType(document: Json, node: Node): Arbitrary<Json> {
  switch (node["type"]) {
    case "object":
      return fittingObject(document, node);
    case "array":
      return fittingArray(document, node);
    case "integer":
      return fc.integer({
        min: node["minimum"] ?? -1_000_000,
        max: Math.min(node["maximum"] ?? 1_000_000, Number.MAX_SAFE_INTEGER),
      });
    case "number":
      return fc.double({ min: node["minimum"] ?? 0, max: node["maximum"] ?? 1e6, noNaN: true });
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "string":
      return fittingText(node);
    default:
      return fc.constantFrom<Json>(null, true, 1, "x", { a: 1 });
  }
}

function fittingObject(document: Json, node: Node): Arbitrary<Json> {
  const properties = Object.entries((node["properties"] ?? {}) as Record<string, Node>);
  const own = fc.record(Object.fromEntries(properties.map(([name, child]) => [name, fitting(document, child)])), {
    requiredKeys: (node["required"] ?? []) as string[],
    noNullPrototype: true,
  });
  const others = node["additionalProperties"];
  if (typeof others !== "object" || others === null) return own;
  return fc.dictionary(fc.stringMatching(/^[A-Za-z][A-Za-z-]{0,10}$/), fitting(document, others), {
    maxKeys: 3,
    noNullPrototype: true,
  });
}

function fittingArray(document: Json, node: Node): Arbitrary<Json> {
  if (Array.isArray(node["prefixItems"]))
    return fc.tuple(...node["prefixItems"].map((item: Node) => fitting(document, item)));
  const minLength = node["minItems"] ?? 0;
  const size = { minLength, maxLength: Math.min(node["maxItems"] ?? minLength + 3, minLength + 3) };
  const item = fitting(document, node["items"] ?? {});
  return node["uniqueItems"] === true ? fc.uniqueArray(item, size) : fc.array(item, size);
}

function fittingText(node: Node): Arbitrary<string> {
  const minLength: number = node["minLength"] ?? 0;
  // A pattern decides the length itself: one of 64 characters has none of 60.
  const most = typeof node["pattern"] === "string" ? 200 : 60;
  const maxLength: number = Math.min(node["maxLength"] ?? most, most);
  if (node["format"] === "date-time")
    return fc
      .date({ min: new Date("2020-01-01"), max: new Date("2030-01-01"), noInvalidDate: true })
      .map((date) => date.toISOString());
  if (node["format"] === "uuid") return fc.uuid();
  if (typeof node["pattern"] === "string")
    return fc
      .stringMatching(new RegExp(node["pattern"]))
      .filter(
        (text) => text.length >= minLength && text.length <= maxLength && text.isWellFormed() && !text.includes("\0"),
      );
  return fc
    .string({ minLength, maxLength, unit: "grapheme" })
    .filter((text) => [...text].length <= maxLength && text.isWellFormed() && !text.includes("\0"));
}

/** Path to a place in a value: its keys. */
type Place = (string | number)[];

function* placesOf(value: Json, at: Place = []): Generator<Place> {
  yield at;
  if (typeof value === "object" && value !== null)
    for (const [key, child] of Object.entries(value))
      yield* placesOf(child, [...at, Array.isArray(value) ? Number(key) : key]);
}

function put(value: Json, [key, ...rest]: Place, change: (old: Json) => Json): Json {
  if (key === undefined) return change(value);
  const copy = Array.isArray(value) ? [...value] : { ...value };
  copy[key] = put(copy[key], rest, change);
  return copy;
}

const nested = (depth: number): Json => JSON.parse(`${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`);

/** One defect for any value. The caller checks whether the result is still valid. */
const faults: ((old: Json) => Json)[] = [
  () => null,
  () => [],
  () => ({}),
  () => "",
  () => "x".repeat(70_000),
  () => -1,
  () => 1.5,
  () => Number.MAX_SAFE_INTEGER,
  () => true,
  () => [null, null],
  (old) => (Array.isArray(old) ? [...old, ...old, ...old] : String(old)),
  (old) => (typeof old === "number" ? `${old}` : { of: old }),
  (old) => (typeof old === "object" && old !== null && !Array.isArray(old) ? { ...old, intervall: 1 } : [old]),
  (old) =>
    typeof old === "object" && old !== null && !Array.isArray(old)
      ? Object.fromEntries(Object.entries(old).slice(1))
      : " \t ",
  (old) => (typeof old === "string" ? `${old}\u{1f9ea}\u202e'"<%${old}` : 1e9),
];

/** A value with one invalid or unusual part. */
export const spoilt = (value: Json): Arbitrary<Json> =>
  fc
    .tuple(fc.constantFrom(...placesOf(value)), fc.constantFrom(...faults))
    .map(([place, fault]) => put(value, place, fault));

/** Raw bodies that every route refuses with any schema, made by corrupting the text of `value`. */
export function unreadable(value: Json): { title: string; body: string | Buffer; headers?: Record<string, string> }[] {
  const text = JSON.stringify(value);
  const within = (json: string): string =>
    text.startsWith("{") ? `{"zz":${json}${text === "{}" ? "" : ","}${text.slice(1)}` : `[${json}]`;
  return [
    { title: "nothing", body: "" },
    { title: "half", body: text.slice(0, -1) },
    { title: "NUL", body: within('"a\\u0000"') },
    { title: "half a surrogate pair", body: within('"\\ud800"') },
    { title: "too deep", body: within(JSON.stringify(nested(40))) },
    { title: "a huge number", body: within("123456789012345678901234567890") },
    { title: "1e999", body: within("1e999") },
    { title: "__proto__", body: within('{"__proto__":{"admin":true}}') },
    { title: "__proto__ on top", body: '{"__proto__":{"name":"x"}}' },
    {
      title: "invalid UTF-8",
      body: Buffer.concat([Buffer.from('{"zz":"'), Buffer.from([0xff, 0xfe]), Buffer.from('"}')]),
    },
    { title: "a text", body: text, headers: { "content-type": "text/plain" } },
    { title: "a form", body: "a=1", headers: { "content-type": "application/x-www-form-urlencoded" } },
    { title: "no type", body: text, headers: { "content-type": "" } },
    { title: "not gzip", body: text, headers: { "content-encoding": "gzip" } },
  ];
}
