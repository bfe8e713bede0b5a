import { isCheckType, isProbedType } from "@statusmesh/shared/checks";
import { AppError, type ErrorCode } from "@statusmesh/shared/errors";
import type { Faults } from "@statusmesh/shared/faults";
import { isId, normaliseId } from "@statusmesh/shared/ids";
import { isObject, type Json } from "@statusmesh/shared/json";
import { pointerSegment } from "@statusmesh/shared/secrets";
import { suggestion } from "@statusmesh/shared/text";
import { type IsGone, mapInTurns } from "../../platform/process/turns.ts";
import { perSection, type Section, sections } from "@statusmesh/shared/declared/files";
import { type Defaults, readDefaults } from "./defaults.ts";
import { readDurations, readLevels, sizeOf, sizeRule, unescaped } from "./texts.ts";

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
  /** True where the defaults have a fault that its monitors would have. */
  readonly isRefused: boolean;
}

const keyPattern = /^[a-z0-9._/-]{1,120}$/;
const maxObjects = 20_000;
/** Components of all pages: each takes 1 KiB of memory. */
const maxComponents = 20_000;
/** Characters of all monitors with their defaults: as much, or as many times the characters that are written. */
const maxMerged = { characters: 32 * 1_048_576, times: 10 };
const tops = ["version", "project", "defaults", "moved", ...sections];

const add = (faults: Faults, code: ErrorCode, message: string, field: string): void =>
  faults.add(new AppError(code, message, { field }));

/** Takes a document apart. Adds its faults; the field of each points into the request. */
export async function readDocument(
  document: Json,
  { project, faults, isGone }: { project: string; faults: Faults; isGone: IsGone | undefined },
): Promise<Document> {
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
  const count = sections.reduce((sum, section) => sum + Object.keys(Object(document[section])).length, 0);
  if (count > maxObjects)
    throw new AppError("BULK_TOO_LARGE", `One request has at most ${maxObjects} objects; this one has ${count}.`, {
      field: at,
    });
  componentsRule(document["status_pages"]);
  const defaults = readDefaults(document["defaults"], faults);
  const objects = {} as Record<Section, Map<string, Declared>>;
  for (const section of sections)
    objects[section] = await readSection(section, document[section], { defaults, faults, isGone });
  return { objects, moved: movedOf(document["moved"], objects, faults), isRefused: defaults.isRefused() };
}

/** Throws where the pages have more components than one request may have. */
function componentsRule(pages: unknown): void {
  let count = 0;
  for (const page of Object.values(Object(pages)))
    if (isObject(page) && Array.isArray(page["components"])) count += page["components"].length;
  if (count > maxComponents)
    throw new AppError(
      "BULK_TOO_LARGE",
      `One request has at most ${maxComponents} components of status pages; this one has ${count}.`,
      { field: "/document/status_pages" },
    );
}

const show = (value: unknown): string => (JSON.stringify(value) ?? "nothing").slice(0, 100);

async function readSection(
  section: Section,
  value: unknown,
  { defaults, faults, isGone }: { defaults: Defaults; faults: Faults; isGone: IsGone | undefined },
) {
  const read = new Map<string, Declared>();
  if (value === undefined || value === null) return read;
  const base = `/document/${section}`;
  if (!isObject(value)) {
    add(faults, "INVALID_BODY", `${section} must be a map from key to object.`, base);
    return read;
  }
  const size: Size = { written: 0, merged: 0 };
  const readOne = ([key, object]: [string, unknown]): void => {
    if (faults.isFull) return;
    const pointer = `${base}/${pointerSegment(key)}`;
    if (!keyPattern.test(key))
      add(faults, "INVALID_BODY", "A key has 1 to 120 of a-z, 0-9, dot, hyphen, underscore and slash.", pointer);
    else if (!isObject(object)) add(faults, "INVALID_BODY", `${key} must be an object.`, pointer);
    else
      faults.check(() => {
        sizeRule(object, pointer);
        read.set(key, readObject({ section, key, pointer, object, defaults, size }, faults));
      });
  };
  await mapInTurns(Object.entries(value), readOne, isGone);
  if (size.merged > Math.max(maxMerged.characters, maxMerged.times * size.written))
    throw new AppError(
      "PAYLOAD_TOO_LARGE",
      `With their defaults the monitors have ${Math.ceil(size.merged / 1_048_576)} MiB; at most ` +
        `${maxMerged.characters / 1_048_576} MiB, or ${maxMerged.times} times what is written, are allowed. Write ` +
        "large values where they are needed.",
      { field: "/document/defaults" },
    );
  return read;
}

/** Characters of monitors, as they are written and with their defaults. */
interface Size {
  written: number;
  merged: number;
}

function readObject(
  written: { section: Section; key: string; pointer: string; object: Json; defaults: Defaults; size: Size },
  faults: Faults,
): Declared {
  const { section, key, pointer, object, defaults, size } = written;
  const own = unescaped(object, pointer, faults) as Json;
  if (section === "monitors") {
    readDurations(own, pointer, faults);
    if (isObject(own["check"])) readDurations(own["check"], `${pointer}/check`, faults);
    readLevels(own, pointer, faults);
  }
  const whole = section === "monitors" ? withDefaults(own, defaults, size) : own;
  const { adopt = null, on_remove: onRemove = "delete", ...rest } = whole;
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
    key,
    pointer,
    fields,
    adopt: adopted,
    onRemove: ways.includes(onRemove as string) ? (onRemove as Declared["onRemove"]) : "delete",
  };
}

const withoutNulls = (value: Json): Json => Object.fromEntries(Object.entries(value).filter(([, it]) => it !== null));

/** The object over the defaults, whose values it shares; of those of `check` the kind takes what it has. */
function withDefaults(object: Json, defaults: Defaults, size: Size): Json {
  const { check } = object;
  const merged = defaults.fields.under(object);
  const own = sizeOf(object);
  size.written += own;
  size.merged += own + defaults.fields.sizeUnder(object);
  if (!isObject(check) || !isCheckType(check["type"])) return merged;
  const ofCheck = defaults.checkOf(check["type"]);
  size.merged += ofCheck.sizeUnder(check);
  merged["check"] = ofCheck.under(check);
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
