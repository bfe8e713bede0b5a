import Type, { type Static } from "typebox";
import type { Managed } from "../db/managed-queries.ts";
import { nullable } from "./wire.ts";

export const ManagedBy = nullable(
  Type.Object(
    {
      project: Type.String({ description: "Project of configuration as code", examples: ["shop"] }),
      key: Type.String({ description: "Key of the object in its files", examples: ["web/checkout"] }),
    },
    {
      additionalProperties: false,
      description: "The project that declares the object in files: its next apply undoes other changes. Null: none",
      examples: [null],
    },
  ),
);

/** In a request, so that a client can send back what it has read. */
export const managedByIgnored = Type.Optional(
  Type.Unknown({ description: "Decided by the server; ignored when sent" }),
);

/** `managed_by` of a reply. */
export const managedBy = (managed: Managed | null): Static<typeof ManagedBy> =>
  managed === null ? null : { project: managed.project, key: managed.key };
