import { pointerSegment } from "../secrets.ts";
import type { RefuseFile } from "./named-files.ts";
import type { Mistake, Place, Position } from "./position.ts";

/** Where variables come from. */
export interface VariableSource {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The text of a file named in `${file:path}`, relative to the file that names it. Throws with a reason in words. */
  readFile(path: string, namedIn: string): string;
  /** Why a variable must not be used; null for one that may. */
  refuse?(name: string): string | null;
  /** Files that are not read as configuration. */
  readonly refuseFile?: RefuseFile;
  /** What takes the place of a text whose variable is unset, for a secret; without it that is a mistake. */
  readonly unset?: string;
}

export interface Filled {
  readonly value: unknown;
  readonly mistakes: readonly Mistake[];
  /** Values by variable, to keep them out of messages. */
  readonly used: ReadonlyMap<string, string>;
  /** Names of the variables in each text that has some, by pointer. */
  readonly filled: ReadonlyMap<string, readonly string[]>;
  /** Texts in whose place `unset` stands, by pointer. */
  readonly unset: ReadonlyMap<string, Unset>;
}

/** A variable without a value, and where it is used. */
export interface Unset {
  readonly name: string;
  readonly at: Place;
}

const maxMistakes = 100;

/**
 * Replaces `${NAME}` and `${file:path}` in every text of `value`; keys stay as they are. `$${` is a literal `${`, and
 * so is one in the value of a variable: the result has every literal `${` as `$${`, as the server reads it. An unset or
 * empty variable is a mistake.
 */
export function fillVariables(value: unknown, position: Position, source: VariableSource): Filled {
  const mistakes: Mistake[] = [];
  const used = new Map<string, string>();
  const filled = new Map<string, readonly string[]>();
  const unset = new Map<string, Unset>();

  /** The value of what stands between the braces; null when it has none. */
  const valueOf = (name: string, { at }: Position): string | null => {
    const known = used.get(name);
    if (known !== undefined) return known;
    const wrong = (message: string): null => {
      if (mistakes.length < maxMistakes) mistakes.push({ ...at, message });
      return null;
    };
    let found: string | undefined;
    const path = /^file:(.+)$/s.exec(name)?.[1];
    if (path !== undefined) {
      try {
        found = source.readFile(path, at.file).replace(/\r?\n$/, "");
      } catch (error) {
        return wrong(`\${${short(name)}}: ${(error as Error).message}`);
      }
      if (found === "") return wrong(`\${${short(name)}}: the file is empty.`);
    } else {
      if (!/^[A-Za-z_]\w*$/.test(name))
        return wrong(
          `\${${short(name)}} is no variable: write \${NAME} or \${file:path}, and $\${ for the text itself.`,
        );
      const refused = source.refuse?.(name) ?? null;
      if (refused !== null) return wrong(refused);
      found = Object.hasOwn(source.env, name) ? source.env[name] : undefined;
      if (found === undefined || found === "") {
        if (source.unset !== undefined) return null;
        return wrong(`The variable ${short(name)} is ${found === undefined ? "not set" : "empty"}.`);
      }
    }
    used.set(name, found);
    return found;
  };

  const text = (template: string, here: Position, pointer: string): string => {
    if (!template.includes("${")) return template;
    let missing: string | null = null;
    const names = new Set<string>();
    const plain = template.replaceAll(/\$\$\{|\$\{([^}]*)(\}?)/g, (all, name: string | undefined, end: string) => {
      if (name === undefined) return "${";
      names.add(name);
      const found = end === "" ? valueOf(`${name} without an end`, here) : valueOf(name, here);
      if (found === null) missing ??= name;
      return found ?? all;
    });
    if (names.size > 0) filled.set(pointer, [...names]);
    if (missing !== null) {
      if (source.unset === undefined) return template;
      unset.set(pointer, { name: missing, at: here.at });
      return source.unset;
    }
    return plain.replaceAll("${", () => "$${");
  };

  const fill = (part: unknown, here: Position, pointer: string): unknown => {
    if (typeof part === "string") return text(part, here, pointer);
    if (typeof part !== "object" || part === null) return part;
    const inside = (key: string, item: unknown): unknown =>
      fill(item, here.children.get(key) ?? here, `${pointer}/${pointerSegment(key)}`);
    if (Array.isArray(part)) return part.map((item, at) => inside(String(at), item));
    return Object.fromEntries(Object.entries(part).map(([key, item]) => [key, inside(key, item)]));
  };
  return { value: fill(value, position, ""), mistakes, used, filled, unset };
}

/** A {@link VariableSource.refuse} of the variables that configure the program, its tokens and keys among them. */
export const refuseSettings =
  (program: string) =>
  (name: string): string | null =>
    name.toUpperCase().startsWith("SM_")
      ? `\${${short(name)}} is a setting of ${program}, which files cannot read.`
      : null;

/** The text with `${NAME}` in place of values of variables. Values under four characters stay: they are words. */
export function withoutValues(text: string, used: ReadonlyMap<string, string>): string {
  let clean = text;
  for (const [name, value] of [...used].sort(([, a], [, b]) => b.length - a.length))
    if (value.length >= 4) clean = clean.replaceAll(value, () => `\${${name}}`);
  return clean;
}

const short = (text: string): string => (text.length > 60 ? `${text.slice(0, 60)}…` : text);
