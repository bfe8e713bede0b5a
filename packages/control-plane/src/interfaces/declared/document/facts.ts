import { certificatesOf } from "@statusmesh/shared/checks/certificates";
import type { Section } from "@statusmesh/shared/declared/files";
import { AppError } from "@statusmesh/shared/errors";
import { isId, normaliseId } from "@statusmesh/shared/ids";
import { isObject, type Json } from "@statusmesh/shared/json";

/** Components of all pages, monitors of all windows, and monitors outside of the document. */
const most = { components: 20_000, windows: 100_000, outside: 20_000 };

/** What a plan has to know of all objects of a document before it judges the first one. */
export class Facts {
  /** Ids of monitors that the document names. */
  readonly outside = new Set<string>();
  /** Tags of maintenance windows. */
  readonly tags = new Set<string>();
  readonly slugs = new Set<string>();
  /** `is_default` by key of the channel. */
  readonly defaults = new Map<string, boolean>();
  /** Components by key of the page. */
  readonly components = new Map<string, number>();
  /** A check that names certificates. */
  certified: Json | null = null;
  #components = 0;
  #windows = 0;

  /** Counts the references of an object. Throws BULK_TOO_LARGE where one request has too many. */
  count(section: Section, object: Json): void {
    if (section === "status_pages") {
      this.#components += listIn(object, "components").length;
      refuseMany("components of status pages", this.#components, most.components, "/document/status_pages");
    }
    if (section === "maintenance")
      this.countWindow(listIn(object, "monitors").length + listIn(object, "component_ids").length);
  }

  /** Counts monitors of a maintenance window. Throws like {@link count}. */
  countWindow(monitors: number): void {
    this.#windows += monitors;
    refuseMany("monitors of maintenance windows", this.#windows, most.windows, "/document/maintenance");
  }

  /** Adds an object with its defaults. */
  add(section: Section, key: string, fields: Json): void {
    const { check, slug } = fields;
    if (section === "channels") this.defaults.set(key, fields["is_default"] === true);
    if (section === "monitors") {
      this.#name(listIn(fields, "depends_on").map(targetOf));
      if (isObject(check)) this.#name(listIn(check, "members").map(targetOf));
      if (this.certified === null && isObject(check) && certificatesOf(check).length > 0) this.certified = check;
    }
    if (section === "status_pages") {
      const components = listIn(fields, "components");
      this.components.set(key, components.length);
      this.#name(components.map(targetOf));
      if (typeof slug === "string") this.slugs.add(slug);
    }
    if (section === "maintenance") {
      this.#name(listIn(fields, "component_ids"));
      for (const tag of listIn(fields, "tags")) if (typeof tag === "string") this.tags.add(tagOf(tag));
    }
  }

  #name(ids: readonly unknown[]): void {
    for (const id of ids) {
      if (this.outside.size > most.outside) break;
      const named = typeof id === "string" ? normaliseId(id) : "";
      if (isId(named)) this.outside.add(named);
    }
    refuseMany("ids of monitors that it does not declare", this.outside.size, most.outside, "/document");
  }
}

/** A tag as monitors have it. */
export const tagOf = (tag: string): string => tag.normalize("NFC").trim();

const targetOf = (item: unknown): unknown => (isObject(item) ? item["target_id"] : undefined);

const listIn = (fields: Json, name: string): readonly unknown[] =>
  Array.isArray(fields[name]) ? (fields[name] as unknown[]) : [];

function refuseMany(what: string, count: number, limit: number, field: string): void {
  if (count > limit)
    throw new AppError(
      "BULK_TOO_LARGE",
      `One request has at most ${limit} ${what}; this one has ${count} or more. Divide the document into projects.`,
      { field },
    );
}
