import type { TSchema } from "typebox";
import { AppError } from "@statusmesh/shared/errors";
import { pointerSegment } from "@statusmesh/shared/secrets";
import { type SchemaNode, validate } from "@statusmesh/shared/schema/validate";
import { comma, parseJson } from "./json.ts";
import { maxPiece, scanJson, Skeleton, tooLarge } from "./json-scan.ts";
import { getOrMake } from "../../caches.ts";
import { takeTurns, type Turns } from "../../process/turns.ts";

/*
 * A body with a field of maps ({document: {monitors: {key: {…}, …}, …}}) is cut at the entries of these maps. Each is
 * parsed once, in slices, to refuse what is no JSON, and again whenever the caller reads it: 16 MiB of short texts have
 * 100 MB as values.
 */

declare module "typebox" {
  interface TSchemaOptions {
    /** Of an object of maps in a large body: the most entries of all maps. The body is cut at the entries. */
    mapEntries?: number;
  }
}

/** The field of a body that holds maps, and the most entries of all of them; null for a body without. */
export function mapsIn(schema: TSchema): { field: string; most: number } | null {
  const { properties = {} } = schema as SchemaNode;
  for (const [field, node] of Object.entries(properties)) {
    const most = (node as { mapEntries?: number }).mapEntries;
    if (most !== undefined) return { field, most };
  }
  return null;
}

/** A map whose entries are parsed when they are read, from the bytes of the body. */
class LazyMap {
  readonly #bytes: Buffer;
  /** Start and end of a value, alternating. */
  readonly #bounds: number[] = [];
  /** Positions in the bounds by name: the names are in the order of an object. */
  readonly #at: Record<string, number> = {};

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get names(): string[] {
    return Object.keys(this.#at);
  }

  get(name: string): unknown {
    const at = this.has(name) ? this.#at[name]! : undefined;
    return at === undefined
      ? undefined
      : JSON.parse(this.#bytes.toString("utf8", this.#bounds[at], this.#bounds[at + 1]));
  }

  has(name: string): boolean {
    return Object.hasOwn(this.#at, name);
  }

  /** Adds an entry whose value is valid JSON. */
  add(name: string, from: number, to: number): void {
    this.#at[name] = this.#bounds.length;
    this.#bounds.push(from, to);
  }
}

/** The names of the entries of a map, in the order of an object. */
export const namesIn = (map: object): string[] => (map instanceof LazyMap ? map.names : Object.keys(map));

/** The value of an entry; a {@link LazyMap} parses it, so that the caller may change it. */
export const valueIn = (map: object, name: string): unknown =>
  map instanceof LazyMap ? map.get(name) : (map as Record<string, unknown>)[name];

/** A map as an object. */
export const wholeMap = (map: unknown): unknown =>
  map instanceof LazyMap ? Object.fromEntries(map.names.map((name) => [name, map.get(name)])) : map;

/** Bytes of an entry that takes a slice of its own. */
const smallEntry = 65_536;

/** Entries in the text: the map of each, and four offsets, those of its name and of its value. */
interface Entries {
  readonly maps: string[];
  readonly offsets: number[];
}

/**
 * Parses a body of more than {@link maxPiece} bytes, in slices, and validates it with its maps empty; each map is a
 * {@link LazyMap}. Throws like `parseJson` and `validate`, PAYLOAD_TOO_LARGE for an entry or the rest of the body above
 * {@link maxPiece}, BULK_TOO_LARGE for too many entries, and INVALID_BODY for a name that occurs twice in a map.
 */
export async function readMaps(
  bytes: Buffer,
  schema: TSchema,
  { field, most }: { field: string; most: number },
): Promise<unknown> {
  const turns = await takeTurns();
  const { skeleton, entries } = await cut(bytes, field, most, turns);
  await turns.next();
  const body = parseJson(skeleton) as Record<string, unknown>;
  const maps = (body[field] ?? {}) as Record<string, unknown>;
  const lazy = new Map<string, LazyMap>();
  for (const [at, map] of entries.maps.entries()) {
    if (turns.over()) await turns.next();
    const [nameFrom, nameTo, from, to] = entries.offsets.slice(4 * at, 4 * at + 4) as [number, number, number, number];
    const key = parseJson(bytes.toString("utf8", nameFrom, nameTo), `/${field}/${pointerSegment(map)}`, 3);
    if (typeof key !== "string") throw stray(map);
    // Of a repeated map the last one counts.
    if (typeof maps[map] !== "object" || maps[map] === null) continue;
    const into = getOrMake(lazy, map, () => new LazyMap(bytes));
    const pointer = `/${field}/${pointerSegment(map)}/${pointerSegment(key)}`;
    if (key === "__proto__")
      throw new AppError("INVALID_BODY", "A field must not be named __proto__.", { field: pointer });
    if (into.has(key))
      throw new AppError("INVALID_BODY", `${key} occurs twice. Give each object a key of its own.`, { field: pointer });
    if (to - from > smallEntry) await turns.next();
    parseJson(bytes.toString("utf8", from, to), pointer, 3);
    into.add(key, from, to);
    if (to - from > smallEntry) await turns.next();
  }
  await turns.next();
  const valid = validate(schema, body) as Record<string, unknown>;
  if (lazy.size > 0) Object.assign(valid[field] as object, Object.fromEntries(lazy));
  return valid;
}

/** Finds the entries. */
async function cut(
  bytes: Buffer,
  field: string,
  most: number,
  turns: Turns,
): Promise<{ skeleton: string; entries: Entries }> {
  const entries: Entries = { maps: [], offsets: [] };
  const skeleton = new Skeleton(bytes, "The body without its objects");
  /** Names of the current fields of the outermost objects; the map is open at depth 3. */
  const path: (string | null)[] = [null, null, null];
  let map: string | null = null;
  let entryFrom = 0;
  let nameTo = 0;
  let valueFrom = 0;
  const endEntry = (to: number): void => {
    if (to - valueFrom > maxPiece) throw tooLarge("An object", `/${field}/${pointerSegment(map!)}`);
    entries.maps.push(map!);
    entries.offsets.push(entryFrom, nameTo, valueFrom, to);
    if (entries.maps.length > most)
      throw new AppError("BULK_TOO_LARGE", `One request has at most ${most} objects.`, { field: `/${field}` });
  };
  await scanJson(bytes, turns, {
    open(at, depth, isList) {
      const named = path[2] ?? null;
      if (map !== null || depth !== 3 || isList || path[1] !== field || named === null) return;
      skeleton.keepTo(at + 1);
      map = named;
      entryFrom = at + 1;
      valueFrom = 0;
    },
    close(at, depth) {
      if (map === null || depth !== 3) return;
      if (valueFrom > 0) endEntry(at);
      else if (bytes[entryFrom - 1] === comma || bytes.toString("latin1", entryFrom, at).trim() !== "")
        throw stray(map);
      map = null;
      skeleton.continueFrom(at);
    },
    comma(at, depth) {
      if (map !== null && depth === 3) {
        if (valueFrom === 0) throw stray(map);
        endEntry(at);
        entryFrom = at + 1;
        valueFrom = 0;
      } else if (depth < 3) path[depth] = null;
    },
    colon(at, depth, name) {
      if (map !== null && depth === 3) {
        if (valueFrom > 0) throw stray(map);
        [nameTo, valueFrom] = [at, at + 1];
      } else if (depth < 3) path[depth] = name();
    },
  });
  if (map !== null) throw new AppError("INVALID_JSON", `The body is not JSON: it ends inside ${String(map)}.`);
  return { skeleton: skeleton.end(), entries };
}

const stray = (map: string): AppError =>
  new AppError("INVALID_JSON", `The body is not JSON: a comma or colon is in a wrong place in ${map}.`);
