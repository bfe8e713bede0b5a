import { Readable } from "node:stream";
import { fits } from "@statusmesh/shared/validate";
import { json, locates, type Reply, type Route, type Sent } from "./route.ts";
import { takeTurns, type Turns } from "./turns.ts";

/** A reply with more list items is serialised in slices: a thousand targets can be 65 MB. */
const manyItems = 100;
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
        : route.mediaType !== json
          ? body instanceof Readable
            ? body
            : String(body)
          : itemsIn(body) > manyItems
            ? await stringifyInTurns(body)
            : JSON.stringify(body),
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
  if (schema !== null && !fits(schema, JSON.parse(JSON.stringify(body))))
    throw new Error(
      `${route.method} ${route.path} answered ${status} with an undeclared body: ${JSON.stringify(body)}`,
    );
}

/** Number of list items of a reply: of the reply itself, or of its fields. */
function itemsIn(body: unknown): number {
  if (typeof body !== "object" || body === null) return 0;
  if (Array.isArray(body)) return body.length;
  let items = 0;
  for (const key in body) {
    const field = (body as Record<string, unknown>)[key];
    if (Array.isArray(field)) items += field.length;
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

  const turns = await takeTurns();
  if (Array.isArray(body)) await writeList(body, write, turns);
  else {
    let separator = "{";
    for (const [key, value] of Object.entries(body as object)) {
      if (value === undefined) continue;
      write(`${separator}${JSON.stringify(key)}:`);
      if (Array.isArray(value)) await writeList(value, write, turns);
      else write(JSON.stringify(value));
      separator = ",";
    }
    write(separator === "{" ? "{}" : "}");
  }
  flush();
  return Buffer.concat(chunks);
}

async function writeList(list: readonly unknown[], write: (text: string) => void, turns: Turns): Promise<void> {
  write("[");
  for (const [at, item] of list.entries()) {
    if (turns.over()) await turns.next();
    write(`${at === 0 ? "" : ","}${JSON.stringify(item) ?? "null"}`);
  }
  write("]");
}
