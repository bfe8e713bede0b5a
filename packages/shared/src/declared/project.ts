import type { DocumentFault } from "./check.ts";
import { mistakeAt, readFiles } from "./files.ts";
import type { Mistake, Position } from "./position.ts";
import { isWhole, type VariableFields, variableFields, variablesText } from "./withheld.ts";
import { fillVariables, type Unset, type VariableSource, withoutValues } from "./variables.ts";

/** The files of a project, read, with their variables filled in. */
export interface ReadProject {
  /** What the files say; incomplete where there are mistakes. */
  readonly document: Readonly<Record<string, unknown>>;
  readonly position: Position;
  readonly files: readonly string[];
  readonly mistakes: readonly Mistake[];
  /** Secrets whose variable is unset, by pointer. */
  readonly unset: ReadonlyMap<string, Unset>;
  /** The fields that have variables: their values are shown nowhere. */
  readonly fields: VariableFields;
  /** The same without fields that are secrets, which servers show to nobody. */
  readonly openFields: () => VariableFields;
  /** Text that belongs to no field, without values of variables. */
  readonly redact: (text: string) => string;
}

/** A fault as the API lists it; the field is a pointer into the request. */
export interface ApiFault {
  readonly field: string | null;
  readonly code: string;
  readonly message: string;
}

/** Finds mistakes in a document with its variables filled in. */
export type CheckDocument = (document: Readonly<Record<string, unknown>>) => readonly DocumentFault[];

/** The pointers of the secrets in a document without mistakes. */
export type SecretsOf = (document: Readonly<Record<string, unknown>>) => ReadonlySet<string>;

/**
 * Reads files and folders; `check` is asked about what could be read. With `source.unset` a variable may be unset in
 * secrets only.
 */
export function readProjectFiles(
  paths: readonly string[],
  source: VariableSource,
  check: CheckDocument,
  secretsOf: SecretsOf = () => new Set(),
): ReadProject {
  const { document: written, position, mistakes, files } = readFiles(paths, source.refuseFile);
  const filled = fillVariables(written, position, source);
  const redact = (text: string): string => withoutValues(text, filled.used);
  const fields = variableFields(filled.filled, position);
  const document = filled.value as Record<string, unknown>;
  const all = [...mistakes, ...filled.mistakes];
  // What could not be read has no form to check, and a text without its variables would be refused a second time.
  const known = new Set(filled.mistakes.map(placeText));
  if (mistakes.length === 0)
    for (const { pointer, message, ofKey } of check(document)) {
      const mistake = mistakeAt(position, pointer, withheld({ pointer, message, ofKey }, { fields, redact }), ofKey);
      if (!known.has(placeText(mistake))) all.push(mistake);
    }
  if (all.length === 0 && filled.unset.size > 0) {
    const secrets = secretsOf(document);
    for (const [pointer, { name, at }] of filled.unset)
      if (!secrets.has(pointer)) all.push({ ...at, message: `The variable ${name} is not set, and is no secret.` });
  }
  const openFields = (): VariableFields => {
    const secrets = secretsOf(document);
    return variableFields(new Map([...filled.filled].filter(([pointer]) => !secrets.has(pointer))), position);
  };
  return { document, position, files, mistakes: all, unset: filled.unset, fields, openFields, redact };
}

interface Said {
  readonly pointer: string;
  readonly message: string;
  readonly ofKey?: boolean | undefined;
  readonly code?: string;
}

/** A message about a field, unless it may quote what a variable gave: a message about a key does not. */
function withheld({ pointer, message, ofKey, code }: Said, { fields, redact }: Pick<ReadProject, "fields" | "redact">) {
  const names = ofKey === true || isWhole(pointer) ? [] : fields.namesAt(pointer);
  if (names.length === 0) return redact(message);
  const why = code === undefined ? "" : ` (${code})`;
  return `The value is refused${why}. The reason is not shown, because it may quote ${variablesText(names)}.`;
}

const placeText = ({ file, line, column }: Mistake): string => `${file}:${line}:${column}`;

/** Faults of a request with the document as mistakes in its files. */
export const mistakesOf = (
  faults: readonly ApiFault[],
  { position, fields, redact, unset }: Pick<ReadProject, "position" | "fields" | "redact" | "unset">,
): Mistake[] =>
  faults.map(({ field, code, message }) => {
    if (!isInDocument(field)) return { message: redact(message) };
    const pointer = field.slice("/document".length);
    const ofKey = code === "UNKNOWN_FIELD";
    const { name } = (code === "REDACTION_SENTINEL" ? unset.get(pointer) : undefined) ?? {};
    const text =
      name === undefined
        ? withheld({ pointer, message, ofKey, code }, { fields, redact })
        : `The variable ${name} is not set, and no secret is stored.`;
    return mistakeAt(position, pointer, text, ofKey);
  });

/** True for a pointer into the document of a request. */
export const isInDocument = (field: string | null): field is string => field?.startsWith("/document") === true;
