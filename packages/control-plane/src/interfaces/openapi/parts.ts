import type { Json } from "@statusmesh/shared/json";

/** A single example. */
export const typical = (value: unknown): Json => ({ typical: { summary: "Typical", value } });

/** The content of a body that has one type. */
export const content = (type: string, schema: unknown, example: unknown): Json => ({
  [type]: { schema, examples: typical(example) },
});

/** An example that the viewer does not prefill: it would send an unwanted filter with the first try. */
export const unfilled = (value: unknown): Json => ({
  typical: { summary: "Typical", value, "x-example-show-value": false },
});

/** A parameter that is a text. */
export const textParameter = (
  where: "path" | "query" | "header",
  name: string,
  description: string,
  example: string,
): Json => ({
  name,
  in: where,
  required: where === "path",
  description,
  schema: { type: "string" },
  examples: unfilled(example),
});

/** A header of a reply that always has this value. */
export const fixedHeader = (description: string, value: string): Json => ({
  description,
  required: true,
  schema: { type: "string", const: value },
});

/** A header of a reply that always is there, with any text. */
export const textHeader = (description: string, example?: string): Json => ({
  description,
  required: true,
  schema: { type: "string" },
  ...(example === undefined ? {} : { example }),
});

/** A header of a reply that is described among the components. */
export const sharedHeader = (name: string): Json => ({ $ref: `#/components/headers/${name}` });

/** `get_orgs_id_usage`: the id of an operation, from its method and path. */
export const operationIdOf = (method: string, path: string): string =>
  `${method}_${path
    .replaceAll(/[{}]/g, "")
    .replaceAll(/[^a-z0-9]+/gi, "_")
    .replace(/^_/, "")}`;
