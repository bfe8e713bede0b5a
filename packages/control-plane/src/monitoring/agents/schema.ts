import Type, { type Static } from "typebox";
import { Line } from "@statusmesh/shared/text";
import {
  Closed,
  described,
  Flag,
  Id,
  Integer,
  nullable,
  PageOf,
  paging,
  Shape,
  Text,
  Timestamp,
} from "../../platform/http/wire.ts";

export const ListQuery = Closed(paging(50, 1000));

const Name = Line({
  maxLength: 100,
  description: "As people read it",
  examples: ["fra-1"],
});
const Region = Type.String({ maxLength: 40, description: "Id of its region", examples: ["frankfurt"] });

export const AgentCreate = Shape("AgentCreate", "A new agent", { name: Name, region: Region });
export type AgentCreate = Static<typeof AgentCreate>;
export const DeleteQuery = Closed({
  force: Type.Boolean({ default: false, description: "True: also deletes a connected agent" }),
});
export const AgentPatch = Shape("AgentPatch", "Its new name", { name: Name });

const fields = {
  id: Id,
  name: Text("As people read it", "fra-1"),
  region: Region,
  built_in: Flag("Whether the control plane started it", false),
  live: Flag("Whether it has pulled within the last 25 s"),
  version: nullable(Text("Of sm-agent; null before it was seen", "0.1.0")),
  created_at: Timestamp,
  last_seen_at: nullable(described(Timestamp, "Null before it was seen", "2026-11-20T09:30:00.000Z")),
  waiting: nullable(Integer("Results in its spool; null where it does not report them", 12)),
  lag_ms: nullable(
    Integer("99th percentile of how late its checks start, milliseconds; null where it does not report it", 4),
  ),
  impaired_since: nullable(
    described(Timestamp, "Since when its own network has been down; null while it works", "2026-11-20T09:30:00.000Z"),
  ),
  unable: Type.Array(
    Closed({
      kind: Text("Kind of check", "ping"),
      reason: Text("Why, and what to do", "no ping program is installed"),
    }),
    { description: "Kinds of which it runs no check: their monitors are not assigned to it" },
  ),
};

export const Agent = Shape("Agent", "A machine that probes", fields);
export type Agent = Static<typeof Agent>;
export const AgentPage = PageOf(Agent);
export const AgentWithToken = Shape("AgentWithToken", "The agent with its token, which is shown this once", {
  ...fields,
  token: Text("Shown this once", "sm_agent_Kp3vX9dQ2mZ7rT1sB5nY8wC4hJ6fL0gA"),
});
export type AgentWithToken = Static<typeof AgentWithToken>;
