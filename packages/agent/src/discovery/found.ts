import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { isObject, type Json } from "@statusmesh/shared/json";
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

/** A monitor that labels declare. */
interface Wanted {
  readonly key: string;
  readonly found: Found;
  readonly fields: Json;
}

/** Collects the monitors that objects declare. What is wrong is listed, and the others go on. */
export class Findings {
  readonly wanted = new Map<string, Wanted>();
  readonly wrong: Remark[] = [];
  readonly ignored: Remark[] = [];
  /** Keys of what is wrong: their monitors are not gone. */
  readonly kept = new Set<string>();
  readonly #ids = new Map<string, string>();

  refuse({ words }: Found, key: string | null, reason: string): void {
    this.wrong.push({ object: line(words, 300) || "?", reason: line(reason, 400) || "?" });
    if (key !== null && keyPattern.test(key)) this.kept.add(key);
  }

  ignore({ words }: Found, reason: string): void {
    const remark = { object: line(words, 300) || "?", reason: line(reason, 400) || "?" };
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
    const fault = faultIn(key, fields);
    if (fault !== null) return this.refuse(found, key, fault);
    const other = this.wanted.get(key);
    if (other === undefined) this.wanted.set(key, { key, found, fields });
    else if (!isDeepStrictEqual(other.fields, fields))
      this.refuse(found, null, `its key ${key} is that of ${other.found.words}, which is older`);
  }
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
    return "labels cannot declare exec checks: whoever starts a container would choose a command";
  return refusedIn(fields, 0);
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
