import Type, { type Static } from "typebox";
import type { Section } from "@statusmesh/shared/declared/files";
import { IdText } from "@statusmesh/shared/text";
import { Closed, Flag, Integer, nullable, OneOf, Shape, Text, Timestamp } from "../../platform/http/wire.ts";

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

/** Line breaks and controls of foreign names would forge lines of logs. */
const line = (maxLength: number, description: string, example: string) =>
  Type.String({
    minLength: 1,
    maxLength,
    pattern: "^[^\\u0000-\\u001f\\u007f]+$",
    expects: "It is one line without control characters",
    description,
    examples: [example],
  });

const writer = line(
  100,
  "Who writes the project: another one is refused while its lease lasts (15 minutes)",
  "3f2a90c1",
);
const Source = Type.Optional(
  Closed(
    {
      writer,
      grace_secs: Type.Integer({
        minimum: 60,
        maximum: 31 * 86_400,
        description: "Seconds of absence after which a monitor is deleted; after 60 it is paused",
        examples: [600],
      }),
      seen: Type.Array(line(200, "A list", "containers"), {
        maxItems: maxObjects,
        description: "Lists that were read whole and are not empty: monitors of other lists stay as they are",
      }),
      kept: Type.Array(line(120, "A key", "web"), {
        maxItems: maxObjects,
        description: "Keys that the document leaves out because they are wrong: their monitors stay as they are",
      }),
    },
    {
      description:
        "The document is of discovery: its monitors say in `source` {object, scope} where they were found, and what " +
        "is gone is paused, and deleted after a grace period, in place of `prune`",
      examples: [{ writer: "3f2a90c1", grace_secs: 600, seen: ["containers"], kept: [] }],
    },
  ),
);
export type Source = NonNullable<Static<typeof Source>>;

export const PlanRequest = Shape("ConfigPlanRequest", "A document to compare with what is stored", {
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
  source: Source,
});
export type PlanRequest = Static<typeof PlanRequest>;

export const ApplyRequest = Shape("ConfigApplyRequest", "A document whose plan is carried out", {
  project,
  document,
  plan_token: Type.Optional(
    Type.String({
      maxLength: 2000,
      description: "Of the plan of this document; a document of discovery is planned and applied at once without",
      examples: ["eyJ2Ijox…"],
    }),
  ),
  max_delete: Type.Optional(
    nullable(
      Type.Integer({
        minimum: 0,
        maximum: 1_000_000,
        description: "Without plan_token: most deletions of the apply",
        examples: [10],
      }),
    ),
  ),
  source: Source,
});
export type ApplyRequest = Static<typeof ApplyRequest>;

const Remark = Closed({
  object: line(300, "The object, in words", "container immich-server"),
  reason: line(500, "What is wrong with it, or why it is ignored", "the label statusmesh.web.check is no JSON"),
});

export const SourceReport = Shape("ConfigSourceReport", "What a run of discovery has found", {
  project,
  writer,
  name: line(200, "The source, in words", "Docker, host nas"),
  error: Type.Optional(nullable(line(1000, "Why the source could not be read", "the socket does not answer"))),
  objects: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000, description: "Objects read", examples: [20] })),
  wrong: Type.Optional(Type.Array(Remark, { maxItems: 100, description: "Objects that are left out" })),
  ignored: Type.Optional(Type.Array(Remark, { maxItems: 100, description: "What has no equivalent" })),
  applied: Type.Optional(
    Closed(
      {
        digest: Text("Digest of the document, as discovery makes it", "q2hlY2s"),
        objects: Type.Integer({
          minimum: 0,
          maximum: 1_000_000,
          description: "Monitors of the project after the apply",
          examples: [20],
        }),
      },
      { description: "What the run has applied" },
    ),
  ),
  unchanged: Type.Optional(
    Type.Boolean({
      default: false,
      description:
        "Asks whether the document of `applied` is still what was applied: the run then needs no apply. Where it is " +
        "not, nothing is stored",
      examples: [false],
    }),
  ),
  release: Type.Optional(
    Type.Boolean({
      default: false,
      description: "Ends the lease: another writer may follow at once",
      examples: [false],
    }),
  ),
});
export type SourceReport = Static<typeof SourceReport>;

export const SourceReply = Shape("ConfigSourceReply", "Whether the document of a run is applied", {
  current: Type.Boolean({ description: "False: apply the document", examples: [true] }),
});
export type SourceReply = Static<typeof SourceReply>;

export const kindNames = ["monitor", "channel", "status_page", "maintenance"] as const;
export type KindName = (typeof kindNames)[number];
export const kindOfSection: Readonly<Record<Section, KindName>> = {
  channels: "channel",
  monitors: "monitor",
  status_pages: "status_page",
  maintenance: "maintenance",
};
const kind = OneOf(kindNames, "Kind of the object", "monitor");
const key = Type.String({
  pattern: "^[a-z0-9._/-]{1,120}$",
  expects: "A key has 1 to 120 of a-z, 0-9, dot, hyphen, underscore and slash",
  description: "Key in the document",
  examples: ["web/shop"],
});

const actor = Closed(
  {
    type: Text("session, token, mcp or system", "session"),
    id: nullable(Text("The session or the token", null)),
    name: nullable(Text("Address of the user", "olga@example.org")),
  },
  { description: "Who wrote it" },
);

const counts = ["create", "update", "delete", "adopt", "move", "pause", "unchanged", "orphaned", "drift"] as const;
export type Summary = Record<(typeof counts)[number], number>;
const Summary = Closed(Object.fromEntries(counts.map((name) => [name, Integer(`Objects: ${name}`, 0)])), {
  description: "Number of objects by action; one with drift counts under update too",
});

const Change = Shape("ConfigChange", "A change of one object", {
  kind,
  key: Text("Key in the document", "web/shop"),
  id: nullable(Text("The stored object; null for one to create", null)),
  action: OneOf(
    ["create", "update", "delete", "adopt", "move", "pause", "orphaned"],
    "orphaned: it has left the document, and nothing is done",
    "update",
  ),
  fields: Type.Array(
    Closed({
      path: Text("Pointer into the object", "/interval"),
      old: Type.Unknown({ description: "Stored value; *** for a secret", examples: [60] }),
      new: Type.Unknown({ description: "Declared value; `changed` for a secret", examples: [30] }),
    }),
    { description: "What differs; of a new object what the document says" },
  ),
  drift: nullable(
    Closed(
      { at: Timestamp, by: actor },
      { description: "Somebody else wrote it since the last apply, and it differs", examples: [null] },
    ),
  ),
});
export type Change = Static<typeof Change>;

const changes = Type.Array(Change, { description: "Unchanged objects are not listed" });
const warnings = Type.Array(Text("For people", "old is over."), {
  description: "Warnings",
});

export const PlanReply = Shape("ConfigPlan", "What an apply would do", {
  plan_token: Text("For the apply, within 24 hours", "eyJ2Ijox…"),
  summary: Summary,
  changes,
  warnings,
});
export type PlanReply = Omit<Static<typeof PlanReply>, "summary"> & { summary: Summary };

export const ApplyReply = Shape("ConfigApplied", "What the apply has done", { summary: Summary, changes, warnings });
export type ApplyReply = Omit<PlanReply, "plan_token">;

export const ManageRequest = Shape("ConfigManageRequest", "An object and its key in a project", {
  project,
  kind,
  key,
  id: IdText({ format: "uuid", errorCode: "INVALID_ID", description: "The stored object" }),
});
export type ManageRequest = Static<typeof ManageRequest>;

export const ExportQuery = Closed({
  project: Type.Optional(Type.String({ ...projectName, description: "Its objects only" })),
  tag: Type.Optional(
    Type.String({ maxLength: 50, description: "Monitors with this tag, and the channels that they notify" }),
  ),
});
export type ExportQuery = Static<typeof ExportQuery>;

export const ExportReply = Shape("ConfigExport", "Stored objects as a document", {
  document: Type.Record(Type.String(), Type.Unknown(), {
    description: "As a plan takes it",
    examples: [{ version: 1 }],
  }),
  secrets: Type.Array(
    Closed({
      name: Text("Variable in place of the secret", "OPS_WEBHOOK_URL"),
      path: Text("Pointer into the document", "/channels/ops/config/webhook_url"),
    }),
    { description: "Variables to set: no secret is exported" },
  ),
});
export type ExportReply = Static<typeof ExportReply>;

const FileState = Closed(
  {
    path: Text("File or folder on the server", "/etc/statusmesh/monitors"),
    ok: Flag("False while it cannot be applied: what was applied before stays"),
    error: nullable(
      Closed({
        message: Text("What is wrong", "version must be 1."),
        file: nullable(Text("Where", "/etc/statusmesh/monitors/web.yaml")),
        line: nullable(Integer("From 1", 3)),
        column: nullable(Integer("From 1", 5)),
      }),
    ),
    applied_at: nullable(Type.Unsafe<string>({ ...Timestamp, description: "When it last changed something" })),
  },
  { description: "The server's own file; null where the server has none", examples: [null] },
);
export type FileState = Static<typeof FileState>;

export const Projects = Shape("ConfigProjects", "Projects of configuration as code", {
  projects: Type.Array(
    Closed({
      project: Text("Name", "shop"),
      counts: Closed(Object.fromEntries(kindNames.map((name) => [name, Integer("Objects that it declares", 1)])), {
        description: "Objects by kind",
      }),
      applied_at: nullable(Type.Unsafe<string>({ ...Timestamp, description: "Last apply; null before it" })),
      applied_by: nullable(actor),
      summary: nullable(Summary),
      source: Type.Optional(
        Closed(
          {
            name: Text("The source of discovery", "Docker, host nas"),
            at: Timestamp,
            error: nullable(Text("Why it could not be read last", null)),
            objects: Integer("Objects read", 20),
            wrong: Type.Array(Remark, { description: "Objects that are left out, the first 100" }),
            ignored: Type.Array(Remark, { description: "What has no equivalent, the first 100" }),
          },
          { description: "The last run of discovery; absent in a project of files" },
        ),
      ),
    }),
    { description: "Every project, by name" },
  ),
  file: nullable(FileState),
});
