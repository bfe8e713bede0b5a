import { readFileSync } from "node:fs";
import { extname } from "node:path";
import { parse as parseToml } from "smol-toml";
import { parse as parseYaml } from "yaml";

/**
 * The list of texts under `key` of a YAML or TOML file (by extension); a YAML file may also be the bare list.
 * Throws an Error whose message says what is wrong with the file.
 */
export function readList(file: string, key: string): string[] {
  const parse = parsers[extname(file).toLowerCase()];
  if (parse === undefined) throw new Error("its name must end in .yaml, .yml or .toml");
  let value: unknown;
  try {
    value = parse(readFileSync(file, "utf8"));
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    throw new Error(
      code?.startsWith("E") ? `it cannot be read (${code})` : message.split("\n", 1)[0]!.replace(/:$/, ""),
      { cause },
    );
  }
  const list = Array.isArray(value) ? value : under(value, key);
  const stray = list.findIndex((entry) => typeof entry !== "string" || entry.trim() === "");
  if (stray >= 0) throw new Error(`entry ${stray + 1} of ${key} is not a text`);
  return list.map((entry) => String(entry).trim());
}

const parsers: Record<string, (text: string) => unknown> = {
  ".yaml": parseYaml,
  ".yml": parseYaml,
  ".toml": parseToml,
};

function under(value: unknown, key: string): unknown[] {
  if (typeof value !== "object" || value === null) throw new Error(`it has no list called ${key}`);
  const other = Object.keys(value).find((name) => name !== key);
  if (other !== undefined) throw new Error(`it has the key ${other}, and only ${key} is known`);
  const list = (value as Record<string, unknown>)[key];
  if (!Array.isArray(list)) throw new Error(`it has no list called ${key}`);
  return list;
}
