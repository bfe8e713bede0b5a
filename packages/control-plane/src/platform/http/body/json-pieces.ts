import Type, { type TSchema } from "typebox";
import { AppError } from "@statusmesh/shared/errors";
import { Faults } from "@statusmesh/shared/schema/faults";
import { refuseLength, type SchemaNode, validate } from "@statusmesh/shared/schema/validate";
import { parseJson } from "./json.ts";
import { maxPiece, scanJson, Skeleton, tooLarge } from "./json-scan.ts";
import { takeTurns, type Turns } from "../../process/turns.ts";

/*
 * A body that is too large to parse in one step is a list, or an object with lists. It is cut at the items of these
 * lists, which are parsed and validated one after the other, in slices.
 */

/** Called with an invalid body and its error; may throw an error that explains more. */
export type OnInvalidBody = (body: unknown, error: unknown) => void;

/** Start and end offsets of the items of a list, alternating. */
type Bounds = number[];

interface Pieces {
  /** The body with its lists emptied. */
  skeleton: string;
  /** By field; "" is the body itself. */
  lists: Map<string, Bounds>;
}

/** The lists at which a body of this schema is cut, by field; "" is the body itself. */
function listsOf(schema: SchemaNode): Map<string, SchemaNode> {
  if (schema.type === "array") return new Map([["", schema]]);
  return new Map(Object.entries(schema.properties ?? {}).filter(([, node]) => node.type === "array"));
}

/**
 * Parses and validates a body of more than {@link maxPiece} bytes, in slices. Throws like `parseJson` and `validate`,
 * and PAYLOAD_TOO_LARGE for an item, or the rest beside the lists, above {@link maxPiece}.
 */
export async function readPieces(
  bytes: Buffer,
  schema: TSchema,
  onInvalidBody: OnInvalidBody | null,
): Promise<unknown> {
  const lists = listsOf(schema as SchemaNode);
  const turns = await takeTurns();
  const pieces = await cut(bytes, lists, turns);
  await turns.next();
  const body = parseJson(pieces.skeleton);
  for (const [field, bounds] of pieces.lists) {
    const emptied = listIn(body, field);
    // Of a repeated field the last value counts.
    if (emptied !== null) await parseItems(bytes, field, bounds, emptied, turns);
  }
  await turns.next();
  try {
    const faults = new Faults();
    faults.check(() => validate(shellOf(schema), body));
    for (const [field, list] of lists) await checkItems(listIn(body, field) ?? [], { field, list, faults }, turns);
    faults.throwAny();
    return body;
  } catch (error) {
    onInvalidBody?.(body, error);
    throw error;
  }
}

function listIn(body: unknown, field: string): unknown[] | null {
  const list = field === "" ? body : (body as Record<string, unknown> | null)?.[field];
  return Array.isArray(list) ? list : null;
}

async function parseItems(bytes: Buffer, field: string, bounds: Bounds, into: unknown[], turns: Turns): Promise<void> {
  const depth = field === "" ? 1 : 2;
  for (let at = 0; at < bounds.length; at += 2) {
    if (turns.over()) await turns.next();
    into.push(parseJson(bytes.toString("utf8", bounds[at], bounds[at + 1]), pointerOf(field, at / 2), depth));
  }
}

async function checkItems(
  items: unknown[],
  { field, list, faults }: { field: string; list: SchemaNode; faults: Faults },
  turns: Turns,
): Promise<void> {
  for (const [at, item] of items.entries()) {
    if (faults.isFull) return;
    if (turns.over()) await turns.next();
    items[at] = faults.check(() => validate(list.items as TSchema, item, pointerOf(field, at)));
  }
}

const pointerOf = (field: string, at: number): string => (field === "" ? `/${at}` : `/${field}/${at}`);

const shells = new WeakMap<TSchema, TSchema>();

/** The schema with lists of unknown items, for a body whose items are validated one by one. */
function shellOf(schema: TSchema): TSchema {
  let shell = shells.get(schema);
  if (shell === undefined) {
    const open = (list: object): TSchema => ({ ...list, items: Type.Unknown() }) as unknown as TSchema;
    const lists = [...listsOf(schema as SchemaNode)].map(([field, list]) => [field, open(list)] as const);
    const { properties } = schema as SchemaNode;
    shell =
      properties === undefined
        ? open(schema)
        : ({ ...schema, properties: { ...properties, ...Object.fromEntries(lists) } } as unknown as TSchema);
    shells.set(schema, shell);
  }
  return shell;
}

/** Finds the items of `lists`. */
async function cut(bytes: Buffer, lists: ReadonlyMap<string, SchemaNode>, turns: Turns): Promise<Pieces> {
  const found = new Map<string, Bounds>();
  const skeleton = new Skeleton(bytes, "The body without its lists");
  /** Current field of the outermost object; null before its name is complete. */
  let field: string | null = null;
  /** The open list; `itemFrom` is the start of its current item. */
  let list: { field: string; depth: number; bounds: Bounds } | null = null;
  let itemFrom = 0;
  const endItem = (to: number): void => {
    const { field, bounds } = list!;
    const pointer = pointerOf(field, bounds.length / 2);
    if (to - itemFrom > maxPiece) throw tooLarge(`The item ${pointer}`, pointer);
    bounds.push(itemFrom, to);
    // Stop at the limit: 32 MiB hold eleven million items.
    if (bounds.length / 2 > (lists.get(field)!.maxItems ?? Infinity))
      refuseLength(lists.get(field) as TSchema, bounds.length / 2, field === "" ? "" : `/${field}`);
  };
  await scanJson(bytes, turns, {
    open(at, depth, isList) {
      const opened: string | null = depth === 1 ? "" : depth === 2 ? field : null;
      if (list !== null || opened === null || !isList || !lists.has(opened)) return;
      skeleton.keepTo(at + 1);
      list = { field: opened, depth, bounds: [] };
      itemFrom = at + 1;
    },
    close(at, depth) {
      if (depth !== list?.depth) return;
      if (list.bounds.length > 0 || !isBlank(bytes, itemFrom, at)) endItem(at);
      found.set(list.field, list.bounds);
      list = null;
      skeleton.continueFrom(at);
    },
    comma(at, depth) {
      if (depth === list?.depth) {
        endItem(at);
        itemFrom = at + 1;
      } else if (depth === 1) field = null;
    },
    colon(_at, depth, name) {
      if (depth === 1 && list === null) field = name();
    },
  });
  if (list !== null) throw new AppError("INVALID_JSON", "The body is not JSON: it ends inside a list.");
  return { skeleton: skeleton.end(), lists: found };
}

function isBlank(bytes: Buffer, from: number, to: number): boolean {
  return to - from <= maxPiece && bytes.toString("latin1", from, to).trim() === "";
}
