import Type, { type TObject, type TSchema } from "typebox";
import { Value } from "typebox/value";
import { isObject } from "@statusmesh/shared/json";
import { codeOrMessage } from "@statusmesh/shared/thrown";

/** A text that matches `pattern`; `expects` describes it in messages. */
export const text = (fallback: string, description: string, expects: string, pattern: string) =>
  Type.String({ default: fallback, description, expects, pattern });
/** Comes from the environment, or from a file named there, never from the configuration file. Empty: unset. */
export const secret = (description: string, expects: string, pattern: string) =>
  Type.String({ default: "", description, expects, pattern, secret: true });
/** The name of a file; empty: none. */
export const fileName = (description: string) => text("", description, "a file name", "^[^\\0]*$");
/** The origin of a server; may be empty. */
export const origin = (description: string, example: string) =>
  text(
    "",
    description,
    `an http or https origin without a path, for example ${example}`,
    "^(?:https?://[^\\s/?#@]+/?)?$",
  );
/** Origins of web pages; none without a setting. */
export const origins = (description: string) =>
  Type.Array(Type.String({ pattern: "^https?://[^\\s/?#@*]+$" }), {
    default: [],
    description,
    expects: "a list of origins like https://app.example.org, without a path",
  });
export const flag = (fallback: boolean, description: string) =>
  Type.Boolean({ default: fallback, description, expects: "true or false" });
export const whole = (fallback: number, minimum: number, maximum: number, description: string) =>
  Type.Integer({
    default: fallback,
    minimum,
    maximum,
    description,
    expects: `a whole number from ${minimum} to ${maximum}`,
  });

/**
 * Reads the settings of a nested TypeBox schema from a parsed file and the environment, and reports every error at
 * once. The keys are in config.ts. A leaf carries `default`, `description`, `expects` (the allowed values in words)
 * and, for a value that may not be in a file, `secret: true`.
 */
export interface Sources {
  /** The parsed base file and its name for messages; null without one. */
  file: { name: string; values: Record<string, unknown> } | null;
  env: Record<string, string | undefined>;
  /** Prefix of the program's variables: `SM_`. */
  prefix: string;
  /** Variables with the prefix that belong to other programs. */
  foreign: RegExp;
  /** Reads the file that a `_FILE` variable names; throws what node:fs throws. */
  readText(path: string): string;
  /** Former keys and the keys that replace them: a value has no effect and gives a warning. */
  replaced?: Readonly<Record<string, string>>;
}

interface Setting {
  readonly key: string;
  readonly path: readonly string[];
  readonly schema: TSchema & { secret?: boolean; expects?: string; default?: unknown };
  readonly variable: string;
}

type Tree = { [key: string]: unknown };

/**
 * Every value of the schema, with defaults, one line per error, and one per warning. The values are valid only without
 * errors.
 */
export function readSettings(
  schema: TObject,
  given: Sources,
): { values: unknown; problems: string[]; warnings: string[] } {
  const settings = [...leaves(schema, [], given.prefix)];
  const values: Tree = {};
  const problems: string[] = [];
  const { sources, warnings } = withoutReplaced(given);
  for (const setting of settings) put(values, setting.path, setting.schema.default);
  if (sources.file !== null) readFileValues(settings, sources.file, values, problems);
  readVariables(settings, sources, values, problems);
  return { values, problems, warnings };
}

/** The sources without former keys, and a warning for each. */
function withoutReplaced(sources: Sources): { sources: Sources; warnings: string[] } {
  const warnings: string[] = [];
  const values = structuredClone(sources.file?.values ?? {});
  const env = { ...sources.env };
  for (const [key, by] of Object.entries(sources.replaced ?? {})) {
    const path = key.split(".");
    const name = path.pop()!;
    const section = path.reduce<unknown>((tree, part) => (isObject(tree) ? tree[part] : undefined), values);
    if (isObject(section) && Object.hasOwn(section, name)) {
      delete section[name];
      warnings.push(`${key} in ${sources.file!.name} has no effect any more: ${by} replaces it`);
    }
    const variable = sources.prefix + key.replaceAll(".", "__").toUpperCase();
    if (env[variable] !== undefined) warnings.push(`${variable} has no effect any more: ${by} replaces it`);
    delete env[variable];
  }
  return { sources: { ...sources, env, file: sources.file === null ? null : { ...sources.file, values } }, warnings };
}

function* leaves(schema: TObject, path: string[], prefix: string): Generator<Setting> {
  for (const [name, child] of Object.entries(schema.properties)) {
    const here = [...path, name];
    if ("properties" in child) yield* leaves(child as TObject, here, prefix);
    else yield { key: here.join("."), path: here, schema: child, variable: prefix + here.join("__").toUpperCase() };
  }
}

function readFileValues(
  settings: readonly Setting[],
  file: NonNullable<Sources["file"]>,
  values: Tree,
  problems: string[],
): void {
  const byKey = new Map(settings.map((setting) => [setting.key, setting]));
  const groups = new Set(
    settings.flatMap(({ path }) => path.slice(0, -1).map((_, depth) => path.slice(0, depth + 1).join("."))),
  );
  const walk = (tree: Tree, path: string[]): void => {
    for (const [name, value] of Object.entries(tree)) {
      const here = [...path, name];
      const key = here.join(".");
      const setting = byKey.get(key);
      if (setting?.schema.secret === true)
        problems.push(
          `${key} in ${file.name} is a secret: set it as ${setting.variable} in the environment, or name a file that ` +
            `holds it in ${setting.variable}_FILE`,
        );
      else if (setting !== undefined) keep(setting, value, `${key} in ${file.name}`, values, problems);
      else if (!groups.has(key))
        problems.push(`${key} in ${file.name} is not a known key${didYouMean(key, [...byKey.keys(), ...groups])}`);
      else if (isTree(value)) walk(value, here);
      else problems.push(`${key} in ${file.name} is a section, not a value: write [${key}] and its keys below`);
    }
  };
  walk(file.values, []);
}

function readVariables(
  settings: readonly Setting[],
  { env, prefix, foreign, readText }: Sources,
  values: Tree,
  problems: string[],
): void {
  const known = new Map<string, { setting: Setting; fromFile: boolean }>();
  for (const setting of settings) {
    known.set(setting.variable, { setting, fromFile: false });
    if (setting.schema.secret) known.set(`${setting.variable}_FILE`, { setting, fromFile: true });
  }
  for (const [variable, text] of Object.entries(env).sort()) {
    if (!variable.startsWith(prefix) || foreign.test(variable)) continue;
    const entry = known.get(variable);
    if (entry === undefined) {
      problems.push(`${variable} is not a known setting${didYouMean(variable, [...known.keys()])}`);
      continue;
    }
    // A compose file passes an unset variable as an empty one.
    if (text === undefined || text === "") continue;
    if (entry.setting.schema.secret && text.startsWith("${")) {
      problems.push(
        `${variable} is ${text.slice(0, 80)}, a placeholder that was not replaced: set it to a value, or ` +
          "leave it unset",
      );
      continue;
    }
    const { setting, fromFile } = entry;
    if (!fromFile) {
      keep(setting, coerce(setting.schema, text), variable, values, problems);
    } else if ((env[setting.variable] ?? "") !== "") {
      problems.push(`${setting.variable} and ${variable} are both set: keep one of them`);
    } else {
      try {
        keep(setting, coerce(setting.schema, readText(text).trim()), `the file named by ${variable}`, values, problems);
      } catch (error) {
        problems.push(`${variable} names ${text}, which cannot be read (${codeOrMessage(error)})`);
      }
    }
  }
}

/** Converts text to the type of the schema; invalid text stays text, and fails the validation. */
function coerce(schema: TSchema, text: string): unknown {
  const { type, items } = schema as { type?: string; items?: TSchema };
  const bare = text.trim();
  if (type === "boolean") return /^(true|1)$/i.test(bare) ? true : /^(false|0)$/i.test(bare) ? false : text;
  if (type === "integer" || type === "number") return /^[+-]?\d+(\.\d+)?$/.test(bare) ? Number(bare) : text;
  if (type === "array" && items !== undefined) {
    if ("properties" in items) return parsedOr(text);
    const parts = bare.split(",").map((part) => part.trim());
    return parts.filter((part) => part !== "").map((part) => coerce(items, part));
  }
  return text;
}

/** The value of a JSON text; invalid JSON stays text. */
function parsedOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function keep({ path, schema }: Setting, value: unknown, where: string, values: Tree, problems: string[]): void {
  if (Value.Check(schema, value)) put(values, path, value);
  else {
    const items: unknown = value;
    const [first] = Array.isArray(items) && items.some(isObject) ? Value.Errors(schema, items) : [];
    const at = first === undefined ? "" : ` (${first.instancePath.slice(1).replaceAll("/", ".")}: ${first.message})`;
    problems.push(`${where} must be ${expectationOf(schema)}${schema.secret ? "" : `, not ${shown(value)}`}${at}`);
  }
}

const expectationOf = ({ expects, ...schema }: Setting["schema"]): string =>
  expects ?? `a valid ${String((schema as { type?: string }).type)}`;

function shown(value: unknown): string {
  const text = JSON.stringify(value, (_key, item: unknown) => (typeof item === "bigint" ? String(item) : item));
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

const isTree = (value: unknown): value is Tree => isObject(value) && !(value instanceof Date);

function put(tree: Tree, path: readonly string[], value: unknown): void {
  let node = tree;
  for (const name of path.slice(0, -1)) node = (node[name] ??= {}) as Tree;
  node[path.at(-1)!] = value;
}

function didYouMean(name: string, candidates: readonly string[]): string {
  const ranked = candidates
    .map((candidate) => ({ candidate, distance: editDistance(name, candidate) }))
    .sort((a, b) => a.distance - b.distance);
  const best = ranked[0];
  return best !== undefined && best.distance <= Math.max(3, name.length / 2) ? `; did you mean ${best.candidate}?` : "";
}

/** Levenshtein distance. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++)
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    row = next;
  }
  return row[b.length]!;
}
