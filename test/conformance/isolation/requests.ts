import type { Sql } from "postgres";
import type { Route } from "@statusmesh/control-plane/platform/http/route";
import { newId } from "@statusmesh/shared/ids";
import type { Answer, Client } from "../../harness/api.ts";
import { goodBodies, tcp } from "../bodies.ts";
import { nameOf } from "../declared.ts";
import type { IdPlace } from "./ids.ts";
import { type Home, make, type Thing } from "./things.ts";

/** Fixtures of each organisation: shared ones for requests that change nothing, new ones for the others. */
export class Planted {
  readonly #sql: Sql;
  readonly #kept = new Map<string, string>();
  /** Called before a fixture is created. */
  beforeMaking: (home: Home) => Promise<void> = () => Promise.resolve();
  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** The ids of `home` for these places: shared ones, or new ones for this request only. */
  async ids(places: readonly IdPlace[], home: Home, fresh: boolean): Promise<string[]> {
    const ids: string[] = [];
    // What is named beside an organisation belongs to it.
    const place = { ...home };
    for (const { thing } of places) {
      const parent = ids.at(-1) ?? "";
      const id = await (fresh ? this.#make(thing, place, parent) : this.#keep(thing, place, parent));
      if (thing === "org") place.orgId = id;
      ids.push(id);
    }
    return ids;
  }

  async #keep(thing: Thing, home: Home, parent: string): Promise<string> {
    // Each caller names the organisation in which it acts.
    if (thing === "org") return home.orgId;
    const key = `${thing} ${home.orgId} ${home.userId} ${parent}`;
    const id = this.#kept.get(key) ?? (await this.#make(thing, home, parent));
    this.#kept.set(key, id);
    return id;
  }

  async #make(thing: Thing, home: Home, parent: string): Promise<string> {
    await this.beforeMaking(home);
    return await make[thing](this.#sql, home, parent);
  }
}

let count = 0;

/** The rest of a level of a ladder, beside its channels. */
const ladder = () => ({ escalation: [{ after_minutes: 1, channel_ids: [newId()] }] });

/** A check that may name certificates. */
const secured = () => ({ ...tcp, tls: "tls" });

/** Bodies with every id of the route, where the good body of bodies.ts is another branch. */
const bodiesWithIds = (good: Record<string, unknown>): Record<string, unknown> => ({
  "POST /api/v1/snoozes": { until: new Date(Date.now() + 3_600_000), scope: { target_ids: [newId()] } },
  "PATCH /api/v1/orgs/{id}": { ...(good["PATCH /api/v1/orgs/{id}"] as object), ...ladder() },
  "POST /api/v1/targets": { ...(good["POST /api/v1/targets"] as object), ...ladder(), check: secured() },
  "POST /api/v1/targets/test": secured(),
  "PATCH /api/v1/targets/{id}": { ...(good["PATCH /api/v1/targets/{id}"] as object), ...ladder() },
  "POST /api/v1/targets/bulk": [
    { ...(good["POST /api/v1/targets/bulk"] as object[])[0], ...ladder(), check: secured() },
  ],
  "POST /api/v1/targets/bulk-action": { ids: [newId()], action: { type: "channel_add", channel_ids: [newId()] } },
});

function bodyOf(route: Route): unknown {
  const usual: Record<string, unknown> = goodBodies({ targetId: newId(), mark: `-${count++}` });
  return { ...usual, ...bodiesWithIds(usual) }[nameOf(route)];
}

/** Calls `route` with these ids at these places, in an otherwise valid request. */
export async function ask(
  client: Client,
  route: Route,
  places: readonly IdPlace[],
  ids: readonly string[],
): Promise<Answer> {
  const body = route.body === null ? undefined : bodyOf(route);
  let path = route.path;
  const query = new URLSearchParams();
  for (const [at, { place }] of places.entries()) {
    if (place.startsWith("{")) path = path.replace(place, ids[at]!);
    else if (place.startsWith("?")) query.set(place.slice(1), ids[at]!);
    else putAt(body, place, ids[at]!);
  }
  return await client.send(
    route.method,
    query.size === 0 ? path : `${path}?${query}`,
    body === undefined ? {} : { json: body },
  );
}

/** Sets a value by its JSON pointer and creates missing lists and objects. */
function putAt(root: unknown, pointer: string, value: string): void {
  const keys = pointer.slice(1).split("/");
  let node = root as Record<string, unknown>;
  for (const [at, key] of keys.slice(0, -1).entries())
    node = (node[key] ??= keys[at + 1] === "0" ? [] : {}) as Record<string, unknown>;
  node[keys.at(-1)!] = value;
}

/** A reply without the parts that vary between requests, and without the requested ids. */
export function comparable({ status, headers, text }: Answer, ids: readonly string[]): object {
  const { date: _, ...rest } = headers;
  // Pages hold the time of the reply for the clock of the browser.
  const timeless = text.replace(/ data-now="\d+"/, "");
  return { status, headers: rest, text: ids.reduce((out, id) => out.replaceAll(id, "<id>"), timeless) };
}
