import { readFileSync } from "node:fs";
import { Option } from "commander";
import { type ProbedSpec, type ProbedType, isProbedType, kindOf } from "@statusmesh/shared/checks";
import { certificatesOf } from "@statusmesh/shared/checks/certificates";
import type { CheckKind } from "@statusmesh/shared/checks/kind";
import { duration, ShellError, type ShellOption, wholeOr } from "@statusmesh/shared/checks/shell";
import { AppError } from "@statusmesh/shared/errors";
import { asObject, parsedJson } from "@statusmesh/shared/json";
import { type SchemaNode, validate } from "@statusmesh/shared/schema/validate";

/** One field of a kind as an option. */
interface FieldOption extends ShellOption {
  field: string;
  /** Name of the option without leading dashes. */
  name: string;
  node: SchemaNode & { description?: string };
}

/** Descriptions of fields that every kind has. */
const common: Readonly<Record<string, ShellOption>> = {
  timeout: { words: "time for the whole check", takes: "10s", read: ([text = ""]) => duration(text) },
};

/** Fields that name what only a control plane has. */
const unknownHere = ["certificates"];

/** A usage error of `sm-agent check`. */
export class CheckUsage extends Error {
  override readonly name = "CheckUsage";
}

/** The fields of a kind that have options: those not set by the subject. */
function fieldsOf(kind: CheckKind): FieldOption[] {
  const subject = new Set(["type", ...unknownHere, ...Object.keys(kind.shell!.read("example.org:1"))]);
  return Object.entries((kind.schema as unknown as SchemaNode).properties ?? {})
    .filter(([field]) => !subject.has(field))
    .map(([field, node]) => ({
      name: field.replaceAll("_", "-"),
      ...(common[field] ?? kind.shell!.options?.[field]),
      field,
      node,
    }));
}

const textIn = (node: SchemaNode): SchemaNode => node.anyOf?.find(({ type }) => type !== "null") ?? node;
const envOf = (name: string): string => `SM_CHECK_${name.replaceAll("-", "_").toUpperCase()}`;

/** The options of a kind, derived from its schema. */
export function optionsOf(kind: CheckKind): Option[] {
  return fieldsOf(kind).flatMap((option) => {
    const { name, node, takes, repeated, secret } = option;
    const words = option.words ?? lowered(node.description ?? name);
    const { type } = textIn(node);
    const choices = node.enum === undefined ? "" : `: ${node.enum.join(", ")}`;
    const simple = typeof node.default === "string" || typeof node.default === "number";
    // The default of a duration is shown as it is typed.
    const fallback = !simple
      ? ""
      : option.read === common["timeout"]?.read
        ? ` (default: ${Number(node.default) / 1000}s)`
        : ` (default: ${String(node.default)})`;
    const made: Option[] = [];
    if (secret !== "always") {
      const flags =
        type === "boolean"
          ? `--${node.default === true ? "no-" : ""}${name}`
          : `--${name} <${takes ?? (type === "integer" ? "number" : "text")}>`;
      const plain = new Option(flags, words + choices + fallback);
      if (repeated === true) plain.argParser((text: string, before: string[] | undefined) => [...(before ?? []), text]);
      made.push(plain);
    }
    if (secret !== undefined)
      made.push(new Option(`--${name}-file <file>`, `${words}; from a file, or from ${envOf(name)}`));
    return made;
  });
}

/** Lower-cases the first letter, unless it starts a name. */
const lowered = (text: string): string =>
  /^[A-Z][a-z]/.test(text) ? text.charAt(0).toLowerCase() + text.slice(1) : text;

/** The attribute under which commander stores an option. */
const keyOf = (name: string): string => name.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase());

/**
 * The check of a command line, validated by the schema and the rules of its kind. Secrets come from files and the
 * environment. Throws {@link CheckUsage}.
 */
export function specFrom(
  type: ProbedType,
  subject: string,
  given: Readonly<Record<string, unknown>>,
  env: Readonly<Record<string, string | undefined>>,
): ProbedSpec {
  const kind = kindOf({ type });
  const open: Record<string, unknown> = { type, ...kind.shell!.read(subject) };
  const secrets: Record<string, unknown> = {};
  for (const option of fieldsOf(kind)) {
    const { field, name, node, secret } = option;
    const value = given[keyOf(name)];
    if (secret !== "always" && value !== undefined)
      open[field] =
        typeof value === "boolean"
          ? value
          : readOption(option, `--${name}`, Array.isArray(value) ? (value as string[]) : [String(value)]);
    const hidden = secret === undefined ? null : hiddenText(name, given[keyOf(`${name}-file`)], env);
    if (hidden === null) continue;
    const texts =
      secret === "some"
        ? hidden.text.split(/\r?\n/).filter((line) => line.trim() !== "")
        : [hidden.text.replace(/\r?\n$/, "")];
    const read = readOption(option, hidden.from, texts);
    secrets[field] =
      node.type === "object" && open[field] !== undefined ? { ...open[field], ...(read as object) } : read;
  }
  // By the schema only: a rule may ask for what a secret is needed for.
  refuseSecrets(kind, validated(kind, open), fieldsOf(kind));
  return checked(kind, { ...open, ...secrets });
}

function readOption({ read, node }: FieldOption, from: string, texts: readonly string[]): unknown {
  try {
    if (read !== undefined) return read(texts);
  } catch (error) {
    if (error instanceof ShellError) throw new CheckUsage(`${from} ${error.message}.`);
    throw error;
  }
  const [text = ""] = texts;
  return textIn(node).type === "integer" ? wholeOr(text) : text;
}

function hiddenText(
  name: string,
  file: unknown,
  env: Readonly<Record<string, string | undefined>>,
): { text: string; from: string } | null {
  if (typeof file === "string") return { text: fileText(file), from: `the file of --${name}-file` };
  const text = env[envOf(name)];
  return text === undefined || text === "" ? null : { text, from: envOf(name) };
}

function fileText(file: string): string {
  try {
    return readFileSync(file === "-" ? 0 : file, "utf8");
  } catch (error) {
    throw new CheckUsage(
      `${file === "-" ? "standard input" : file} cannot be read ` +
        `(${error instanceof Error && "code" in error ? String(error.code) : "unknown reason"}).`,
    );
  }
}

/** Other users can list processes with their command lines, and shells store them. */
function refuseSecrets(kind: CheckKind, spec: ProbedSpec, fields: readonly FieldOption[]): void {
  kind.mapSecrets(spec, (_secret, pointer) => {
    const [, field = "", part = ""] = pointer.split("/");
    const name = fields.find((option) => option.field === field)?.name ?? field;
    throw new CheckUsage(
      `--${name} ${part === "" ? "" : `"${part}" `}is a secret, and a command line is no place for one. ` +
        `Write it into a file for --${name}-file, or into ${envOf(name)}.`,
    );
  });
}

/** The check of a JSON file, or of standard input for `-`. Throws {@link CheckUsage}. */
export function specFromFile(file: string): ProbedSpec {
  const text = fileText(file);
  const value = parsedJson(text);
  // The parser's message would repeat part of the text, which may hold a secret.
  if (value === undefined) throw new CheckUsage(`${file === "-" ? "standard input" : file} is not JSON.`);
  const { type } = asObject(value);
  if (!isProbedType(type))
    throw new CheckUsage(
      `a check is an object whose type is one of those that sm-agent check --help lists, for example {"type": ` +
        `"tcp", "host": "db.example.org", "port": 5432}.`,
    );
  return checked(kindOf({ type }), value);
}

function checked(kind: CheckKind, value: unknown): ProbedSpec {
  const spec = validated(kind, value);
  if (certificatesOf(spec).length > 0)
    throw new CheckUsage("certificates are stored at the control plane: use --ca-file for an authority here.");
  inUsage(() => kind.rules(spec));
  return spec;
}

const validated = (kind: CheckKind, value: unknown): ProbedSpec =>
  inUsage(() => validate(kind.schema, value) as ProbedSpec);

function inUsage<T>(step: () => T): T {
  try {
    return step();
  } catch (error) {
    if (error instanceof AppError) throw new CheckUsage(error.message);
    throw error;
  }
}
