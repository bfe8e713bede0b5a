import type { TSchema } from "typebox";
import { ownKeywords, requiredInput, type SchemaNode } from "@statusmesh/shared/schema/schema-node";
import type { RateCategory } from "../../platform/http/route.ts";
import type { Tool } from "../../platform/http/tool.ts";
import { customerLabel, isCustomerText } from "../../platform/http/tool-texts.ts";

/** A tool with the values derived from its declaration. */
export interface ToolEntry {
  readonly tool: Tool;
  readonly category: RateCategory;
  /** Entry of tools/list. */
  readonly listed: ListedTool;
}

interface ListedTool {
  name: string;
  title: string;
  description: string;
  inputSchema: { type: "object" } & Record<string, unknown>;
  outputSchema: { type: "object" } & Record<string, unknown>;
  annotations: Record<string, unknown>;
}

export type Registry = ReadonlyMap<string, ToolEntry>;

/** The registry of all tools, in their order. Throws for a declaration that clients could not rely on. */
export function registryOf(tools: readonly Tool[]): Registry {
  const entries = new Map<string, ToolEntry>();
  for (const tool of tools) {
    if (entries.has(tool.name)) throw new Error(`the tool ${tool.name} is declared twice`);
    if (tool.scope.endsWith(":read") !== (tool.confirm === null))
      throw new Error(`the tool ${tool.name} must ask for a confirmation if and only if it writes`);
    entries.set(tool.name, { tool, category: categoryOf(tool), listed: listed(tool) });
  }
  return entries;
}

/** The budget of the equivalent REST call. */
const categoryOf = ({ scope, confirm }: Tool): RateCategory =>
  scope.endsWith(":execute") ? "check_now" : confirm === null ? "api_reads" : "api_writes";

function listed({ name, title, description, input, output, confirm }: Tool): ListedTool {
  return {
    name,
    title,
    description,
    inputSchema: { ...plainSchema(input), required: requiredInput(input as SchemaNode) },
    outputSchema: outlineOf(plainSchema(output)) as ListedTool["outputSchema"],
    // Destructive and idempotent mean nothing where nothing is written (MCP 2025-11-25, ToolAnnotations).
    annotations: {
      readOnlyHint: confirm === null,
      ...(confirm === null ? {} : { destructiveHint: confirm.destructive, idempotentHint: confirm.idempotent }),
      openWorldHint: confirm?.openWorld ?? false,
    },
  };
}

/**
 * The schema of a result in short: clients load the list of tools into every conversation. Without required fields,
 * formats, words about single values and the parts of objects with the keyword `brief`. A text of customers has its
 * label only.
 */
function outlineOf(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(outlineOf);
  if (typeof node !== "object" || node === null) return node;
  const schema = node as Record<string, unknown>;
  if (schema["enum"] !== undefined) return { enum: schema["enum"] };
  const { additionalProperties: _, required: __, format: ___, brief, properties, description, ...rest } = schema;
  const fields = Object.entries(properties ?? {}).map(([name, field]) => [name, outlineOf(field)] as const);
  const isSingle = properties === undefined && rest["items"] === undefined && rest["anyOf"] === undefined;
  const isCustomers = typeof description === "string" && isCustomerText(description);
  const words = isCustomers && brief !== true ? customerLabel : isSingle ? undefined : description;
  return {
    ...Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, outlineOf(value)])),
    ...(properties === undefined || brief === true ? {} : { properties: Object.fromEntries(fields) }),
    ...(words === undefined ? {} : { description: words }),
  };
}

/** The schema in JSON Schema vocabulary only. */
function plainSchema(schema: TSchema): ListedTool["inputSchema"] {
  const strip = (node: unknown, isSchema: boolean): unknown => {
    if (Array.isArray(node)) return node.map((item) => strip(item, isSchema));
    if (typeof node !== "object" || node === null) return node;
    return Object.fromEntries(
      Object.entries(node).flatMap(([key, value]) => {
        if (isSchema && ownKeywords.has(key)) return [];
        // Below `properties` the keys are names of fields.
        const below = isSchema ? key !== "properties" : true;
        return [[key, key === "examples" || key === "default" || key === "enum" ? value : strip(value, below)]];
      }),
    );
  };
  return strip(JSON.parse(JSON.stringify(schema)), true) as ListedTool["inputSchema"];
}
