import { isCheckType, isProbedType } from "@statusmesh/shared/checks";
import { AppError, type ErrorCode } from "@statusmesh/shared/errors";
import { Faults } from "@statusmesh/shared/schema/faults";
import { isId, normaliseId } from "@statusmesh/shared/ids";
import { isObject, type Json } from "@statusmesh/shared/json";
import { pointerSegment } from "@statusmesh/shared/secrets";
import { suggestion } from "@statusmesh/shared/text";
import { type IsGone, mapInTurns, takeTurns } from "../../../platform/process/turns.ts";
import { namesIn, valueIn, wholeMap } from "../../../platform/http/body/json-maps.ts";
import { perSection, type Section, sections } from "@statusmesh/shared/declared/files";
import { type Defaults, readDefaults } from "./defaults.ts";
import { Facts } from "./facts.ts";
import type { FoundAt } from "../../../platform/db/managed-queries.ts";
import { readVariables, withInherited } from "./variables.ts";
import { readDurations, readLevels, sizeOf, sizeRule, unescaped } from "./texts.ts";

/*
 * The document of a project as it is sent. Its objects are read one after the other, with their defaults filled in,
 * texts unescaped and durations as numbers, and let go: once for their faults and for what a plan has to know before it
 * judges them, and again when they are judged. 20,000 objects with all that is made of them would take 140 MB.
 * References stay keys.
 */

/** What is kept of an object of the document. */
export class Entry {
  readonly section: Section;
  readonly key: string;
  /** The stored object that it takes over. */
  readonly adopt: string | null;
  readonly onRemove: "delete" | "keep" | "pause";
  /** Pointers of its fields with variables, those of the defaults included. */
  readonly variables: readonly string[];
  /** Where discovery found it; null for files. */
  readonly source: FoundAt | null;

  constructor({ section, key, adopt, onRemove, variables, source }: Omit<Entry, "pointer">) {
    this.section = section;
    this.key = key;
    this.adopt = adopt;
    this.onRemove = onRemove;
    this.variables = variables;
    this.source = source;
  }

  /** Pointer into the request. */
  get pointer(): string {
    return `/document/${this.section}/${pointerSegment(this.key)}`;
  }
}

/** An object of the document. */
export interface Declared extends Pick<Entry, "key" | "pointer"> {
  /** The body of the API's request, but for references. */
  readonly fields: Json;
}

export interface Document {
  readonly objects: Readonly<Record<Section, ReadonlyMap<string, Entry>>>;
  /** New keys by old ones. */
  readonly moved: Readonly<Record<Section, ReadonlyMap<string, string>>>;
  /** True where the defaults have a fault that its monitors would have. */
  readonly isRefused: boolean;
  readonly facts: Facts;
  /** Reads an object. */
  declared(entry: Entry): Declared;
}

const keyPattern = /^[a-z0-9._/-]{1,120}$/;
const maxObjects = 20_000;
/** Characters of all monitors with their defaults: as much, or as many times the characters that are written. */
const maxMerged = { characters: 32 * 1_048_576, times: 10 };
const tops = ["version", "project", "defaults", "moved", ...sections];

const add = (faults: Faults, code: ErrorCode, message: string, field: string): void =>
  faults.add(new AppError(code, message, { field }));

/** Takes a document apart. Adds its faults; the field of each points into the request. */
export async function readDocument(
  document: Json,
  read: { project: string; faults: Faults; isGone: IsGone | undefined; isSourced: boolean },
): Promise<Document> {
  const { project, faults, isGone, isSourced } = read;
  const at = "/document";
  for (const name of Object.keys(document)) {
    if (faults.isFull) break;
    if (!tops.includes(name) && !name.startsWith("x-"))
      add(faults, "UNKNOWN_FIELD", `There is no field "${name}" here.${suggestion(name, tops)}`, `${at}/${name}`);
  }
  if (document["version"] !== 1) add(faults, "INVALID_BODY", "version must be 1.", `${at}/version`);
  const named = document["project"] ?? project;
  if (named !== project)
    add(
      faults,
      "INVALID_BODY",
      `The document is of another project than ${project}: it says ${show(named)}.`,
      `${at}/project`,
    );
  const count = sections.reduce((sum, section) => sum + namesIn(Object(document[section]) as object).length, 0);
  if (count > maxObjects)
    throw new AppError("BULK_TOO_LARGE", `One request has at most ${maxObjects} objects; this one has ${count}.`, {
      field: at,
    });
  // 100,000 tags take 10 ms at each of these steps.
  const turns = await takeTurns(isGone);
  const written = wholeMap(document["defaults"]);
  await turns.next();
  const defaults = readDefaults(written, faults);
  await turns.next();
  const facts = new Facts();
  const objects = {} as Record<Section, Map<string, Entry>>;
  for (const section of sections)
    objects[section] = await readSection(section, document[section], { defaults, faults, facts, isGone, isSourced });
  return {
    objects,
    moved: movedOf(wholeMap(document["moved"]), objects, faults),
    isRefused: defaults.isRefused(),
    facts,
    declared({ section, key, pointer }) {
      const object = valueIn(document[section] as Json, key) as Json;
      const { fields } = readObject({ section, pointer, object, defaults, size: null, isSourced }, new Faults());
      return { key, pointer, fields };
    },
  };
}

const show = (value: unknown): string => (JSON.stringify(value) ?? "nothing").slice(0, 100);

async function readSection(
  section: Section,
  value: unknown,
  read: { defaults: Defaults; faults: Faults; facts: Facts; isGone: IsGone | undefined; isSourced: boolean },
): Promise<Map<string, Entry>> {
  const { defaults, faults, facts, isGone, isSourced } = read;
  const entries = new Map<string, Entry>();
  if (value === undefined || value === null) return entries;
  const base = `/document/${section}`;
  if (!isObject(value)) {
    add(faults, "INVALID_BODY", `${section} must be a map from key to object.`, base);
    return entries;
  }
  const size: Size = { written: 0, merged: 0 };
  const readOne = (key: string): void => {
    if (faults.isFull) return;
    const pointer = `${base}/${pointerSegment(key)}`;
    if (!keyPattern.test(key)) {
      add(faults, "INVALID_BODY", "A key has 1 to 120 of a-z, 0-9, dot, hyphen, underscore and slash.", pointer);
      return;
    }
    const object = valueIn(value, key);
    if (!isObject(object)) {
      add(faults, "INVALID_BODY", `${key} must be an object.`, pointer);
      return;
    }
    facts.count(section, object);
    faults.check(() => {
      sizeRule(object, pointer);
      const { fields, ...entry } = readObject({ section, pointer, object, defaults, size, isSourced }, faults);
      entries.set(key, new Entry({ section, key, ...entry }));
      facts.add(section, key, fields);
    });
  };
  await mapInTurns(namesIn(value), readOne, isGone);
  if (size.merged > Math.max(maxMerged.characters, maxMerged.times * size.written))
    throw new AppError(
      "PAYLOAD_TOO_LARGE",
      `With their defaults the monitors have ${Math.ceil(size.merged / 1_048_576)} MiB; at most ` +
        `${maxMerged.characters / 1_048_576} MiB, or ${maxMerged.times} times what is written, are allowed. Write ` +
        "large values where they are needed.",
      { field: "/document/defaults" },
    );
  return entries;
}

/** Characters of monitors, as they are written and with their defaults. */
interface Size {
  written: number;
  merged: number;
}

function readObject(
  written: {
    section: Section;
    pointer: string;
    object: Json;
    defaults: Defaults;
    size: Size | null;
    isSourced: boolean;
  },
  faults: Faults,
): Pick<Declared, "fields"> & Pick<Entry, "adopt" | "onRemove" | "variables" | "source"> {
  const { section, pointer, object, defaults, size, isSourced } = written;
  const { variables: ownVariables, ...own } = unescaped(object, pointer, faults) as Json;
  const variables = readVariables(ownVariables, pointer, faults);
  if (section === "monitors") {
    readDurations(own, pointer, faults);
    if (isObject(own["check"])) readDurations(own["check"], `${pointer}/check`, faults);
    readLevels(own, pointer, faults);
  }
  const whole = section === "monitors" ? withDefaults(own, defaults, size) : own;
  const { adopt = null, on_remove: onRemove = "delete", ...others } = whole;
  // Of files it is an unknown field.
  const source = isSourced && section === "monitors" ? foundAt(others["source"], pointer, faults) : null;
  const { source: _, ...sourced } = others;
  const rest = source === null ? others : sourced;
  const id = typeof adopt === "string" ? normaliseId(adopt) : null;
  const adopted = id !== null && isId(id) ? id : null;
  if (adopt !== null && adopted === null)
    add(faults, "INVALID_ID", "adopt must be the id of a stored object.", `${pointer}/adopt`);
  const ways = section === "maintenance" ? ["delete", "keep"] : ["delete", "keep", "pause"];
  if (!ways.includes(onRemove as string))
    add(faults, "INVALID_BODY", `on_remove must be one of ${ways.join(", ")}.`, `${pointer}/on_remove`);
  // Null is the API's default, of fields and of those of the check.
  const fields = withoutNulls(rest);
  if (isObject(fields["check"])) fields["check"] = withoutNulls(fields["check"]);
  return {
    fields,
    adopt: adopted,
    variables: section === "monitors" ? withInherited(variables, defaults.variables, own) : variables,
    source,
    onRemove: ways.includes(onRemove as string) ? (onRemove as Entry["onRemove"]) : "delete",
  };
}

/** Where discovery found an object. */
function foundAt(value: unknown, pointer: string, faults: Faults): FoundAt | null {
  const { object, scope } = isObject(value) ? value : {};
  const isLine = (text: unknown): text is string =>
    typeof text === "string" && text !== "" && text.length <= 300 && !/\p{Cc}/u.test(text);
  if (isLine(object) && isLine(scope)) return { object, scope };
  add(faults, "INVALID_BODY", "source must be {object, scope} of 1 to 300 characters each.", `${pointer}/source`);
  return null;
}

const withoutNulls = (value: Json): Json => Object.fromEntries(Object.entries(value).filter(([, it]) => it !== null));

/** The object over the defaults, whose values it shares; of those of `check` the kind takes what it has. */
function withDefaults(object: Json, defaults: Defaults, size: Size | null): Json {
  const { check } = object;
  const merged = defaults.fields.under(object);
  const ofCheck = isObject(check) && isCheckType(check["type"]) ? defaults.checkOf(check["type"]) : null;
  if (size !== null) {
    const own = sizeOf(object);
    size.written += own;
    size.merged += own + defaults.fields.sizeUnder(object) + (ofCheck?.sizeUnder(check as Json) ?? 0);
  }
  if (!isObject(check) || !isCheckType(check["type"])) return merged;
  merged["check"] = ofCheck!.under(check);
  // What no agent probes takes no settings of probes.
  if (!isProbedType(check["type"]))
    for (const name of ["regions", "region_policy", "interval"]) if (!(name in object)) delete merged[name];
  return merged;
}

function movedOf(value: unknown, objects: Document["objects"], faults: Faults): Document["moved"] {
  const moved = perSection(() => new Map<string, string>());
  const wrong = (message: string, pointer: string) => add(faults, "INVALID_BODY", message, pointer);
  for (const [section, keys] of Object.entries(isObject(value) ? value : {})) {
    const base = `/document/moved/${pointerSegment(section)}`;
    if (!(sections as readonly string[]).includes(section) || !isObject(keys)) {
      wrong(`moved has maps from old to new keys, by ${sections.join(", ")}.`, base);
      continue;
    }
    const targets = new Set<string>();
    for (const [from, to] of Object.entries(keys)) {
      if (faults.isFull) return moved;
      const pointer = `${base}/${pointerSegment(from)}`;
      if (typeof to !== "string" || !objects[section as Section].has(to))
        wrong(`${from} is to move to ${show(to)}, which the document does not have.`, pointer);
      else if (objects[section as Section].has(from))
        wrong(`${from} is to move to ${to}, but the document still has it.`, pointer);
      else if (targets.size === targets.add(to).size) wrong(`Two objects are to move to ${to}.`, pointer);
      else moved[section as Section].set(from, to);
    }
  }
  if (value !== undefined && value !== null && !isObject(value)) wrong("moved must be an object.", "/document/moved");
  return moved;
}
