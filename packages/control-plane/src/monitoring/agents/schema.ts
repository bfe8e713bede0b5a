import Type, { type Static } from "typebox";
import { Line } from "@statusmesh/shared/text";
import { Id, nullable, PageOf, Timestamp, paging } from "../../platform/http/wire.ts";

/** `limit` and `offset` of a list. */
export const ListQuery = Type.Object(paging(50, 1000), { additionalProperties: false });

const Name = Line({
  maxLength: 100,
  description: "As people read it",
  examples: ["fra-1"],
});
const Region = Type.String({ maxLength: 40, description: "Id of its region", examples: ["frankfurt"] });

export const AgentCreate = Type.Object(
  { name: Name, region: Region },
  { additionalProperties: false, title: "AgentCreate", description: "A new agent" },
);
export type AgentCreate = Static<typeof AgentCreate>;
/** Query of a deletion. */
export const DeleteQuery = Type.Object(
  { force: Type.Boolean({ default: false, description: "True: also deletes a connected agent" }) },
  { additionalProperties: false },
);
export const AgentPatch = Type.Object(
  { name: Name },
  { additionalProperties: false, title: "AgentPatch", description: "Its new name" },
);

const fields = {
  id: Id,
  name: Type.String({ description: "As people read it", examples: ["fra-1"] }),
  region: Region,
  built_in: Type.Boolean({ description: "Whether the control plane started it", examples: [false] }),
  live: Type.Boolean({ description: "Whether it has pulled within the last 25 s" }),
  version: nullable(Type.String({ description: "Of sm-agent; null before it was seen", examples: ["0.1.0"] })),
  created_at: Timestamp,
  last_seen_at: nullable(
    Type.Unsafe<string>({
      ...Timestamp,
      description: "Null before it was seen",
      examples: ["2026-11-20T09:30:00.000Z"],
    }),
  ),
  waiting: nullable(
    Type.Integer({ description: "Results in its spool; null where it does not report them", examples: [12] }),
  ),
  lag_ms: nullable(
    Type.Integer({
      description: "99th percentile of how late its checks start, milliseconds; null where it does not report it",
      examples: [4],
    }),
  ),
  impaired_since: nullable(
    Type.Unsafe<string>({
      ...Timestamp,
      description: "Since when its own network has been down; null while it works",
      examples: ["2026-11-20T09:30:00.000Z"],
    }),
  ),
  unable: Type.Array(
    Type.Object(
      {
        kind: Type.String({ description: "Kind of check", examples: ["ping"] }),
        reason: Type.String({ description: "Why, and what to do", examples: ["no ping program is installed"] }),
      },
      { additionalProperties: false },
    ),
    { description: "Kinds of which it runs no check: their monitors are not assigned to it" },
  ),
};

export const Agent = Type.Object(fields, {
  additionalProperties: false,
  title: "Agent",
  description: "A machine that probes",
});
export type Agent = Static<typeof Agent>;
export const AgentPage = PageOf(Agent);
export const AgentWithToken = Type.Object(
  {
    ...fields,
    token: Type.String({ description: "Shown this once", examples: ["sm_agent_Kp3vX9dQ2mZ7rT1sB5nY8wC4hJ6fL0gA"] }),
  },
  {
    additionalProperties: false,
    title: "AgentWithToken",
    description: "The agent with its token, which is shown this once",
  },
);
export type AgentWithToken = Static<typeof AgentWithToken>;
