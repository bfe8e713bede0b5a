import { Readable } from "node:stream";
import { fits } from "@statusmesh/shared/schema/validate";
import { json, locates, type Reply, type Route, type Sent } from "../route.ts";
import { takeTurns, type Turns } from "../../process/turns.ts";

/** A reply with more list items is serialised in slices: a thousand targets can be 65 MB. */
const manyItems = 100;
/** Items without long lists that are serialised together: a turn for each would take longer than they do. */
const itemsAtOnce = 16;
/** Lists within lists are counted down to this depth. */
const listDepth = 3;
/** Characters that are encoded together. */
const chunkLength = 65_536;

/** The serialised reply. With `checkReplies` a reply that differs from the declaration is an error. */
export async function written(route: Route, reply: Reply, checkReplies: boolean): Promise<Sent> {
  const { status, body, headers } = reply;
  if (checkReplies) assertDeclared(route, reply);
  const cache = route.method === "GET" && route.cache !== null ? route.cache : "no-store";
  return {
    status,
    headers: { "Cache-Control": cache, ...headers },
    text:
      body === undefined
        ? null
        : body instanceof Readable
          ? body
          : route.mediaType !== json
            ? String(body)
            : Buffer.isBuffer(body)
              ? body
              : await stringified(body),
  };
}

function assertDeclared(route: Route, { status, body, headers = {} }: Reply): void {
  const located = (status === 201 && locates(route)) || status === 303;
  if (Object.hasOwn(headers, "Location") !== located)
    throw new Error(`${route.method} ${route.path} must${located ? "" : " not"} answer ${status} with Location`);
  const schema = route.replies[status];
  if (schema === undefined)
    throw new Error(`${route.method} ${route.path} answered ${status}, which it does not declare`);
  if (body instanceof Readable) return;
  const sent = Buffer.isBuffer(body) ? body.toString() : JSON.stringify(body);
  if (schema !== null && !fits(schema, JSON.parse(sent)))
    throw new Error(`${route.method} ${route.path} answered ${status} with an undeclared body: ${sent}`);
}

/** `JSON.stringify`, in slices where there are many list items. */
export async function stringified(body: unknown): Promise<string | Buffer> {
  return isLong(body) ? await stringifyInTurns(body) : JSON.stringify(body);
}

/** True for many items in own lists, or in lists within them. */
const isLong = (body: unknown): boolean =>
  itemsIn(body, 1) > manyItems || itemsIn(body, listDepth) > listDepth * manyItems;

/** A list, or an object with so many fields that it is a map. */
const isList = (values: readonly unknown[], value: object): boolean =>
  Array.isArray(value) || values.length > manyItems;

/** Number of items of the lists in a value, down to `depth` lists within lists; above the limit it stops counting. */
function itemsIn(value: unknown, depth: number): number {
  if (typeof value !== "object" || value === null || depth === 0) return 0;
  const values = Array.isArray(value) ? value : Object.values(value);
  const own = isList(values, value);
  let items = own ? values.length : 0;
  if (own && depth === 1) return items;
  for (const field of values) {
    if (items > listDepth * manyItems) return items;
    items += itemsIn(field, depth - (own ? 1 : 0));
  }
  return items;
}

/** `JSON.stringify` of a list, or of an object with lists in it, in slices. */
async function stringifyInTurns(body: unknown): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let texts: string[] = [];
  let length = 0;
  const flush = (): void => {
    chunks.push(Buffer.from(texts.join("")));
    texts = [];
    length = 0;
  };
  const write = (text: string): void => {
    texts.push(text);
    length += text.length;
    if (length >= chunkLength) flush();
  };
  await writeValue(body, write, await takeTurns());
  flush();
  return Buffer.concat(chunks);
}

/** Writes a value that JSON has, with its long lists in pieces. */
async function writeValue(value: unknown, write: (text: string) => void, turns: Turns): Promise<void> {
  if (turns.over()) await turns.next();
  if (!isLong(value)) return write(JSON.stringify(value) ?? "null");
  if (Array.isArray(value)) {
    write("[");
    for (let at = 0; at < value.length;) {
      if (at > 0) write(",");
      let end = at;
      while (end < value.length && end - at < itemsAtOnce && !isLong(value[end])) end++;
      if (end === at) await writeValue(value[at++], write, turns);
      else write(JSON.stringify(value.slice(at, (at = end))).slice(1, -1));
      if (turns.over()) await turns.next();
    }
    return write("]");
  }
  let separator = "{";
  for (const [key, field] of Object.entries(value as object)) {
    if (field === undefined) continue;
    write(`${separator}${JSON.stringify(key)}:`);
    await writeValue(field, write, turns);
    separator = ",";
  }
  write("}");
}
