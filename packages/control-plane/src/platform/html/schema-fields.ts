import type { TSchema } from "typebox";
import { expectationText } from "@statusmesh/shared/checks/expectations";
import type { FieldForm } from "@statusmesh/shared/schema/form";
import { inUnits } from "@statusmesh/shared/time";
import { mask } from "@statusmesh/shared/secrets";
import type { SchemaNode } from "@statusmesh/shared/schema/validate";
import type { Field } from "./fields.ts";

/** A schema node with the keywords that a form reads. */
interface FormNode extends SchemaNode {
  description?: string;
  examples?: unknown[];
  form?: FieldForm;
  secret?: boolean;
  anyOf?: FormNode[];
  properties?: Record<string, FormNode>;
}

/** A field that a view of its own shows. */
export interface ViewField {
  view: NonNullable<FieldForm["view"]>["name"];
  name: string;
  label: string;
}

export interface FormSection {
  /** Title of a collapsed section; null for fields that are always visible. */
  title: string | null;
  /** Condition of `data-when`: `/config/provider=twilio|plivo`; null for fields of every choice. */
  when: string | null;
  /** True where the condition holds for the values that the form starts with. */
  shown: boolean;
  rows: (Field | ViewField)[][];
}

export interface FormOptions {
  /** Pointer of the object that the schema describes: `/check`. */
  base: string;
  /** Keeps ids apart where several alternatives hold the same field. */
  scope: string;
  /** Stored values; without them each field starts with the default of its schema. */
  values?: Readonly<Record<string, unknown>> | null;
}

/**
 * The form of an object, made from its schema: always visible fields first, then the collapsed sections in the order of
 * their first field. Constants (the type of a kind) are left out. Throws for a value without a control.
 */
export function formOf(schema: TSchema, options: FormOptions): FormSection[] {
  const { properties = {}, required = [] } = schema as FormNode;
  const covered = new Set(Object.values(properties).flatMap((node) => node.form?.view?.with ?? []));
  const start = (name: string): unknown => options.values?.[name] ?? startOf(properties[name] ?? {});
  const sections: FormSection[] = [];
  for (const [name, node] of Object.entries(properties)) {
    if (node.const !== undefined || covered.has(name)) continue;
    const { section: title = null, when: condition, beside } = node.form ?? {};
    const when = condition === undefined ? null : `${options.base}/${condition.field}=${condition.is.join("|")}`;
    const last = sections.at(-1);
    let section =
      title === null
        ? last?.title === null && last.when === when
          ? last
          : undefined
        : sections.find((one) => one.title === title && one.when === when);
    if (section === undefined) {
      const shown = condition === undefined || condition.is.includes(String(start(condition.field)));
      section = { title, when, shown, rows: [] };
      sections.push(section);
    }
    const field = fieldOf(name, node, required.includes(name), options);
    const row = section.rows.at(-1);
    if (beside === true && row !== undefined) row.push(field);
    else section.rows.push([field]);
  }
  return [...sections.filter(({ title }) => title === null), ...sections.filter(({ title }) => title !== null)];
}

/** Plain fields of an object by name, for a form that places them itself. Throws for a field with a view of its own. */
export function fieldsOf<N extends string>(
  schema: TSchema,
  names: readonly N[],
  options: FormOptions,
): Record<N, Field> {
  const { properties = {}, required = [] } = schema as FormNode;
  const fields: Partial<Record<N, Field>> = {};
  for (const name of names) {
    const field = fieldOf(name, properties[name] ?? {}, required.includes(name), options);
    if ("view" in field) throw new Error(`"${name}" has a view of its own.`);
    fields[name] = field;
  }
  return fields as Record<N, Field>;
}

/** The control of one field. `required` is what the schema of the object around it says. Throws without a control. */
function fieldOf(
  name: string,
  node: FormNode,
  required: boolean,
  { base, scope, values }: FormOptions,
): Field | ViewField {
  const form = node.form ?? {};
  const label = form.label ?? inWords(name);
  const pointer = `${base}/${name}`;
  if (form.view !== undefined) return { view: form.view.name, name: pointer, label };
  const value = values === null || values === undefined ? node.default : values[name];
  const hint =
    form.maskedHint !== undefined && isMasked(value)
      ? form.maskedHint
      : (form.hint ?? (node.form === undefined ? node.description : undefined));
  const placeholder = form.placeholder ?? exampleOf(node);
  return {
    scope,
    name: pointer,
    label,
    ...(hint === undefined ? {} : { hint }),
    ...(placeholder === undefined ? {} : { placeholder }),
    ...control(name, node, value, required),
  };
}

function control(name: string, node: FormNode, value: unknown, required: boolean): Partial<Field> {
  const branches = node.anyOf?.filter((branch) => branch.type !== "null") ?? [node];
  const nullable = branches.length < (node.anyOf?.length ?? 1);
  const inner = branches.length === 1 ? branches[0]! : node;
  const kind = node.form?.control;
  if (kind === "expectations") return expectations(node, value as Expected[]);
  if (kind === "duration")
    return { as: "duration", value: typeof value === "number" ? inUnits(value) : "", short: true };
  if (kind === "status") return { as: "status", value: statusText(value as ExpectedStatus), short: true };
  const choices = choicesOf(inner, node.form?.options);
  if (choices !== null && nullable && inner.enum !== undefined)
    return {
      type: "select",
      as: "nullable",
      value: value ?? "",
      options: [["", "Not checked"], ...choices],
      short: true,
    };
  if (choices !== null) return { type: "select", value: value ?? startOf(node), options: choices, short: true };
  if (inner.type === "boolean") return { type: "checkbox", value: value === true };
  if (inner.type === "integer") {
    const { minimum: min, maximum: max } = inner;
    const bounds = { ...(min === undefined ? {} : { min }), ...(max === undefined ? {} : { max }) };
    return { type: "number", as: "int", value, ...bounds, required: !nullable, short: true };
  }
  if (inner.type === "string") {
    const mustHave = !nullable && required && node.default === undefined;
    return {
      type: (kind as Field["type"]) ?? (node.secret === true ? "password" : "text"),
      value,
      ...(node.secret === true && kind !== undefined ? { secret: true } : {}),
      ...(mustHave ? { required: true } : { as: nullable ? "nullable" : "optional" }),
      ...(inner.maxLength === undefined ? {} : { maxLength: inner.maxLength }),
    };
  }
  if (inner.type === "array" && (inner.items as FormNode).type === "string")
    return { type: "lines", as: "list", value: ((value as string[] | undefined) ?? []).join("\n"), rows: 3 };
  if (inner.type === "object" && inner.patternProperties !== undefined)
    return { type: "lines", as: "headers", value: headerLines(value as Record<string, string> | undefined) };
  throw new Error(`"${name}" has no control for a value of this type. Give its schema form.control or form.view.`);
}

/** The first value of a select. */
const startOf = (node: FormNode): unknown => node.default ?? choicesOf(node, node.form?.options)?.[0]?.[0];

/** Values and display names of an enum, a union of literals, or a text with `form.options`; null for another schema. */
function choicesOf(node: FormNode, names: FieldForm["options"]): [string, string][] | null {
  const literals = node.anyOf?.map((branch) => branch.const);
  const values =
    node.enum ??
    (literals?.every((value) => typeof value === "string") ? literals : null) ??
    (node.type === "string" && names !== undefined ? Object.keys(names) : null);
  return values === null ? null : (values as string[]).map((value) => [value, names?.[value] ?? value]);
}

/** `warn_days` as `Warn days`. */
const inWords = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ");

/** The first example as text, unless it is more than a word. */
function exampleOf({ examples }: FormNode): string | undefined {
  const [first] = examples ?? [];
  return typeof first === "string" || typeof first === "number" ? String(first) : undefined;
}

type Expected = Record<string, string> & Parameters<typeof expectationText>[0];

/** One expectation per line, as `assets/body.js` reads them. */
function expectations(node: FormNode, value: readonly Expected[]): Partial<Field> {
  const [subject = ""] = Object.keys((node.items as FormNode).properties ?? {});
  const lines = value.map((one) => expectationText({ ...one, subject: one[subject]! }));
  return { type: "lines", as: "expectations", subject, value: lines.join("\n"), rows: 2 };
}

const isMasked = (value: unknown): boolean =>
  typeof value === "string"
    ? value.startsWith(mask)
    : typeof value === "object" && value !== null && Object.values(value).some(isMasked);

const headerLines = (headers: Record<string, string> = {}): string =>
  Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}`)
    .join("\n");

type ExpectedStatus =
  | { kind: "exact"; value: number }
  | { kind: "range"; value: { min: number; max: number } }
  | { kind: "one_of"; value: number[] };

/** `200`, `200-299` or `200, 204`, as `assets/body.js` reads it. */
function statusText({ kind, value }: ExpectedStatus): string {
  if (kind === "range") return `${value.min}-${value.max}`;
  return kind === "exact" ? String(value) : value.join(", ");
}
