import { checkKinds, isCheckType, isProbedType } from "@statusmesh/shared/checks";
import { AppError, type ErrorCode } from "@statusmesh/shared/errors";
import type { Faults } from "@statusmesh/shared/faults";
import { isId, normaliseId } from "@statusmesh/shared/ids";
import { isObject, type Json } from "@statusmesh/shared/json";
import { pointerSegment } from "@statusmesh/shared/secrets";
import { suggestion } from "@statusmesh/shared/text";
import { mapInTurns } from "../../platform/process/turns.ts";
import { durationIn, unitOf } from "@statusmesh/shared/time";
import { defaultFields, perSection, type Section, sections } from "@statusmesh/shared/declared/files";

/*
 * The document of a project as it is sent, taken apart: objects with their defaults filled in, texts unescaped and
 * durations as numbers. References stay keys.
 */

/** An object of the document. */
export interface Declared {
  readonly key: string;
  /** Pointer into the request. */
  readonly pointer: string;
  /** The body of the API's request, but for references. */
  readonly fields: Json;
  /** The stored object that it takes over. */
  readonly adopt: string | null;
  readonly onRemove: "delete" | "keep" | "pause";
}

export interface Document {
  readonly objects: Readonly<Record<Section, ReadonlyMap<string, Declared>>>;
  /** New keys by old ones. */
  readonly moved: Readonly<Record<Section, ReadonlyMap<string, string>>>;
}

const keyPattern = /^[a-z0-9._/-]{1,120}$/;
const maxObjects = 20_000;
const tops = ["version", "project", "defaults", "moved", ...sections];

const add = (faults: Faults, code: ErrorCode, message: string, field: string): void =>
  faults.add(new AppError(code, message, { field }));

/** Takes a document apart. Adds its faults; the field of each points into the request. */
export async function readDocument(document: Json, project: string, faults: Faults): Promise<Document> {
  const at = "/document";
  for (const name of Object.keys(document))
    if (!tops.includes(name) && !name.startsWith("x-"))
      add(faults, "UNKNOWN_FIELD", `There is no field "${name}" here.${suggestion(name, tops)}`, `${at}/${name}`);
  if (document["version"] !== 1) add(faults, "INVALID_BODY", "version must be 1.", `${at}/version`);
  const named = document["project"] ?? project;
  if (named !== project)
    add(
      faults,
      "INVALID_BODY",
      `The document is of another project than ${project}: it says ${show(named)}.`,
      `${at}/project`,
    );
  const count = sections.reduce((sum, section) => sum + Object.keys(Object(document[section])).length, 0);
  if (count > maxObjects)
    throw new AppError("BULK_TOO_LARGE", `One request has at most ${maxObjects} objects; this one has ${count}.`, {
      field: at,
    });
  const defaults = defaultsOf(document["defaults"], faults);
  const objects = {} as Record<Section, Map<string, Declared>>;
  for (const section of sections) objects[section] = await readSection(section, document[section], defaults, faults);
  return { objects, moved: movedOf(document["moved"], objects, faults) };
}

const show = (value: unknown): string => (JSON.stringify(value) ?? "nothing").slice(0, 100);

/** Fields of monitors that every one has unless it says otherwise. */
function defaultsOf(value: unknown, faults: Faults): Json {
  if (value === undefined || value === null) return {};
  if (!isObject(value) || (value["check"] !== undefined && !isObject(value["check"]))) {
    add(faults, "INVALID_BODY", "defaults and its check must be objects.", "/document/defaults");
    return {};
  }
  for (const name of Object.keys(value))
    if (!defaultFields.includes(name))
      add(
        faults,
        "UNKNOWN_FIELD",
        `Monitors have no default "${name}".${suggestion(name, defaultFields)}`,
        `/document/defaults/${name}`,
      );
  return value;
}

async function readSection(section: Section, value: unknown, defaults: Json, faults: Faults) {
  const read = new Map<string, Declared>();
  if (value === undefined || value === null) return read;
  const base = `/document/${section}`;
  if (!isObject(value)) {
    add(faults, "INVALID_BODY", `${section} must be a map from key to object.`, base);
    return read;
  }
  await mapInTurns(Object.entries(value), ([key, object]) => {
    if (faults.isFull) return;
    const pointer = `${base}/${pointerSegment(key)}`;
    if (!keyPattern.test(key))
      add(faults, "INVALID_BODY", "A key has 1 to 120 of a-z, 0-9, dot, hyphen, underscore and slash.", pointer);
    else if (!isObject(object)) add(faults, "INVALID_BODY", `${key} must be an object.`, pointer);
    else read.set(key, readObject({ section, key, pointer, object, defaults }, faults));
  });
  return read;
}

function readObject(
  written: { section: Section; key: string; pointer: string; object: Json; defaults: Json },
  faults: Faults,
): Declared {
  const { section, key, pointer, object, defaults } = written;
  const whole = section === "monitors" ? withDefaults(object, defaults) : object;
  const { adopt = null, on_remove: onRemove = "delete", ...rest } = whole;
  const id = typeof adopt === "string" ? normaliseId(adopt) : null;
  const adopted = id !== null && isId(id) ? id : null;
  if (adopt !== null && adopted === null)
    add(faults, "INVALID_ID", "adopt must be the id of a stored object.", `${pointer}/adopt`);
  const ways = section === "maintenance" ? ["delete", "keep"] : ["delete", "keep", "pause"];
  if (!ways.includes(onRemove as string))
    add(faults, "INVALID_BODY", `on_remove must be one of ${ways.join(", ")}.`, `${pointer}/on_remove`);
  // Null is the API's default, of fields and of those of the check.
  const fields = withoutNulls(unescaped(rest, pointer, faults) as Json);
  if (isObject(fields["check"])) fields["check"] = withoutNulls(fields["check"]);
  if (section === "monitors") {
    readDurations(fields, pointer, faults);
    if (isObject(fields["check"])) readDurations(fields["check"], `${pointer}/check`, faults);
    if (Array.isArray(fields["escalation"]))
      for (const [at, level] of fields["escalation"].entries())
        if (isObject(level)) readDurations(level, `${pointer}/escalation/${at}`, faults);
  }
  return {
    key,
    pointer,
    fields,
    adopt: adopted,
    onRemove: ways.includes(onRemove as string) ? (onRemove as Declared["onRemove"]) : "delete",
  };
}

const checkFields = (type: unknown): ReadonlySet<string> =>
  new Set(isCheckType(type) ? Object.keys(checkKinds[type].schema.properties) : []);

const withoutNulls = (value: Json): Json => Object.fromEntries(Object.entries(value).filter(([, it]) => it !== null));

/** The object over the defaults; of those of `check` the kind takes what it has. */
function withDefaults(object: Json, defaults: Json): Json {
  const { check: checkDefaults, ...top } = defaults;
  const { check } = object;
  const merged = { ...top, ...object };
  if (isObject(check) && isObject(checkDefaults)) {
    const has = checkFields(check["type"]);
    merged["check"] = {
      ...Object.fromEntries(Object.entries(checkDefaults).filter(([name]) => has.has(name))),
      ...check,
    };
  }
  // What no agent probes takes no settings of probes.
  if (isObject(check) && isCheckType(check["type"]) && !isProbedType(check["type"]))
    for (const name of ["regions", "region_policy", "interval"]) if (!(name in object)) delete merged[name];
  return merged;
}

/** Unescapes `$${` in every text; a variable is for the client, so that one that is left is a fault. */
function unescaped(value: unknown, pointer: string, faults: Faults): unknown {
  if (typeof value === "string") {
    if (!value.includes("${")) return value;
    return value.replaceAll(/\$\$\{|\$\{[^}]*\}/g, (found) => {
      if (found === "$${") return "${";
      add(
        faults,
        "UNRESOLVED_VARIABLE",
        `${found.slice(0, 100)} has no value: the client fills in variables. Write $\${ for the text itself.`,
        pointer,
      );
      return found;
    });
  }
  if (Array.isArray(value)) return value.map((item, at) => unescaped(item, `${pointer}/${at}`, faults));
  if (!isObject(value)) return value;
  const copy: Json = {};
  for (const [name, item] of Object.entries(value))
    copy[name] = unescaped(item, `${pointer}/${pointerSegment(name)}`, faults);
  return copy;
}

function readDurations(fields: Json, pointer: string, faults: Faults): void {
  for (const [name, value] of Object.entries(fields)) {
    const unit = typeof value === "string" ? unitOf(name) : null;
    if (unit === null) continue;
    const number = durationIn(unit, value as string);
    if (number !== null) fields[name] = number;
    else
      add(
        faults,
        "INVALID_BODY",
        `${name} is a number of ${unit}, or a duration like 30s, 5m or 1d that is a whole number of them.`,
        `${pointer}/${name}`,
      );
  }
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
