import type { TSchema } from "typebox";
import { AppError } from "@statusmesh/shared/errors";
import { pointerSegment } from "@statusmesh/shared/secrets";
import { type SchemaNode, validate } from "@statusmesh/shared/validate";
import { comma, parseJson } from "./json.ts";
import { maxPiece, scanJson, Skeleton, tooLarge } from "./json-scan.ts";
import { takeTurns, type Turns } from "../process/turns.ts";

/*
 * A body with a field of maps ({document: {monitors: {key: {…}, …}, …}}) is cut at the entries of these maps, which are
 * parsed one after the other, in slices. The caller validates them.
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

/** Offsets of an entry in the text. */
interface Entry {
  readonly map: string;
  readonly name: readonly [from: number, to: number];
  readonly value: readonly [from: number, to: number];
}

/**
 * Parses a body of more than {@link maxPiece} bytes, in slices, and validates it with its maps empty. Throws like
 * `parseJson` and `validate`, PAYLOAD_TOO_LARGE for an entry or the rest of the body above {@link maxPiece},
 * BULK_TOO_LARGE for too many entries, and INVALID_BODY for a name that occurs twice in a map.
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
  const maps = (body[field] ?? {}) as Record<string, Record<string, unknown>>;
  for (const { map, name, value } of entries) {
    if (turns.over()) await turns.next();
    const key = parseJson(bytes.toString("utf8", ...name), `/${field}/${pointerSegment(map)}`, 3);
    if (typeof key !== "string") throw stray(map);
    const into = maps[map];
    // Of a repeated map the last one counts.
    if (typeof into !== "object" || into === null) continue;
    const pointer = `/${field}/${pointerSegment(map)}/${pointerSegment(key)}`;
    if (key === "__proto__")
      throw new AppError("INVALID_BODY", "A field must not be named __proto__.", { field: pointer });
    if (Object.hasOwn(into, key))
      throw new AppError("INVALID_BODY", `${key} occurs twice. Give each object a key of its own.`, { field: pointer });
    into[key] = parseJson(bytes.toString("utf8", ...value), pointer, 3);
  }
  await turns.next();
  return validate(schema, body);
}

/** Finds the entries. */
async function cut(
  bytes: Buffer,
  field: string,
  most: number,
  turns: Turns,
): Promise<{ skeleton: string; entries: Entry[] }> {
  const entries: Entry[] = [];
  const skeleton = new Skeleton(bytes, "The body without its objects");
  /** Names of the current fields of the outermost objects; the map is open at depth 3. */
  const path: (string | null)[] = [null, null, null];
  let map: string | null = null;
  let entryFrom = 0;
  let nameTo = 0;
  let valueFrom = 0;
  const endEntry = (to: number): void => {
    if (to - valueFrom > maxPiece) throw tooLarge("An object", `/${field}/${pointerSegment(map!)}`);
    entries.push({ map: map!, name: [entryFrom, nameTo], value: [valueFrom, to] });
    if (entries.length > most)
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
