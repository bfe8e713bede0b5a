import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { asObject, isObject, type Json } from "@statusmesh/shared/json";
import { line } from "@statusmesh/shared/foreign/values";

/** An object of a source that may declare monitors. */
export interface Found {
  /** `container immich-server`, `Ingress media/jellyfin` */
  readonly words: string;
  readonly name: string;
  /** What keys of its monitors are made of: unique among all objects. */
  readonly id: string;
  /** The list that it is in: `containers`, `ingresses/media`. */
  readonly scope: string;
  /** Labels of Docker, annotations of Kubernetes. */
  readonly labels: Readonly<Record<string, string>>;
  /** What sorts objects by age; of two that declare one key the older one has it. */
  readonly created: string;
  /** What templates of AutoKuma may name. */
  readonly texts: Readonly<Record<string, string>>;
  /** Its first host and path, or its address in the cluster. */
  readonly url: string | null;
  /** Annotations of its Gateway or IngressClass. */
  readonly parent?: Readonly<Record<string, string>>;
}

/** An object, and what is wrong with it or why it is ignored. */
export interface Remark {
  readonly object: string;
  readonly reason: string;
}

/** A monitor that labels declare, kept as JSON, which takes less memory than objects. */
export class Wanted {
  readonly key: string;
  readonly found: Found;
  readonly json: string;
  /** Keys of the members of a group; null for any other check. */
  readonly members: readonly string[] | null;

  constructor(key: string, found: Found, fields: Json) {
    this.key = key;
    this.found = found;
    this.json = JSON.stringify(fields);
    this.members = membersOf(fields);
  }

  get fields(): Json {
    return JSON.parse(this.json) as Json;
  }
}

/** Collects the monitors that objects declare. What is wrong is listed, and the others go on. */
export class Findings {
  readonly wanted = new Map<string, Wanted>();
  readonly wrong: Remark[] = [];
  readonly ignored: Remark[] = [];
  /** Keys of what is wrong: their monitors are not gone. */
  readonly kept = new Set<string>();
  /** Keys that have no monitor and are not wrong; groups go without them. */
  readonly absent = new Set<string>();
  readonly #ids = new Map<string, string>();
  /** Keys of each object, and its faults without a key. */
  readonly #parts = new Map<Found, Set<string>>();
  readonly #leftOut = new Set<Found>();

  refuse(found: Found, key: string | null, reason: string): void {
    this.#count(found, key ?? ` ${reason}`);
    if (!this.#leftOut.has(found)) this.wrong.push(remarkOf(found, reason));
    if (key !== null) this.#keep(found, [key]);
  }

  /** Leaves out all that an object declares, with one line in place of its others. `keys` are more of its keys. */
  leaveOut(found: Found, reason: string, keys: Iterable<string> = []): void {
    if (this.#leftOut.has(found)) return;
    this.#leftOut.add(found);
    const { object } = remarkOf(found, reason);
    const others = this.wrong.filter((one) => one.object !== object);
    this.wrong.length = 0;
    for (const one of others) this.wrong.push(one);
    this.wrong.push(remarkOf(found, reason));
    const own = [...this.wanted.values()].filter((one) => one.found === found).map(({ key }) => key);
    for (const key of own) this.wanted.delete(key);
    this.#keep(found, [...own, ...(this.#parts.get(found) ?? []), ...keys]);
  }

  /** Of an object that declares very many, some are kept: it can have declared no more before. */
  #keep(found: Found, keys: readonly string[]): void {
    const most = this.#leftOut.has(found) ? mostKept : keys.length;
    for (const key of keys.filter((one) => keyPattern.test(one)).slice(0, most)) this.kept.add(key);
  }

  #count(found: Found, part: string): void {
    const parts = this.#parts.get(found) ?? new Set();
    this.#parts.set(found, parts.add(part));
  }

  /** After all objects are read: leaves out those above the limits, and groups with members that are nowhere. */
  finish(): void {
    const bytes = new Map<Found, number>();
    for (const { found, json } of this.wanted.values())
      bytes.set(found, (bytes.get(found) ?? 0) + Buffer.byteLength(json));
    for (const [found, { size }] of this.#parts)
      if (size > mostMonitors)
        this.leaveOut(
          found,
          `it declares ${size} monitors, wrong labels included: an object has at most ${mostMonitors}`,
        );
    for (const [found, size] of bytes)
      if (size > maxObjectBytes) this.leaveOut(found, `its monitors have ${kibOf(size)} as JSON: ${sizeLimit}`);
    for (const { key, found, members } of this.wanted.values()) {
      const unknown = members?.find((one) => !this.wanted.has(one) && !this.kept.has(one) && !this.absent.has(one));
      if (unknown === undefined) continue;
      this.wanted.delete(key);
      this.refuse(found, key, `${key}: its member ${unknown.slice(0, 130)} is an unknown monitor of this project`);
    }
  }

  ignore(found: Found, reason: string): void {
    const remark = remarkOf(found, reason);
    if (!this.ignored.some((one) => one.object === remark.object && one.reason === remark.reason))
      this.ignored.push(remark);
  }

  /** The key of a name of another product; of two names that become one key the second gets a hash. */
  keyOf(id: string): string {
    const plain =
      id
        .toLowerCase()
        .replaceAll(/[^a-z0-9._/-]/g, "-")
        .slice(0, 110) || "monitor";
    const holder = this.#ids.get(plain);
    if (holder !== undefined && holder !== id)
      return `${plain}-${createHash("sha256").update(id).digest("hex").slice(0, 8)}`;
    this.#ids.set(plain, id);
    return plain;
  }

  /** Adds a monitor. An equal one under its key, of a second replica, is the same. */
  add(found: Found, key: string, fields: Json): void {
    if (this.#leftOut.has(found)) return this.#keep(found, [key]);
    this.#count(found, key);
    const fault = faultIn(key, fields);
    if (fault !== null) return this.refuse(found, key, fault);
    const other = this.wanted.get(key);
    const wanted = new Wanted(key, found, fields);
    if (other === undefined) this.wanted.set(key, wanted);
    else if (other.json !== wanted.json && !isDeepStrictEqual(other.fields, wanted.fields))
      this.wrong.push(remarkOf(found, `its key ${key} is that of ${other.found.words}, which is older`));
  }
}

/** Monitors of an object, its wrong ones and wrong labels included. */
const mostMonitors = 50;
/** Keys of an object that is left out whose monitors are not gone. */
const mostKept = 200;
/** Bytes of the labels of an object, and of what it declares as JSON. */
export const maxObjectBytes = 65_536;
export const sizeLimit = `an object has at most ${maxObjectBytes / 1024} KiB`;
export const kibOf = (bytes: number): string => `${Math.ceil(bytes / 1024)} KiB`;

const remarkOf = ({ words }: Found, reason: string): Remark => ({
  object: line(words, 300) || "?",
  reason: line(reason, 400) || "?",
});

/** Keys of the members of a group. */
function membersOf(fields: Json): string[] | null {
  const { type, members } = asObject(fields["check"]);
  return type === "group" && Array.isArray(members) ? members.map((one) => String(asObject(one)["monitor"])) : null;
}

/** Levels at which fields of a monitor have their names: check.members.0.target_id is the deepest. */
const fieldDepth = 3;

const keyPattern = /^[a-z0-9._/-]{1,120}$/;

/** Maps whose names are texts of the check. */
const textMaps = new Set(["headers", "metadata"]);

/** Fields that labels may not set: they reach objects of others, or take monitors over. */
const refusedFields = new Set([
  "adopt",
  "moved",
  "on_remove",
  "managed_by",
  "id",
  "source",
  "channel_id",
  "channel_ids",
  "target_id",
  "client_id",
  "variables",
  "status_pages",
  "maintenance",
]);

function faultIn(key: string, fields: Json): string | null {
  if (!keyPattern.test(key))
    return `the key ${key.slice(0, 130)} is not 1 to 120 of a-z, 0-9, dot, hyphen, underscore and slash`;
  if (isObject(fields["check"]) && fields["check"]["type"] === "exec")
    return "labels cannot declare exec checks: anyone who may start a container could choose a command";
  return refusedIn(fields, 0) ?? groupFault(key, asObject(fields["check"]));
}

/** A group reaches nothing but its own project. */
function groupFault(key: string, { type, members, hold_members: holds }: Json): string | null {
  if (type !== "group") return null;
  const listed = Array.isArray(members) ? (members as unknown[]) : [];
  if ((holds !== undefined && holds !== false) || listed.some((one) => Object.hasOwn(asObject(one), "tag")))
    return (
      `${key}: A group from labels takes members of its own project, by monitor, and cannot hold their ` +
      "notifications."
    );
  if (members !== undefined && !Array.isArray(members)) return `${key}: members is no list`;
  return listed.every((one) => isObject(one) && typeof one["monitor"] === "string")
    ? null
    : `${key}: each of its members is a JSON object {"monitor":"<key>"}`;
}

function refusedIn(value: unknown, depth: number): string | null {
  if (depth > 16) return "its value has more than 16 levels";
  if (typeof value === "string") return value.includes("${") ? "labels cannot name variables (${…})" : null;
  if (typeof value !== "object" || value === null) return null;
  for (const [name, one] of Object.entries(value)) {
    if (refusedFields.has(name) && depth <= fieldDepth) return `labels cannot set ${name}`;
    const fault = refusedIn(one, textMaps.has(name) ? fieldDepth + 1 : depth + 1);
    if (fault !== null) return fault;
  }
  return null;
}
