import { AppError, type ErrorCode } from "@statusmesh/shared/errors";
import type { Section } from "@statusmesh/shared/declared/files";
import type { Faults } from "@statusmesh/shared/schema/faults";
import { newId } from "@statusmesh/shared/ids";
import { pointerSegment } from "@statusmesh/shared/secrets";
import type { Managed } from "../../../platform/db/managed-queries.ts";
import { mapInTurns } from "../../../platform/process/turns.ts";
import type { Document, Entry } from "../document/document.ts";
import type { Judged } from "../kinds/kind.ts";

/** What all stored kinds have. */
export interface Stored {
  readonly id: string;
  readonly managed: Managed | null;
  readonly updated_at: Date;
}

/** A declared object with the stored one that it means. */
export interface Matched<S extends Stored = Stored> {
  readonly declared: Entry;
  /** Of the stored object; promised to a new one. */
  readonly id: string;
  readonly stored: S | null;
  readonly action: "create" | "update" | "adopt" | "move";
}

/** One that fits. */
export type JudgedOne<S extends Stored, C, E> = Matched<S> & { readonly judged: Omit<Judged<C, E>, "changes"> };

/** The stored object that each declared one means. */
export async function match(
  section: Section,
  between: { project: string; document: Document; stored: readonly Stored[]; faults: Faults },
): Promise<Matched[]> {
  const { project, document, stored, faults } = between;
  const byId = new Map(stored.map((one) => [one.id, one]));
  const byKey = new Map(stored.flatMap((one) => (one.managed?.project === project ? [[one.managed.key, one]] : [])));
  const moved = new Map([...document.moved[section]].map(([from, to]) => [to, from]));
  const taken = new Set<string>();
  const refuse = (code: ErrorCode, message: string, field: string) =>
    faults.add(new AppError(code, message, { field }));
  return await mapInTurns([...document.objects[section].values()], (declared): Matched => {
    const { key, adopt, pointer } = declared;
    const own = byKey.get(key);
    const from = moved.get(key);
    const old = from === undefined ? undefined : byKey.get(from);
    if (own !== undefined && old !== undefined)
      refuse(
        "INVALID_BODY",
        `${from} cannot move to ${key}: both are there.`,
        `/document/moved/${section}/${pointerSegment(from!)}`,
      );
    if (own !== undefined) return { declared, id: own.id, stored: own, action: "update" };
    if (old !== undefined) return { declared, id: old.id, stored: old, action: "move" };
    if (adopt === null) return { declared, id: newId(), stored: null, action: "create" };
    const one = byId.get(adopt);
    if (one === undefined) refuse("UNKNOWN_REFERENCE", "There is no such object to adopt.", `${pointer}/adopt`);
    else if (one.managed !== null)
      refuse(
        "MANAGED_ELSEWHERE",
        `The project ${one.managed.project} declares this object as ${one.managed.key}. Detach it there first.`,
        `${pointer}/adopt`,
      );
    else if (taken.size === taken.add(adopt).size)
      refuse("INVALID_BODY", "Two objects adopt the same one.", `${pointer}/adopt`);
    return one === undefined
      ? { declared, id: newId(), stored: null, action: "create" }
      : { declared, id: one.id, stored: one, action: "adopt" };
  });
}
