import { lastWrites } from "../../../access/audit/service.ts";
import { getOrMake } from "../../../platform/caches.ts";
import { portionsOf, takeTurns } from "../../../platform/process/turns.ts";
import { perSection, type Section } from "@statusmesh/shared/declared/files";
import { WrittenChanges } from "../changes.ts";
import type { Declared, Document, Entry } from "../document/document.ts";
import type { Judged, Judging } from "../kinds/kind.ts";
import type { JudgedOne, Matched, Stored } from "./match.ts";
import { fileActor } from "../queries.ts";
import { type Change, kindOfSection } from "../schema.ts";
import { type Fates, type ManagedWrite, resumed, sourceChanges } from "./sources.ts";
import { withoutValues } from "../document/variables.ts";

/*
 * Objects are judged in portions. Each change is written as JSON at once, and of the object only that stays which rules
 * over several objects and the apply read.
 */

/** Objects of one portion, whose stored ones are read together. */
const portion = 50;
/** Warnings of checks that are listed. */
const mostNotes = 20;

/** Writes of an apply, by the API and by the server's own files, are no drift. */
export const applyActions = ["POST /api/v1/config/apply", fileActor];

/** A change without its values. */
export interface ChangeRecord extends Pick<Change, "kind" | "key" | "action"> {
  readonly id: string;
  /** Pointers of the fields. */
  readonly fields: readonly string[];
}

/** What is left of judged objects. */
export class Collected {
  readonly changes = new WrittenChanges();
  readonly warnings: string[] = [];
  unchanged = 0;
  /** For an apply only: these and the inputs of judged objects. */
  readonly manage = perSection((): { id: string; managed: ManagedWrite }[] => []);
  readonly touched = perSection((): string[] => []);
  readonly pause = perSection((): string[] => []);
  readonly records: ChangeRecord[] = [];

  readonly judging: Judging;
  readonly isApplied: boolean;
  readonly #project: string;
  readonly #prune: boolean;
  readonly #fates: Fates | null;
  readonly #withheld: ReadonlyMap<string, readonly string[]>;
  readonly #notes: string[] = [];
  #moreNotes = 0;

  /** `withheld`: fields of adopted objects whose values came from variables of an earlier project. */
  constructor(
    judging: Judging,
    options: {
      project: string;
      prune: boolean;
      isApplied: boolean;
      fates: Fates | null;
      withheld: ReadonlyMap<string, readonly string[]>;
    },
  ) {
    this.judging = judging;
    this.isApplied = options.isApplied;
    this.#project = options.project;
    this.#prune = options.prune;
    this.#fates = options.fates;
    this.#withheld = options.withheld;
  }

  /** The change of a judged object; null for one that is not changed. */
  changeOf({ declared, id, stored, action }: Matched, judged: Judged<unknown, unknown>): Change | null {
    const { section, key, onRemove, variables, source } = declared;
    const known = stored?.managed?.variables ?? this.#withheld.get(id) ?? [];
    const hidden = { declared: variables, stored: known };
    const fields = [...judged.changes.map((change) => withoutValues(change, hidden)), ...sourceChanges(source, stored)];
    if (judged.warning !== undefined) this.warnings.push(judged.warning);
    const old = stored?.managed?.on_remove ?? null;
    if (stored !== null && action !== "adopt" && old !== onRemove)
      fields.push({ path: "/on_remove", old, new: onRemove });
    if (stored === null ? judged.warning !== undefined : action === "update" && fields.length === 0) {
      this.unchanged++;
      if (stored !== null && variables.join() !== known.join()) this.#manage(declared, id, stored);
      return null;
    }
    for (const note of judged.notes ?? []) this.#note(`${key}: ${note}`);
    this.#manage(declared, id, stored);
    return { kind: kindOfSection[section], key, id: stored?.id ?? null, action, fields, drift: null };
  }

  /** Adds a warning of a check: the first ones, and how many there are. */
  #note(text: string): void {
    if (this.#notes.length < mostNotes) this.#notes.push(text);
    else this.#moreNotes++;
  }

  /** All warnings of the objects. */
  get allWarnings(): readonly string[] {
    const more = this.#moreNotes === 0 ? [] : [`${this.#moreNotes} more warnings of checks.`];
    return [...this.warnings, ...this.#notes, ...more];
  }

  /** Notes for the apply what is stored about the declaration of an object. */
  #manage({ section, key, onRemove, variables, source }: Entry, id: string, stored: Stored | null): void {
    if (!this.isApplied) return;
    const managed = {
      project: this.#project,
      key,
      on_remove: onRemove,
      ...(variables.length === 0 ? {} : { variables }),
      ...(source === null ? {} : { source }),
    };
    this.manage[section].push({ id, managed });
    if (stored !== null) this.touched[section].push(id);
  }

  /** Writes changes of objects with the ids, once it is known who wrote them since the last apply. */
  async write(changes: readonly { readonly change: Change; readonly one: Matched }[]): Promise<void> {
    // Nothing is shown beside faults.
    if (!this.judging.faults.isEmpty) return;
    const asked = changes.flatMap(({ change, one: { stored } }) =>
      change.action === "update" && stored?.managed != null
        ? [{ id: stored.id, after: new Date(stored.managed.at) }]
        : [],
    );
    const writes = await lastWrites(this.judging.ctx, asked, applyActions);
    for (const { change, one } of changes) {
      const write = change.action === "update" ? writes.get(one.id) : undefined;
      if (write !== undefined)
        change.drift = {
          at: write.at.toISOString(),
          by: { type: write.actor_type, id: write.actor_id, name: write.user_email },
        };
      this.#add(change, one.id);
    }
  }

  /** Adds what has left a section of the document. */
  addOrphans(section: Section, orphans: readonly Stored[]): void {
    const kind = kindOfSection[section];
    for (const stored of orphans) {
      const { key, on_remove: onRemove } = stored.managed!;
      const enabled = "enabled" in stored && stored.enabled === true;
      const fate = this.#fates?.get(stored.id);
      const action =
        fate !== undefined
          ? fate.action
          : !this.#prune || onRemove === "keep"
            ? "orphaned"
            : onRemove === "delete"
              ? "delete"
              : enabled
                ? "pause"
                : "orphaned";
      this.#add({ kind, key, id: stored.id, action, fields: [], drift: null }, stored.id);
      if (fate?.managed !== undefined && this.isApplied) {
        this.manage[section].push({ id: stored.id, managed: fate.managed });
        if (action === "orphaned") this.touched[section].push(stored.id);
      }
      if (action === "orphaned") continue;
      this.touched[section].push(stored.id);
      if (action === "pause") this.pause[section].push(stored.id);
    }
  }

  #add(change: Change, id: string): void {
    this.changes.add(change);
    const { kind, key, action, fields } = change;
    if (this.isApplied && action !== "orphaned")
      this.records.push({ kind, key, action, id, fields: fields.map(({ path }) => path) });
  }
}

/** What rules over several objects read of an input, by section. */
const shortOf: Readonly<Record<Section, (input: never) => object>> = {
  channels: ({ name }: { name: string }) => ({ name }),
  monitors: ({ name, check, depends_on, heartbeat_addresses }: ShortMonitor) => ({
    name,
    check: check.type === "group" ? { type: check.type, members: check.members } : typeOnly(check.type),
    ...(depends_on === undefined || depends_on.length === 0 ? {} : { depends_on }),
    ...(heartbeat_addresses === undefined || heartbeat_addresses.length === 0 ? {} : { heartbeat_addresses }),
  }),
  status_pages: ({ page, components }: { page: { slug: string }; components: readonly { target_id: unknown }[] }) => ({
    page: { slug: page.slug },
    components: components.map(({ target_id }) => ({ target_id })),
  }),
  maintenance: ({ title, starts_at }: { title: string; starts_at: string }) => ({ title, starts_at }),
};

interface ShortMonitor {
  name: string;
  check: { type: string; members?: unknown };
  depends_on?: string[];
  heartbeat_addresses?: unknown[];
}

const typesOnly = new Map<string, { type: string }>();
const typeOnly = (type: string): { type: string } => getOrMake(typesOnly, type, () => ({ type }));

/** Judges the objects of a section. `read` reads stored ones whole, where the matched ones are not. */
export async function judgeAll<S extends Stored, C, E>(
  section: Section,
  work: {
    list: readonly Matched[];
    orphans: readonly Stored[];
    document: Document;
    collected: Collected;
    judgeOne: (declared: Declared, stored: S | null, judging: Judging) => Judged<C, E> | null;
    read?: (ids: readonly string[]) => Promise<S[]>;
  },
): Promise<JudgedOne<Stored, C, E>[]> {
  const { list, orphans, document, collected, judgeOne, read } = work;
  const { judging, isApplied } = collected;
  const { faults } = judging;
  const found: JudgedOne<Stored, C, E>[] = [];
  // A page of 1,000 components takes a slice of its own, so that a short list is judged in slices too.
  const turns = await takeTurns(judging.ctx.isGone);
  for (const some of portionsOf(list, portion)) {
    const ids = some.flatMap(({ stored }) => stored?.id ?? []);
    const rows = read === undefined || ids.length === 0 ? null : new Map((await read(ids)).map((row) => [row.id, row]));
    const changes: { change: Change; one: Matched }[] = [];
    for (const one of some) {
      if (faults.isFull) return found;
      if (turns.over()) await turns.next();
      const stored = (one.stored !== null && rows !== null ? rows.get(one.id) : one.stored) as S | null | undefined;
      // Deleted since: the apply says that the plan is stale.
      if (stored === undefined) continue;
      const judged = judgeOne(resumed(document.declared(one.declared), stored), stored, judging);
      if (judged === null) continue;
      const { changes: fields, create, edit, notes: _, ...warning } = judged;
      found.push({
        ...one,
        judged: isApplied
          ? { create, edit: fields.length === 0 ? null : edit, ...warning }
          : { create: shortOf[section](create as never) as C, edit: null, ...warning },
      });
      const change = collected.changeOf(one, judged);
      if (change !== null) changes.push({ change, one });
    }
    await collected.write(changes);
  }
  if (faults.isEmpty) collected.addOrphans(section, orphans);
  return found;
}
