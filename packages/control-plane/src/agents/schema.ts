import Type, { type Static } from "typebox";
import { Id, nullable, PageOf, Timestamp } from "../http/wire.ts";

const Name = Type.String({ minLength: 1, maxLength: 100, pattern: "\\S" });

export const AgentCreate = Type.Object({ name: Name, region: Type.String({ maxLength: 40 }) }, { additionalProperties: false });
export type AgentCreate = Static<typeof AgentCreate>;
export const AgentPatch = Type.Object({ name: Name }, { additionalProperties: false });

const fields = {
  id: Id,
  name: Type.String(),
  region: Type.String(),
  built_in: Type.Boolean(),
  live: Type.Boolean(),
  version: nullable(Type.String()),
  created_at: Timestamp,
  last_seen_at: nullable(Timestamp),
};

export const Agent = Type.Object(fields, { additionalProperties: false, title: "Agent" });
export type Agent = Static<typeof Agent>;
export const AgentPage = PageOf(Agent);
export const AgentWithToken = Type.Object({ ...fields, token: Type.String({ description: "Shown this once" }) }, { additionalProperties: false, title: "AgentWithToken" });
export type AgentWithToken = Static<typeof AgentWithToken>;
