import Type, { type TSchema } from "typebox";
import { ChannelCreate } from "../../../alerting/channels/schema.ts";
import { escalationWords, maxLevels, MinSeverity } from "../../../access/orgs/schema.ts";
import { MaintenanceCreate } from "../../../alerting/maintenance/schema.ts";
import { TargetCreate } from "../../../monitoring/targets/schema.ts";
import { ComponentCreate, StatusPageCreate } from "../../../publishing/status-pages/schema.ts";
import { durationPattern, unitOf } from "@statusmesh/shared/time";
import { defaultFields } from "@statusmesh/shared/declared/files";
import { Closed, Flag, OneOf, Text } from "../../../platform/http/wire.ts";

/*
 * The document of a project as people write it, derived from the schemas of the API's requests: for editors and for
 * clients, which check files with it. It imports schemas and nothing that runs.
 */

interface Node {
  type?: string;
  anyOf?: Node[];
  properties?: Record<string, Node>;
  required?: string[];
  items?: Node;
  [keyword: string]: unknown;
}

/** A text with a variable, whatever the field takes. */
const variable = { type: "string", pattern: "\\$\\{" };

const reference = Text("Key of an object of the document");

/** Texts may have variables, durations are numbers or texts, and null is the default of a field. */
function written(node: Node, name = ""): Node {
  if (node.anyOf !== undefined) return { ...node, anyOf: node.anyOf.map((branch) => written(branch, name)) };
  if (node.properties !== undefined) {
    const { properties } = node;
    // A field with a default may be left out.
    const required = (node.required ?? []).filter((field) => properties[field]?.["default"] === undefined);
    const fields = Object.entries(properties).map(([field, child]) => {
      const own = written(child, field);
      return [field, required.includes(field) ? own : { anyOf: [own, { type: "null" }] }];
    });
    return { ...node, required, properties: Object.fromEntries(fields) as Record<string, Node> };
  }
  // Members of a group.
  if (name === "members" && node.items?.anyOf !== undefined)
    return {
      ...node,
      items: {
        anyOf: [Closed({ monitor: reference }) as unknown as Node, ...node.items.anyOf.map((one) => written(one))],
      },
    };
  if (node.type === "array" && node.items !== undefined) return { ...node, items: written(node.items) };
  if (node.type === "string" && node["const"] === undefined) return { anyOf: [node, variable] };
  const isDuration = node.type === "integer" && unitOf(name) !== null;
  return isDuration ? { anyOf: [node, { type: "string", pattern: durationPattern }] } : node;
}

/** The request body `schema` as an object of the document, without some fields and with others. */
function objectOf(schema: TSchema, without: readonly string[], more: Record<string, TSchema>): TSchema {
  const body = written(schema as unknown as Node);
  const properties = Object.fromEntries(
    Object.entries(body.properties!).filter(([name]) => !["write_source", "managed_by", ...without].includes(name)),
  );
  const own = Object.fromEntries(Object.entries(more).map(([name, node]) => [name, { ...node }]));
  return Type.Unsafe({
    type: "object",
    additionalProperties: false,
    required: (body.required ?? []).filter((name) => !without.includes(name)),
    properties: { ...properties, ...own },
  });
}

const owned = {
  adopt: Text("Id of a stored object that no project declares: this one takes it over"),
  on_remove: OneOf(["delete", "keep", "pause"], "What prune does once the object has left"),
};

const bindingSettings = {
  after_failures: Type.Optional(Type.Integer({ minimum: 1, maximum: 20, description: "Failing slots to wait for" })),
  notify_recovery: Type.Optional(Flag("Whether the channel gets recoveries")),
  min_severity: Type.Optional(MinSeverity),
};

const monitorFields = {
  ...owned,
  alerts: Type.Array(
    Type.Union([
      reference,
      Closed({ channel: reference, ...bindingSettings }),
      Closed({ channel_id: Type.String(), ...bindingSettings }),
    ]),
    { description: "Channels to notify" },
  ),
  depends_on: Type.Union([
    Type.Null(),
    Type.Array(Type.Union([reference, Closed({ target_id: Text("Id of a monitor outside of the document") })]), {
      maxItems: 10,
      description: "Monitors that this one depends on",
    }),
  ]),
  escalation: Type.Union([
    Type.Null(),
    Type.Array(
      Closed({
        after_minutes: Type.Union([
          Type.Integer({ minimum: 1, maximum: 10_080 }),
          Type.String({ pattern: durationPattern }),
        ]),
        channels: Type.Array(Type.Union([reference, Closed({ channel_id: Type.String() })])),
        min_severity: Type.Optional(MinSeverity),
      }),
      { maxItems: maxLevels, description: `${escalationWords}. Without it: that of the organisation` },
    ),
  ]),
};

const mapOf = (object: TSchema) => Type.Unsafe({ type: "object", additionalProperties: object });

const component = objectOf(ComponentCreate, ["target_id", "sort_order"], {
  monitor: reference,
  target_id: Text("Id of a monitor outside of the document"),
});

const monitor = objectOf(
  TargetCreate,
  ["group_name", "owner_user_id", "regions_unable", "alerts_by_tag", "warnings"],
  monitorFields,
);
const { properties: fields } = monitor as unknown as Required<Pick<Node, "properties">>;
const defaults = {
  type: "object",
  additionalProperties: false,
  properties: {
    ...Object.fromEntries(defaultFields.map((name) => [name, fields[name]])),
    check: Type.Object({}, { description: "Fields of checks, for the kinds that have them" }),
  },
};

/** The document of a project, as people write it. */
export const ConfigDocument = Type.Unsafe<Record<string, unknown>>({
  type: "object",
  title: "StatusMesh configuration",
  required: ["version"],
  additionalProperties: false,
  patternProperties: { "^x-": {} },
  properties: {
    version: { const: 1 },
    project: Type.String({ pattern: "^[a-z0-9-]{1,40}$" }),
    defaults,
    moved: Type.Unsafe({ type: "object", additionalProperties: mapOf(reference) }),
    channels: mapOf(objectOf(ChannelCreate, [], owned)),
    monitors: mapOf(monitor),
    status_pages: mapOf(
      objectOf(StatusPageCreate, [], {
        ...owned,
        custom_domain: Type.Union([Type.String(), Type.Null()]),
        components: Type.Array(component),
      }),
    ),
    maintenance: mapOf(
      objectOf(MaintenanceCreate, ["component_ids"], {
        ...owned,
        monitors: Type.Array(reference),
        tags: Type.Array(Type.String()),
        component_ids: Type.Array(Type.String()),
      }),
    ),
  },
});
