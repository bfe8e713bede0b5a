import type { Db } from "./client/sql.ts";

/** Who declares an object: stored in its column `managed`. */
export interface Managed {
  readonly project: string;
  readonly key: string;
  /** What an apply with `prune` does once the object has left the files. */
  readonly on_remove: "delete" | "keep" | "pause";
  /** Fields whose values came from variables: pointers that plans show no values of. */
  readonly variables?: readonly string[];
  /** When an apply wrote the object last. */
  readonly at: string;
  /** Where discovery found it. */
  readonly source?: FoundAt;
  /** Since when discovery does not find it any more. */
  readonly orphaned_since?: string;
  /** True: discovery has paused it, and resumes it once it is back. */
  readonly paused?: true;
}

/** The object that declares a monitor, in words, and the list that it was in, such as `containers`. */
export interface FoundAt {
  readonly object: string;
  readonly scope: string;
}

/** `managed` of an object. */
export interface ManagedChange {
  readonly id: string;
  readonly managed: Managed | null;
  /** `variables` of an object that no project declares any more: its values still come from them. */
  readonly withheld?: readonly string[];
}

/** Writes `managed` and `withheld` of objects of the organisation; `table` is the one of the caller. */
export async function writeManaged(
  sql: Db,
  table: "targets" | "channels" | "maintenance_windows" | "status_pages",
  orgId: string,
  changes: readonly ManagedChange[],
): Promise<void> {
  if (changes.length === 0) return;
  await sql`
    update ${sql(table)} t set managed = n.managed, withheld = n.withheld
    from jsonb_to_recordset(${JSON.stringify(changes)}::text::jsonb) as n (id uuid, managed jsonb, withheld jsonb)
    where t.org_id = ${orgId} and t.id = n.id`;
}
