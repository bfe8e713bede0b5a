import type { TSchema } from "typebox";
import { type CheckSpec, checkKinds, type CheckType, checkTypes, isCheckType, kindOf } from "../checks/index.ts";
import { Faults, below } from "../schema/faults.ts";
import { isId, normaliseId } from "../ids.ts";
import { isObject, type Json } from "../json.ts";
import type { SchemaNode } from "../schema/schema-node.ts";
import { fieldOf, pointerSegment } from "../secrets.ts";
import { suggestion } from "../text.ts";
import { validate } from "../schema/validate.ts";
import { durationIn, unitOf } from "../time.ts";
import { cycleMessage, inCycles } from "./cycles.ts";
import { defaultFields, type Section, sections } from "./files.ts";

/** What is wrong in a document; the pointer leads into it. */
export interface DocumentFault {
  readonly pointer: string;
  readonly message: string;
  /** True where the key is wrong and not its value. */
  readonly ofKey?: boolean;
}

/** The bodies of the API's requests that make the objects; that of a monitor without its check. */
export type Bodies = Readonly<Record<Section | "components", TSchema>>;

const maxFaults = 100;
const tops = ["version", "project", "defaults", "moved", ...sections];
const keyPattern = /^[a-z0-9._/-]{1,120}$/;

/**
 * Everything that can be said about a document without a server: its form, keys, references, durations, the checks by
 * the rules of their kinds, and with `bodies` the fields of every object, in the words of the API. At most 100 faults.
 */
export function checkDocument(document: Json, bodies: Bodies | null = null): DocumentFault[] {
  const faults: DocumentFault[] = [];
  const add = (pointer: string, message: string, ofKey = false): void => {
    if (faults.length < maxFaults) faults.push({ pointer, message, ofKey });
  };
  for (const name of Object.keys(document))
    if (!tops.includes(name))
      add(`/${pointerSegment(name)}`, `There is no field "${name}" here.${suggestion(name, tops)}`, true);
  if (document["version"] !== 1)
    add("/version", document["version"] === undefined ? "version: 1 is missing." : "version must be 1.");
  const { project } = document;
  if (project === undefined) add("/project", "project is missing: the name of what these files declare.");
  else if (typeof project !== "string" || !/^[a-z0-9-]{1,40}$/.test(project))
    add("/project", "A project has 1 to 40 of a-z, 0-9 and hyphens.");
  const { defaults = null, moved = null } = document;
  if (defaults !== null) checkDefaults(defaults, { document, bodies, add });
  for (const section of sections)
    for (const [object, pointer] of objectsOf(document, section, add))
      checkObject({ section, object, pointer, document, bodies, add });
  checkMoved(moved, document, add);
  checkDependencies(document, add);
  return faults;
}

type Add = (pointer: string, message: string, ofKey?: boolean) => void;

function objectsOf(document: Json, section: Section, add: Add): [object: Json, pointer: string][] {
  const value = document[section] ?? {};
  if (!isObject(value)) {
    add(`/${section}`, `${section} must be a map from key to object.`);
    return [];
  }
  return Object.entries(value).flatMap(([key, object]): [Json, string][] => {
    const pointer = `/${section}/${pointerSegment(key)}`;
    if (!keyPattern.test(key)) add(pointer, "A key has 1 to 120 of a-z, 0-9, dot, hyphen, underscore and slash.", true);
    else if (!isObject(object)) add(pointer, `${key} must be a map.`);
    else return [[object, pointer]];
    return [];
  });
}

function checkDefaults(defaults: unknown, around: Pick<Place, "document" | "bodies" | "add">): void {
  const { bodies, add } = around;
  if (!isObject(defaults) || (defaults["check"] != null && !isObject(defaults["check"])))
    return add("/defaults", "defaults and its check must be maps.");
  const known = Object.entries(defaults).filter(([name]) => {
    if (defaultFields.includes(name)) return true;
    const message = `Monitors have no default "${name}".${suggestion(name, defaultFields)}`;
    add(`/defaults/${pointerSegment(name)}`, message, true);
    return false;
  });
  const object = Object.fromEntries(known);
  const place = { ...around, section: "monitors", object, pointer: "/defaults" } as const;
  checkReferences(place);
  const fields = monitorDurations(object, place.pointer, add);
  if (bodies === null) return;
  const monitors = { ...bodies.monitors, required: [] };
  checkBody({ ...place, object: fields }, { ...bodies, monitors });
}

interface Place {
  section: Section;
  object: Json;
  pointer: string;
  document: Json;
  bodies: Bodies | null;
  add: Add;
}

function checkObject(place: Place): void {
  const { section, object, pointer, document, bodies, add } = place;
  const { adopt = null, on_remove: onRemove = null } = object;
  if (adopt !== null && !(typeof adopt === "string" && isId(normaliseId(adopt))))
    add(`${pointer}/adopt`, "adopt must be the id of a stored object.");
  const ways = section === "maintenance" ? ["delete", "keep"] : ["delete", "keep", "pause"];
  if (onRemove !== null && !ways.includes(onRemove as string))
    add(`${pointer}/on_remove`, `on_remove must be one of ${ways.join(", ")}.`);
  checkReferences(place);
  const fields = section === "monitors" ? monitorDurations(object, pointer, add) : object;
  if (bodies !== null) checkBody({ ...place, object: fields }, bodies);
  if (section === "monitors") checkCheck(object["check"], document["defaults"], pointer, add);
}

/** Ids in place of keys, for the schemas of requests. */
const standIn = (at: number): string => `00000000-0000-4000-8000-${at.toString(16).padStart(12, "0")}`;

/** The fields of an object by the schema of the request that makes it. */
function checkBody({ section, object, pointer, add }: Place, bodies: Bodies): void {
  const fields = unescaped(withoutNulls(object)) as Json;
  for (const name of ["adopt", "on_remove", "check"]) delete fields[name];
  const ofBody = (schema: TSchema, body: Json, at: string): void => {
    const faults = new Faults();
    faults.check(() => validate(schema, structuredClone(body), at));
    for (const { field, message, code } of faults.list) add(field ?? at, message, code === "UNKNOWN_FIELD");
  };
  for (const { field, as, id } of references[section]) {
    const list = listOf(fields[field]);
    if (section === "status_pages")
      for (const [at, item] of list.entries())
        if (isObject(item)) {
          const here = `${pointer}/${field}/${at}`;
          ofBody(bodies.components, withIdOf(item, as, id, at), here);
          if (item["manual"] === true && item["public_name"] == null)
            add(`${here}/public_name`, "A component without a monitor needs a public_name.");
        }
    if (section === "monitors" && field in fields)
      fields[field] = list.map((item, at) => (as === null ? idIn(item, id, at) : withIdOf(item, as, id, at)));
  }
  if (section === "monitors" && "escalation" in fields)
    fields["escalation"] = listOf(fields["escalation"]).map((level) => {
      if (!isObject(level) || !("channels" in level)) return level;
      const { channels, ...more } = level;
      return { ...more, channel_ids: listOf(channels).map((_, at) => standIn(at)) };
    });
  if (section === "maintenance") {
    const { monitors, tags, ...body } = fields;
    for (const [at, tag] of listOf(tags).entries())
      if (typeof tag !== "string") add(`${pointer}/tags/${at}`, "A tag is a text.");
    const named = listOf(monitors).map((_, at) => standIn(at));
    ofBody(bodies[section], { ...body, component_ids: [...listOf(body["component_ids"]), ...named] }, pointer);
  } else if (section === "status_pages") {
    const { components: _, custom_domain: domain = "", ...body } = fields;
    if (typeof domain !== "string") add(`${pointer}/custom_domain`, "custom_domain must be a host name.");
    ofBody(bodies[section], body, pointer);
  } else ofBody(bodies[section], fields, pointer);
}

/** Members that the check of a group lists. */
const membersOf = (check: unknown): unknown[] => (isObject(check) ? listOf(check["members"]) : []);

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

const idIn = (item: unknown, id: string, at: number): unknown =>
  isObject(item) && id in item ? item[id] : standIn(at);

/** A reference with an id in place of the key: a text, or a map with the key as its field `as`. */
function withIdOf(item: unknown, as: string | null, id: string, at: number): Json {
  if (!isObject(item) || as === null) return { [id]: standIn(at) };
  if (!(as in item) && (id in item || "manual" in item)) return item;
  const { [as]: _, ...more } = item;
  return { ...more, [id]: standIn(at) };
}

const withoutNulls = (value: Json): Json => Object.fromEntries(Object.entries(value).filter(([, it]) => it !== null));

interface Reference {
  field: string;
  to: Section;
  /** The field with the key, where an item may be a map. */
  as: string | null;
  /** The field with an id in the API; empty where none is taken. */
  id: string;
}

/** The fields of each kind that name other objects by key: in a list, as texts or as maps. */
const references: Readonly<Record<Section, readonly Reference[]>> = {
  channels: [],
  monitors: [
    { field: "alerts", to: "channels", as: "channel", id: "channel_id" },
    { field: "depends_on", to: "monitors", as: null, id: "target_id" },
  ],
  status_pages: [{ field: "components", to: "monitors", as: "monitor", id: "target_id" }],
  maintenance: [{ field: "monitors", to: "monitors", as: null, id: "" }],
};

function checkReferences({ section, object, pointer, document, add }: Place): void {
  const known = (to: Section, key: unknown, at: string): void => {
    const there = document[to];
    if (typeof key !== "string") return add(at, `The document has no key this value in ${to}.`);
    if (isObject(there) && Object.hasOwn(there, key)) return;
    const near = suggestion(key, isObject(there) ? Object.keys(there) : []);
    add(at, `The document has no key "${key.slice(0, 120)}" in ${to}.${near}`);
  };
  const lists = section === "maintenance" ? ["component_ids", "tags"] : section === "monitors" ? ["escalation"] : [];
  for (const field of [...lists, ...references[section].map((reference) => reference.field)])
    if (object[field] != null && !Array.isArray(object[field])) add(`${pointer}/${field}`, `${field} must be a list.`);
  for (const { field, to, as, id } of references[section])
    for (const [at, item] of listOf(object[field]).entries()) {
      const here = `${pointer}/${field}/${at}`;
      if (isObject(item) && (as !== null || id in item)) {
        if (as !== null && (as in item || !(id in item || "manual" in item))) known(to, item[as], `${here}/${as}`);
      } else if (section === "status_pages")
        add(here, "A component is an object that names its monitor, or has manual.");
      else known(to, item, here);
    }
  if (section === "monitors")
    for (const [at, member] of membersOf(object["check"]).entries())
      if (isObject(member) && "monitor" in member)
        known("monitors", member["monitor"], `${pointer}/check/members/${at}/monitor`);
  if (section === "monitors")
    for (const [at, level] of listOf(object["escalation"]).entries())
      for (const [index, item] of listOf(isObject(level) ? level["channels"] : null).entries()) {
        const here = `${pointer}/escalation/${at}/channels/${index}`;
        if (!isObject(item)) known("channels", item, here);
        else if (!("channel_id" in item)) known("channels", item["channel"], `${here}/channel`);
      }
}

/** {@link checkDurations} of a monitor and of the levels of its ladder. */
function monitorDurations(object: Json, pointer: string, add: Add): Json {
  const fields = checkDurations(object, pointer, add);
  if (Array.isArray(fields["escalation"]))
    fields["escalation"] = fields["escalation"].map((level, at) => {
      if (!isObject(level)) return level;
      const read = checkDurations(level, `${pointer}/escalation/${at}`, add);
      // One that is no duration is there all the same.
      return "after_minutes" in level ? { after_minutes: 1, ...read } : read;
    });
  return fields;
}

/** A copy with durations as numbers. */
function checkDurations(fields: Json, pointer: string, add: Add): Json {
  const copy = { ...fields };
  for (const [name, value] of Object.entries(fields)) {
    const unit = typeof value === "string" ? unitOf(name) : null;
    if (unit === null) continue;
    const number = durationIn(unit, value as string);
    if (number !== null) copy[name] = number;
    else {
      // Said here; the schema would say it again in other words.
      delete copy[name];
      const example = unit === "d" ? "30d" : "30s, 5m or 1d";
      add(
        `${pointer}/${pointerSegment(name)}`,
        `${name} is a number of ${unit}, or a duration like ${example} that is a whole number of them.`,
      );
    }
  }
  return copy;
}

function checkCheck(check: unknown, defaults: unknown, above: string, add: Add): void {
  const pointer = `${above}/check`;
  if (!isObject(check)) {
    add(check === undefined ? above : pointer, `check ${check === undefined ? "is missing" : "must be a map"}.`, true);
    return;
  }
  const { type } = check;
  if (!isCheckType(type)) {
    const near = typeof type === "string" ? suggestion(type, checkTypes) : "";
    add(type === undefined ? pointer : `${pointer}/type`, `type must be one of ${checkTypes.join(", ")}.${near}`);
    return;
  }
  const fields = wholeCheck(type, check, defaults, pointer, add);
  if (type === "group" && Array.isArray(fields["members"]))
    fields["members"] = fields["members"].map((member: unknown, at) =>
      isObject(member) && "monitor" in member ? withIdOf(member, "monitor", "target_id", at) : member,
    );
  const faults = new Faults();
  faults.check(() => {
    const spec = validate(kindOf({ type }).schema, fields, pointer) as CheckSpec;
    below(pointer, () => kindOf(spec).rules(spec));
  });
  for (const { field, message, code } of faults.list) add(field ?? pointer, message, code === "UNKNOWN_FIELD");
}

/** The check over its defaults, with durations as numbers. */
function wholeCheck(type: CheckType, check: Json, defaults: unknown, pointer: string, add: Add): Json {
  const base = isObject(defaults) && isObject(defaults["check"]) ? defaults["check"] : {};
  const has = Object.keys(checkKinds[type].schema.properties);
  const whole = { ...Object.fromEntries(Object.entries(base).filter(([name]) => has.includes(name))), ...check };
  const fields = Object.entries(unescaped(whole) as Json).filter(([, value]) => value !== null);
  return checkDurations(structuredClone(Object.fromEntries(fields)), pointer, add);
}

/** The check of a monitor of a document without faults, as the API takes it. */
export function checkOf(document: Json, key: string): Json {
  const { check } = (document["monitors"] as Record<string, { check: Json & { type: CheckType } }>)[key]!;
  return wholeCheck(check.type, check, document["defaults"], "", () => {});
}

/** Pointers of the secrets that a document without faults has: those of checks, addresses of heartbeats, channels. */
export function secretPointers(document: Json, bodies: Bodies): Set<string> {
  const found = new Set<string>();
  for (const [key, monitor] of Object.entries(Object(document["monitors"]) as Record<string, Json>)) {
    const base = `/monitors/${pointerSegment(key)}`;
    const fields = checkOf(document, key);
    const spec = validate(kindOf(fields as { type: CheckType }).schema, fields, "") as CheckSpec;
    kindOf(spec).mapSecrets(spec, (secret, pointer) => {
      const isOwn = fieldOf(pointer) in (monitor["check"] as Json);
      found.add(`${isOwn ? base : "/defaults"}/check${pointer}`);
      return secret;
    });
    for (const at of listOf(monitor["heartbeat_addresses"]).keys())
      found.add(`${base}/heartbeat_addresses/${at}/value`);
  }
  const { config } = (bodies.channels as SchemaNode).properties!;
  for (const [key, channel] of Object.entries(Object(document["channels"]) as Record<string, { config: Json }>)) {
    const kind = config!.anyOf!.find(({ properties }) => properties!["type"]!.const === channel.config["type"])!;
    for (const [name, { secret }] of Object.entries(kind.properties!))
      if (secret === true)
        for (const below of leavesOf(channel.config[name]))
          found.add(`/channels/${pointerSegment(key)}/config/${pointerSegment(name)}${below}`);
  }
  return found;
}

/** Pointers of the texts of a value: of itself, or of its items. */
const leavesOf = (value: unknown): string[] =>
  typeof value === "object" && value !== null ? Object.keys(value).map((name) => `/${pointerSegment(name)}`) : [""];

/** `$${` as the text that it stands for. */
function unescaped(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll("$${", () => "${");
  if (Array.isArray(value)) return value.map(unescaped);
  return isObject(value)
    ? Object.fromEntries(Object.entries(value).map(([key, item]) => [key, unescaped(item)]))
    : value;
}

/** No monitor depends on itself, a group on its members; over those outside of the document only the server knows. */
function checkDependencies(document: Json, add: Add): void {
  const monitors = isObject(document["monitors"]) ? Object.entries(document["monitors"]) : [];
  const parentsOf = (monitor: unknown): string[] =>
    isObject(monitor)
      ? [
          ...listOf(monitor["depends_on"]),
          ...membersOf(monitor["check"]).map((member) => (isObject(member) ? member["monitor"] : null)),
        ].filter((key) => typeof key === "string")
      : [];
  for (const key of inCycles(new Map(monitors.map(([key, monitor]) => [key, parentsOf(monitor)]))))
    add(`/monitors/${pointerSegment(key)}/depends_on`, cycleMessage);
}

function checkMoved(moved: unknown, document: Json, add: Add): void {
  if (moved === null) return;
  if (!isObject(moved)) return add("/moved", "moved must be a map.");
  for (const [section, keys] of Object.entries(moved)) {
    const base = `/moved/${pointerSegment(section)}`;
    if (!(sections as readonly string[]).includes(section) || !isObject(keys)) {
      add(base, `moved has maps from old to new keys, by ${sections.join(", ")}.`, true);
      continue;
    }
    const there = document[section];
    const has = (key: unknown): boolean => typeof key === "string" && isObject(there) && Object.hasOwn(there, key);
    for (const [from, to] of Object.entries(keys)) {
      const pointer = `${base}/${pointerSegment(from)}`;
      if (!has(to))
        add(pointer, `${from} is to move to ${String(to).slice(0, 120)}, which the document does not have.`);
      else if (has(from)) add(pointer, `${from} is to move, but the document still has it.`, true);
    }
  }
}
