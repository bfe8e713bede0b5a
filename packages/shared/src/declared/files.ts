import * as fs from "node:fs";
import { dirname, join } from "node:path";
import { isObject, type Json } from "../json.ts";
import { codeOrMessage } from "../thrown.ts";
import { below, readText, type RefuseFile } from "./named-files.ts";
import { type Mistake, type Position, placeOf } from "./position.ts";
import { parseYaml } from "./yaml.ts";

/** Bytes of all files of a project, those of one request. */
const maxTotalBytes = 16 * 1_048_576;
const maxFiles = 10_000;
const maxFolders = 32;

export const sections = ["channels", "monitors", "status_pages", "maintenance"] as const;
export type Section = (typeof sections)[number];

/** A value for each section. */
export const perSection = <T>(make: (section: Section) => T): Record<Section, T> =>
  Object.fromEntries(sections.map((section) => [section, make(section)])) as Record<Section, T>;

/** Fields of monitors that `defaults` may have. */
export const defaultFields: readonly string[] = [
  "check",
  "interval",
  "enabled",
  "tags",
  "alerts",
  "alert_confirmations",
  "notify_recovery",
  "renotify_interval_secs",
  "severity",
  "flap_detection",
  "region_policy",
  "escalation",
  "regions",
  "on_remove",
];

/** The files of a project as one document. */
export interface ReadFiles {
  readonly document: Json;
  readonly position: Position;
  readonly mistakes: readonly Mistake[];
  readonly files: readonly string[];
}

/**
 * Reads and merges files and folders. The value is what the files say, before variables are filled in; with mistakes it
 * is what could be read. `refuse` says which files must not be read.
 */
export function readFiles(paths: readonly string[], refuse?: RefuseFile): ReadFiles {
  const mistakes: Mistake[] = [];
  const files = locate(paths, mistakes);
  // A message about a file quotes parts of it: a link in a folder must not lead to a file that nobody has named.
  const isBelow = below(paths);
  const refuseFound: RefuseFile = (real, stat) =>
    isBelow(real) ? (refuse?.(real, stat) ?? null) : "It is a link that leads out of the named folders.";
  const merged = new Merged(mistakes);
  let total = 0;
  for (const file of files) {
    const text = readText(file, paths.includes(file) ? refuse : refuseFound);
    if (typeof text !== "string") mistakes.push({ file, line: 1, column: 1, message: text.problem });
    else if ((total += Buffer.byteLength(text)) > maxTotalBytes) {
      mistakes.push({ message: "The files have more than 16 MiB together." });
      break;
    } else {
      const { value, position, mistakes: found } = parseYaml(text, file);
      mistakes.push(...found);
      if (value !== undefined) merged.add(value, position);
    }
    if (mistakes.length >= 100) break;
  }
  if (mistakes.length === 0 && merged.isEmpty)
    mistakes.push({ message: `${paths.join(", ")} ${paths.length === 1 ? "has" : "have"} no configuration.` });
  return { ...merged.result(files[0] ?? paths[0] ?? ""), mistakes, files };
}

/** The folder of a file, or the folder itself. */
export const folderOf = (path: string): string =>
  fs.statSync(path, { throwIfNoEntry: false })?.isDirectory() === true ? path : dirname(path);

const isConfiguration = /\.(?:ya?ml|json)$/;

/** Every file below the paths, in the order of their names. */
function locate(paths: readonly string[], mistakes: Mistake[]): string[] {
  const found = new Set<string>();
  const visit = (path: string, above: readonly string[], isNamed: boolean): void => {
    if (found.size > maxFiles) return;
    try {
      const stat = fs.statSync(path);
      if (!stat.isDirectory()) {
        if (isNamed || isConfiguration.test(path)) found.add(path);
        return;
      }
      const real = fs.realpathSync(path);
      // A link to a folder above.
      if (above.includes(real)) return;
      if (above.length >= maxFolders) {
        mistakes.push({ message: `${path}: more than ${maxFolders} folders are nested here.` });
        return;
      }
      for (const name of fs.readdirSync(path).sort())
        if (!name.startsWith(".")) visit(join(path, name), [...above, real], false);
    } catch (error) {
      // A link to nothing, by another name.
      if (!isNamed && !isConfiguration.test(path) && (error as NodeJS.ErrnoException).code === "ENOENT") return;
      mistakes.push({ message: `${path} cannot be read (${codeOrMessage(error)}).` });
    }
  };
  for (const path of paths) visit(path, [], true);
  if (found.size > maxFiles) mistakes.push({ message: `More than ${maxFiles} files are found.` });
  return [...found];
}

/** Files put together: `version` and `project` agree, `defaults` are in one file, keys are unique. */
class Merged {
  readonly #document: Json = {};
  readonly #children = new Map<string, Position>();
  readonly #mistakes: Mistake[];

  constructor(mistakes: Mistake[]) {
    this.#mistakes = mistakes;
  }

  get isEmpty(): boolean {
    return this.#children.size === 0;
  }

  add(value: unknown, position: Position): void {
    if (!isObject(value)) {
      this.#mistakes.push({ ...position.at, message: "A file is a map with version, project and monitors." });
      return;
    }
    for (const [name, part] of Object.entries(value)) {
      if (name.startsWith("x-")) continue;
      const here = position.children.get(name)!;
      const before = this.#children.get(name);
      if (before === undefined) {
        this.#document[name] = part;
        this.#children.set(name, { ...here, children: new Map(here.children) });
      } else this.#merge(name, part, here, before);
    }
  }

  #merge(name: string, part: unknown, here: Position, before: Position): void {
    const known = this.#document[name];
    const wrong = (message: string, at = here.key ?? here.at) => this.#mistakes.push({ ...at, message });
    const elsewhere = ({ key, at }: Position) => `${(key ?? at).file}:${(key ?? at).line}`;
    if (name === "version" || name === "project") {
      if (known !== part) wrong(`${name} is another one in ${elsewhere(before)}.`);
      return;
    }
    const isMoved = name === "moved";
    if (!isMoved && !(sections as readonly string[]).includes(name)) {
      wrong(`${name} can stand in one file only, and is in ${elsewhere(before)} too.`);
      return;
    }
    if (part === null) return;
    if (known === null) {
      this.#document[name] = part;
      this.#children.set(name, { ...here, children: new Map(here.children) });
      return;
    }
    if (!isObject(part) || !isObject(known)) {
      wrong(`${name} must be a map.`);
      return;
    }
    for (const [key, object] of Object.entries(part)) {
      const place = here.children.get(key)!;
      const first = before.children.get(key);
      if (first === undefined) {
        known[key] = object;
        (before.children as Map<string, Position>).set(key, place);
      } else if (isMoved && isObject(object) && isObject(known[key])) {
        Object.assign(object, { ...object, ...known[key] });
        known[key] = object;
        for (const [from, at] of place.children) (first.children as Map<string, Position>).set(from, at);
      } else wrong(`${key} is declared twice: it is in ${elsewhere(first)} too.`, place.key ?? place.at);
    }
  }

  result(file: string): { document: Json; position: Position } {
    return { document: this.#document, position: { at: { file, line: 1, column: 1 }, children: this.#children } };
  }
}

/** The mistakes in the order of the files. */
export const inOrder = (mistakes: readonly Mistake[]): Mistake[] =>
  [...mistakes].sort(
    (a, b) =>
      (a.file ?? "").localeCompare(b.file ?? "") || (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0),
  );

/** A fault with a pointer as a mistake with a place. */
export const mistakeAt = (position: Position, pointer: string, message: string, ofKey = false): Mistake => ({
  ...placeOf(position, pointer, ofKey),
  message,
});
