import type { TSchema } from "typebox";
import { checkKinds, type CheckType } from "@statusmesh/shared/checks";
import { AppError } from "@statusmesh/shared/errors";
import { Faults } from "@statusmesh/shared/schema/faults";
import { isObject, type Json } from "@statusmesh/shared/json";
import { pointerSegment } from "@statusmesh/shared/secrets";
import { suggestion } from "@statusmesh/shared/text";
import { refuseLength, type SchemaNode, validate } from "@statusmesh/shared/schema/validate";
import { defaultFields } from "@statusmesh/shared/declared/files";
import { TargetCreate } from "../../../monitoring/targets/schema.ts";
import { getOrMake } from "../../../platform/caches.ts";
import { readVariables } from "./variables.ts";
import { readDurations, readLevels, sizeOf, sizeRule, unescaped } from "./texts.ts";

/** Fields that objects have unless they say otherwise. The values are shared by the objects, and never changed. */
class Fields {
  /** Null is kept: it is the API's default. */
  readonly #right: Json;
  readonly #wrong = new Map<string, AppError>();
  readonly #sizes: ReadonlyMap<string, number>;
  readonly #faults: Faults;
  #isRefused = false;

  /** Unescapes and judges the fields once. `judge` gets those that are not null, and changes durations in place. */
  constructor(fields: Json, pointer: string, faults: Faults, judge: (read: Json, found: Faults) => void) {
    const found = new Faults();
    const all = unescaped(fields, pointer, found) as Json;
    const read = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null));
    judge(read, found);
    this.#right = { ...all, ...read };
    for (const { field, code, message } of found.list) {
      const name = field?.slice(pointer.length + 1).split("/", 1)[0] ?? "";
      if (!this.#wrong.has(name)) this.#wrong.set(name, new AppError(code, message, { field }));
      delete this.#right[name];
    }
    this.#sizes = new Map(Object.entries(this.#right).map(([name, value]) => [name, name.length + 4 + sizeOf(value)]));
    this.#faults = faults;
  }

  /** The object over these fields. Adds the fault of a wrong one that it would have, once. */
  under(object: Json): Json {
    for (const [name, error] of this.#wrong)
      if (!Object.hasOwn(object, name)) {
        this.#faults.add(error);
        this.#isRefused = true;
      }
    return { ...this.#right, ...object };
  }

  /** True once {@link under} added a fault. */
  get isRefused(): boolean {
    return this.#isRefused;
  }

  /** Characters that {@link under} adds to the object. */
  sizeUnder(object: Json): number {
    let size = 0;
    for (const [name, own] of this.#sizes) if (!Object.hasOwn(object, name)) size += own;
    return size;
  }
}

/** The defaults of monitors: those of all, and those of `check` that a kind has. */
export interface Defaults {
  readonly fields: Fields;
  /** Pointers of the fields with variables. */
  readonly variables: readonly string[];
  /** True once an object would have a default with a fault. */
  isRefused(): boolean;
  checkOf(type: CheckType): Fields;
}

const at = "/document/defaults";
/** Lists of references, which the schema of the API's request has with ids. */
const references = ["alerts", "escalation"] as const;

/** Reads the defaults of a document. Adds their faults. */
export function readDefaults(value: unknown, faults: Faults): Defaults {
  const before = faults.list.length;
  const { variables: marked = null, ...written } = isObject(value) ? value : {};
  const variables = readVariables(marked, at, faults);
  const { check, ...given } = defaultsIn(isObject(value) ? written : value, faults);
  const isRefused = faults.list.length > before;
  const fields = new Fields(given, at, faults, (read, found) => {
    readDurations(read, at, found);
    readLevels(read, at, found);
    const plain = Object.entries(read).filter(
      ([name]) => name !== "on_remove" && !references.some((it) => it === name),
    );
    found.check(() => validate(partialOf(TargetCreate), structuredClone(Object.fromEntries(plain)), at));
  });
  const byKind = new Map<CheckType, Fields>();
  const ofKind = (type: CheckType): Fields => {
    const { schema } = checkKinds[type];
    const has = Object.entries(isObject(check) ? check : {}).filter(
      ([name]) => name !== "type" && Object.hasOwn(schema.properties, name),
    );
    return new Fields(Object.fromEntries(has), `${at}/check`, faults, (read, found) => {
      readDurations(read, `${at}/check`, found);
      found.check(() => validate(partialOf(schema), structuredClone(read), `${at}/check`));
    });
  };
  return {
    fields,
    variables,
    isRefused: () => isRefused || [fields, ...byKind.values()].some((each) => each.isRefused),
    checkOf: (type) => getOrMake(byKind, type, () => ofKind(type)),
  };
}

function defaultsIn(value: unknown, faults: Faults): Json {
  if (value === undefined || value === null) return {};
  const wrong = (message: string, field: string, code: "INVALID_BODY" | "UNKNOWN_FIELD" = "INVALID_BODY") =>
    faults.add(new AppError(code, message, { field }));
  if (!isObject(value) || (value["check"] != null && !isObject(value["check"]))) {
    wrong("defaults and its check must be objects.", at);
    return {};
  }
  const known: Json = {};
  for (const name in value) {
    if (faults.isFull) break;
    if (defaultFields.includes(name)) {
      // Before each item of a list is read.
      if (faults.check(() => listRule(name, value[name])) === true) known[name] = value[name];
    } else
      wrong(
        `Monitors have no default "${name.slice(0, 120)}".${suggestion(name, defaultFields)}`,
        `${at}/${pointerSegment(name)}`,
        "UNKNOWN_FIELD",
      );
  }
  const isSmall = faults.check(() => {
    sizeRule(known, at);
    return true;
  });
  return isSmall === true ? known : {};
}

/** True for a value that is no list; throws for a list that is too long. */
function listRule(name: string, value: unknown): true {
  const schema = (TargetCreate.properties as Record<string, TSchema>)[name];
  if (Array.isArray(value) && schema !== undefined) refuseLength(schema, value.length, `${at}/${name}`);
  return true;
}

const partials = new WeakMap<TSchema, TSchema>();

/** The schema without required fields and without defaults. */
const partialOf = (schema: TSchema): TSchema =>
  getOrMake(partials, schema, () => {
    const fields = Object.entries((schema as SchemaNode).properties!);
    const properties = Object.fromEntries(fields.map(([name, field]) => [name, { ...field, default: undefined }]));
    return { ...schema, required: [], properties } as unknown as TSchema;
  });
