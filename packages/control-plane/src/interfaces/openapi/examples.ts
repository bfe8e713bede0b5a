import type { Json } from "@statusmesh/shared/json";

/** The id in every example. */
export const exampleId = "01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90";

/**
 * An example of a published schema: its `examples` when present, else assembled from its parts. `name` is the property.
 * Nodes without useful parts carry an example in the domain's schema.ts.
 */
export function exampleOf(node: Json, schemas: Json, name = "text"): unknown {
  if (typeof node["$ref"] === "string")
    return exampleOf(schemas[node["$ref"].replace("#/components/schemas/", "")] as Json, schemas, name);
  if (Array.isArray(node["examples"])) return node["examples"][0];
  if ("const" in node) return node["const"];
  const fallback = node["default"];
  if (fallback !== undefined && fallback !== null) return fallback;
  if (Array.isArray(node["enum"])) return node["enum"][0];
  const branches = (node["oneOf"] ?? node["anyOf"]) as Json[] | undefined;
  // A nullable property with the default null stays null: the other branch may not fit the rest.
  if (branches !== undefined)
    return fallback === null
      ? null
      : exampleOf(
          branches.find((branch) => branch["type"] !== "null")!,
          schemas,
          name,
        );
  switch (node["type"]) {
    case "object":
      return exampleObject(node, schemas);
    case "array":
      return Array.isArray(node["prefixItems"])
        ? node["prefixItems"].map((item) => exampleOf(item as Json, schemas, name))
        : [exampleOf((node["items"] ?? {}) as Json, schemas, name.replace(/s$/, ""))];
    case "boolean":
      return true;
    case "integer":
    case "number":
      return node["minimum"] ?? 1;
    case "string":
      return exampleText(node, name);
    default:
      return {};
  }
}

function exampleObject(node: Json, schemas: Json): Json {
  const required = (node["required"] ?? []) as string[];
  const shown = Object.entries((node["properties"] ?? {}) as Record<string, Json>).filter(
    ([name, child]) => required.includes(name) || says(child),
  );
  return Object.fromEntries(shown.map(([name, child]) => [name, exampleOf(child, schemas, name)]));
}

/** False for a schema that accepts anything because the server ignores it, or nothing but null. */
const says = (node: Json): boolean => node["type"] !== "null" && Object.keys(node).some((key) => key !== "description");

function exampleText(node: Json, name: string): string {
  if (node["format"] === "date-time") return "2026-11-20T09:30:00.000Z";
  if (node["format"] === "uuid") return exampleId;
  return name.replaceAll("_", " ");
}
