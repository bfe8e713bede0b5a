import type { TSchema } from "typebox";
import type { Json } from "@statusmesh/shared/json";
import { ownKeywords, requiredInput, type SchemaNode } from "@statusmesh/shared/schema/schema-node";

/*
 * Converts validation schemas to published ones: JSON Schema 2020-12 as in OpenAPI 3.1, without the keywords of our own
 * validator, each titled schema once, as a component.
 */

/** Direction of a value: a property with a default may be omitted in a request and is always present in a reply. */
export type Direction = "in" | "out";

export interface Schemas {
  /** The published schema; its titled parts become components. */
  publish(schema: TSchema, direction: Direction): Json;
  /** By name; complete after the last publish call. */
  readonly components: Json;
}

/** Keywords whose value is data, not a schema. */
const data = new Set(["default", "const", "enum", "examples", "required"]);

/** One published schema of a request, with its components as `$defs`. */
export function publishedSchema(schema: TSchema): Json {
  const { publish, components } = openSchemas([]);
  const { title: _, ...untitled } = schema as TSchema & Json;
  const root = publish(untitled as TSchema, "in");
  const whole = { $schema: "https://json-schema.org/draft/2020-12/schema", ...root, $defs: components };
  const local = JSON.stringify(whole, (name, value: unknown) => (name === "discriminator" ? undefined : value));
  return JSON.parse(local.replaceAll("#/components/schemas/", "#/$defs/")) as Json;
}

/** `replied` are the schemas of all replies: a shape that differs between request and reply gets a `…Input` twin. */
export function openSchemas(replied: readonly TSchema[]): Schemas {
  const components: Json = {};
  const outgoing = new Set(replied.flatMap((schema) => [...titlesOf(schema)]));

  function publish(node: unknown, direction: Direction): unknown {
    if (Array.isArray(node)) return node.map((item) => publish(item, direction));
    if (typeof node !== "object" || node === null) return node;
    const title = (node as Json)["title"];
    if (typeof title !== "string") return plain(node as Json, direction);
    const form = plain(node as Json, direction);
    const name =
      direction === "in" && outgoing.has(title) && JSON.stringify(form) !== JSON.stringify(plain(node as Json, "out"))
        ? `${title}Input`
        : title;
    components[name] = { ...form, title: name };
    return { $ref: `#/components/schemas/${name}` };
  }

  function plain(node: Json, direction: Direction): Json {
    const out: Json = {};
    for (const [key, value] of Object.entries(node)) {
      if (ownKeywords.has(key) || key.startsWith("~")) continue;
      if (data.has(key)) out[key] = value;
      else if (key === "properties" || key === "patternProperties")
        out[key] = Object.fromEntries(
          Object.entries(value as Json).map(([name, child]) => [name, publish(child, direction)]),
        );
      else out[key] = publish(value, direction);
    }
    if (direction === "in" && out["required"] !== undefined) {
      const required = requiredInput(node as SchemaNode);
      if (required.length > 0) out["required"] = required;
      else delete out["required"];
    }
    if (node["cap"] !== undefined) delete out["maximum"];
    if ((node["text"] === "line" || node["text"] === "lines") && node["emptyIsNull"] !== true)
      Object.assign(out, { minLength: 1, pattern: "\\S" });
    if (Array.isArray(out["enum"]) && out["type"] === undefined && out["enum"].every((it) => typeof it === "string"))
      out["type"] = "string";
    if (Array.isArray(out["items"])) asTuple(out, out["items"]);
    asRecord(out);
    if (typeof node["discriminator"] === "string") asTagged(out, node, node["discriminator"]);
    return out;
  }

  return { publish: (schema, direction) => publish(schema, direction) as Json, components };
}

/** JSON Schema 2020-12, section 10.3.1: tuples use `prefixItems`. */
function asTuple(out: Json, places: unknown[]): void {
  delete out["additionalItems"];
  const [first, ...others] = places.map((place) => (place as Json)["type"]);
  const isUniform = first !== undefined && others.every((type) => type === first);
  // Generators that do not know prefixItems need the type of the items.
  Object.assign(out, {
    prefixItems: places,
    items: isUniform ? { type: first } : false,
    minItems: places.length,
    maxItems: places.length,
  });
}

/** A pattern that matches every name is equivalent to `additionalProperties`. */
function asRecord(out: Json): void {
  const [pattern, ...others] = Object.entries((out["patternProperties"] ?? {}) as Json);
  if (pattern === undefined || others.length > 0 || !["^.*$", "^(.*)$"].includes(pattern[0])) return;
  delete out["patternProperties"];
  out["additionalProperties"] = pattern[1];
}

/** OpenAPI 3.1.1, section 4.8.25: a discriminator selects between named schemas; the tag is a constant in each. */
function asTagged(out: Json, node: Json, tag: string): void {
  const branches = out["anyOf"] as Json[];
  const tags = (node["anyOf"] as { properties?: Record<string, { const?: unknown }> }[]).map((branch) =>
    String(branch.properties?.[tag]?.const),
  );
  delete out["anyOf"];
  out["oneOf"] = branches;
  if (branches.every((branch) => typeof branch["$ref"] === "string"))
    out["discriminator"] = {
      propertyName: tag,
      mapping: Object.fromEntries(branches.map((branch, at) => [tags[at], branch["$ref"]])),
    };
}

function* titlesOf(node: unknown): Generator<string> {
  if (typeof node !== "object" || node === null) return;
  const title = (node as Json)["title"];
  if (typeof title === "string") yield title;
  for (const child of Object.values(node)) yield* titlesOf(child);
}

/**
 * Writes the default of each optional property into its description. Generators make types without optional fields of
 * a property that has a default (openapi-typescript, defaultNonNullable), and clients would have to send it.
 */
export function describeDefaults(node: unknown): void {
  if (typeof node !== "object" || node === null) return;
  const { properties, required = [] } = node as { properties?: Record<string, Json>; required?: string[] };
  if (typeof properties === "object" && Array.isArray(required))
    for (const [name, property] of Object.entries(properties)) {
      if (typeof property !== "object" || !("default" in property) || required.includes(name)) continue;
      const { description = "", default: value } = property as { description?: string; default: unknown };
      property["description"] = `${description}${description === "" ? "" : ". "}Default: ${JSON.stringify(value)}`;
      delete property["default"];
    }
  for (const child of Object.values(node)) describeDefaults(child);
}
