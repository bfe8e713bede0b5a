import Type, { type Static } from "typebox";
import { IdText } from "@statusmesh/shared/text";
import { nullable, Timestamp } from "../../platform/http/wire.ts";

/** Bytes of a request, and the objects in it. */
export const maxBytes = 16 * 1_048_576;
const maxObjects = 20_000;

const projectName = {
  pattern: "^[a-z0-9-]{1,40}$",
  expects: "A project has 1 to 40 of a-z, 0-9 and hyphens",
};
const project = Type.String({
  ...projectName,
  description: "Name of the project: 1 to 40 of a-z, 0-9 and -",
  examples: ["shop"],
});

const document = Type.Unsafe<Record<string, unknown>>({
  type: "object",

  additionalProperties: true,
  mapEntries: maxObjects,
  description:
    "The files of the project as one JSON object: version, project, defaults, moved, and channels, monitors, " +
    "status_pages and maintenance, each a map from key to the body of the API's request with keys for ids",
  examples: [
    {
      version: 1,
      channels: { ops: { name: "On call", config: { type: "slack", webhook_url: "https://hooks.slack.com/…" } } },
      monitors: {
        "web/shop": { name: "Shop", check: { type: "http", url: "https://example.org" }, alerts: ["ops"] },
      },
    },
  ],
});

export const PlanRequest = Type.Object(
  {
    project,
    document,
    prune: Type.Optional(
      Type.Boolean({ default: false, description: "Deletes objects that have left the document", examples: [false] }),
    ),
    max_delete: Type.Optional(
      nullable(
        Type.Integer({
          minimum: 0,
          maximum: 1_000_000,
          description: "Most deletions of the apply; default: 20 % of the objects of the project, at least 10",
          examples: [10],
        }),
      ),
    ),
  },
  { additionalProperties: false, title: "ConfigPlanRequest", description: "A document to compare with what is stored" },
);
export type PlanRequest = Static<typeof PlanRequest>;

export const ApplyRequest = Type.Object(
  {
    project,
    document,
    plan_token: Type.String({ maxLength: 2000, description: "Of the plan of this document", examples: ["eyJ2Ijox…"] }),
  },
  { additionalProperties: false, title: "ConfigApplyRequest", description: "A document whose plan is carried out" },
);
export type ApplyRequest = Static<typeof ApplyRequest>;

export const kindNames = ["monitor", "channel", "status_page", "maintenance"] as const;
export type KindName = (typeof kindNames)[number];
const kind = Type.Enum([...kindNames], { description: "Kind of the object", examples: ["monitor"] });
const key = Type.String({
  pattern: "^[a-z0-9._/-]{1,120}$",
  expects: "A key has 1 to 120 of a-z, 0-9, dot, hyphen, underscore and slash",
  description: "Key in the document",
  examples: ["web/shop"],
});

const actor = Type.Object(
  {
    type: Type.String({ description: "session, token, mcp or system", examples: ["session"] }),
    id: nullable(Type.String({ description: "The session or the token", examples: [null] })),
    name: nullable(Type.String({ description: "Address of the user", examples: ["olga@example.org"] })),
  },
  { additionalProperties: false, description: "Who wrote it" },
);

const counts = ["create", "update", "delete", "adopt", "move", "pause", "unchanged", "orphaned", "drift"] as const;
export type Summary = Record<(typeof counts)[number], number>;
const Summary = Type.Object(
  Object.fromEntries(counts.map((name) => [name, Type.Integer({ description: `Objects: ${name}`, examples: [0] })])),
  { additionalProperties: false, description: "Number of objects by action; one with drift counts under update too" },
);

const Change = Type.Object(
  {
    kind,
    key: Type.String({ description: "Key in the document", examples: ["web/shop"] }),
    id: nullable(Type.String({ description: "The stored object; null for one to create", examples: [null] })),
    action: Type.Enum(["create", "update", "delete", "adopt", "move", "pause", "orphaned"], {
      description: "orphaned: it has left the document, and nothing is done",
      examples: ["update"],
    }),
    fields: Type.Array(
      Type.Object(
        {
          path: Type.String({ description: "Pointer into the object", examples: ["/interval"] }),
          old: Type.Unknown({ description: "Stored value; *** for a secret", examples: [60] }),
          new: Type.Unknown({ description: "Declared value; `changed` for a secret", examples: [30] }),
        },
        { additionalProperties: false },
      ),
      { description: "What differs; of a new object what the document says" },
    ),
    drift: nullable(
      Type.Object(
        { at: Timestamp, by: actor },
        {
          additionalProperties: false,
          description: "Somebody else wrote it since the last apply, and it differs",
          examples: [null],
        },
      ),
    ),
  },
  { additionalProperties: false, title: "ConfigChange", description: "A change of one object" },
);
export type Change = Static<typeof Change>;

const changes = Type.Array(Change, { description: "Unchanged objects are not listed" });
const warnings = Type.Array(Type.String({ description: "For people", examples: ["old is over."] }), {
  description: "Warnings",
});

export const PlanReply = Type.Object(
  {
    plan_token: Type.String({ description: "For the apply, within 24 hours", examples: ["eyJ2Ijox…"] }),
    summary: Summary,
    changes,
    warnings,
  },
  { additionalProperties: false, title: "ConfigPlan", description: "What an apply would do" },
);
export type PlanReply = Omit<Static<typeof PlanReply>, "summary"> & { summary: Summary };

export const ApplyReply = Type.Object(
  { summary: Summary, changes, warnings },
  { additionalProperties: false, title: "ConfigApplied", description: "What the apply has done" },
);
export type ApplyReply = Omit<PlanReply, "plan_token">;

export const ManageRequest = Type.Object(
  {
    project,
    kind,
    key,
    id: IdText({ format: "uuid", errorCode: "INVALID_ID", description: "The stored object" }),
  },
  { additionalProperties: false, title: "ConfigManageRequest", description: "An object and its key in a project" },
);
export type ManageRequest = Static<typeof ManageRequest>;

export const ExportQuery = Type.Object(
  {
    project: Type.Optional(Type.String({ ...projectName, description: "Its objects only" })),
    tag: Type.Optional(
      Type.String({ maxLength: 50, description: "Monitors with this tag, and the channels that they notify" }),
    ),
  },
  { additionalProperties: false },
);
export type ExportQuery = Static<typeof ExportQuery>;

export const ExportReply = Type.Object(
  {
    document: Type.Record(Type.String(), Type.Unknown(), {
      description: "As a plan takes it",
      examples: [{ version: 1 }],
    }),
    secrets: Type.Array(
      Type.Object(
        {
          name: Type.String({ description: "Variable in place of the secret", examples: ["OPS_WEBHOOK_URL"] }),
          path: Type.String({
            description: "Pointer into the document",
            examples: ["/channels/ops/config/webhook_url"],
          }),
        },
        { additionalProperties: false },
      ),
      { description: "Variables to set: no secret is exported" },
    ),
  },
  { additionalProperties: false, title: "ConfigExport", description: "Stored objects as a document" },
);
export type ExportReply = Static<typeof ExportReply>;

const FileState = Type.Object(
  {
    path: Type.String({ description: "File or folder on the server", examples: ["/etc/statusmesh/monitors"] }),
    ok: Type.Boolean({ description: "False while it cannot be applied: what was applied before stays" }),
    error: nullable(
      Type.Object(
        {
          message: Type.String({ description: "What is wrong", examples: ["version must be 1."] }),
          file: nullable(Type.String({ description: "Where", examples: ["/etc/statusmesh/monitors/web.yaml"] })),
          line: nullable(Type.Integer({ description: "From 1", examples: [3] })),
          column: nullable(Type.Integer({ description: "From 1", examples: [5] })),
        },
        { additionalProperties: false },
      ),
    ),
    applied_at: nullable(Type.Unsafe<string>({ ...Timestamp, description: "When it last changed something" })),
  },
  {
    additionalProperties: false,
    description: "The server's own file; null where the server has none",
    examples: [null],
  },
);
export type FileState = Static<typeof FileState>;

export const Projects = Type.Object(
  {
    projects: Type.Array(
      Type.Object(
        {
          project: Type.String({ description: "Name", examples: ["shop"] }),
          counts: Type.Object(
            Object.fromEntries(
              kindNames.map((name) => [name, Type.Integer({ description: "Objects that it declares", examples: [1] })]),
            ),
            { additionalProperties: false, description: "Objects by kind" },
          ),
          applied_at: nullable(Type.Unsafe<string>({ ...Timestamp, description: "Last apply; null before it" })),
          applied_by: nullable(actor),
          summary: nullable(Summary),
        },
        { additionalProperties: false },
      ),
      { description: "Every project, by name" },
    ),
    file: nullable(FileState),
  },
  { additionalProperties: false, title: "ConfigProjects", description: "Projects of configuration as code" },
);
