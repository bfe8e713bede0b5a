import { AppError } from "@statusmesh/shared/errors";
import type { Faults } from "@statusmesh/shared/schema/faults";
import { normaliseId } from "@statusmesh/shared/ids";
import { perSection, type Section } from "@statusmesh/shared/declared/files";

/** Keys of the document and ids of what they declare; a new object has got its id already. */
export class References {
  readonly #ids = perSection(() => new Map<string, string>());
  readonly #keys = new Map<string, string>();
  /** Objects outside the document that exist, by section. */
  readonly #outside: Readonly<Record<"channels" | "monitors", ReadonlySet<string>>>;

  constructor(outside: Readonly<Record<"channels" | "monitors", ReadonlySet<string>>>) {
    this.#outside = outside;
  }

  add(section: Section, key: string, id: string): void {
    this.#ids[section].set(key, id);
    this.#keys.set(id, key);
  }

  /** How a person reads an id: by its key, where it has one. */
  shown = (id: string): string => this.#keys.get(id) ?? id;

  /** The id behind a key. Adds UNKNOWN_REFERENCE and returns null where there is none. */
  byKey(section: "channels" | "monitors", key: unknown, pointer: string, faults: Faults): string | null {
    const id = typeof key === "string" ? this.#ids[section].get(key) : undefined;
    if (id !== undefined) return id;
    const what = typeof key === "string" ? `"${key.slice(0, 120)}"` : "this value";
    faults.add(new AppError("UNKNOWN_REFERENCE", `The document has no key ${what} in ${section}.`, { field: pointer }));
    return null;
  }

  /** The id itself, of an object in the document or outside of it. */
  byId(section: "channels" | "monitors", id: unknown, pointer: string, faults: Faults): string | null {
    const known = typeof id === "string" ? normaliseId(id) : null;
    if (known !== null && (this.#keys.has(known) || this.#outside[section].has(known))) return known;
    const what = section === "channels" ? "channel" : "monitor";
    faults.add(new AppError("UNKNOWN_REFERENCE", `The organisation has no ${what} with this id.`, { field: pointer }));
    return null;
  }
}
