import type { TSchema } from "typebox";
import type { Field } from "../html/fields.ts";
import type { ChannelKind, FieldForm } from "./kinds/kind.ts";

/** Fields that the form shows together. */
export interface FormSection {
  /** Title of a collapsed section; null for fields that are always visible. */
  title: string | null;
  /** Condition of `data-when`: `/config/provider=twilio|plivo`; null for fields of every choice. */
  when: string | null;
  /** True where the condition holds before anything is chosen. */
  shown: boolean;
  fields: Field[];
}

/** The keywords of a field's schema that decide how it is shown. */
interface Node {
  type?: string;
  const?: unknown;
  enum?: string[];
  anyOf?: Node[];
  patternProperties?: Record<string, Node>;
  default?: unknown;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  secret?: boolean;
  form?: FieldForm;
  "~optional"?: boolean;
}

/**
 * The form of a kind, made from the schema of its config in the order of its fields. Throws for a field without `form`
 * or of a type that has no control.
 */
export function formOf(kind: Pick<ChannelKind, "type" | "schema">): FormSection[] {
  const { properties, required = [] } = kind.schema as TSchema as {
    properties: Record<string, Node>;
    required?: string[];
  };
  const sections: FormSection[] = [];
  for (const [name, node] of Object.entries(properties)) {
    if (name === "type") continue;
    if (node.form === undefined) throw new Error(`${kind.type}.${name} has no form`);
    const { section: title = null, when: condition } = node.form;
    const when = condition === undefined ? null : `/config/${condition.field}=${condition.is.join("|")}`;
    const shown = condition === undefined || condition.is.includes(startOf(properties[condition.field]));
    const last = sections.at(-1);
    const section = last?.title === title && last.when === when ? last : { title, when, shown, fields: [] };
    if (section !== last) sections.push(section);
    section.fields.push(fieldOf(kind.type, name, node, required.includes(name)));
  }
  return sections;
}

/** What a select is on before anything is chosen. */
function startOf(node: Node | undefined): string {
  return String(node?.default ?? valuesOf(node ?? {})?.[0] ?? "");
}

function fieldOf(type: string, name: string, node: Node, required: boolean): Field {
  const { label, hint, placeholder, options } = node.form!;
  const branches = node.anyOf?.filter((branch) => branch.type !== "null") ?? [];
  const nullable = branches.length === 1 && node.anyOf!.length === 2;
  const value = nullable ? branches[0]! : node;
  const field: Field = { scope: type, name: `/config/${name}`, label };
  if (hint !== undefined) field.hint = hint;
  if (placeholder !== undefined) field.placeholder = placeholder;
  const values = valuesOf(value);
  if (values !== null) {
    const start = startOf(node);
    return { ...field, type: "select", value: start, options: values.map((one) => [one, options?.[one] ?? one]) };
  }
  if (value.type === "boolean") return { ...field, type: "checkbox", value: node.default === true };
  if (value.type === "string") {
    const omitted = nullable ? "nullable" : node.default === undefined && required ? null : "optional";
    if (omitted === null) field.required = true;
    else field.as = omitted;
    if (value.maxLength !== undefined) field.maxLength = value.maxLength;
    return { ...field, type: node.form!.control ?? (node.secret === true ? "password" : "text") };
  }
  if (value.type === "object" && value.patternProperties !== undefined)
    return { ...field, type: "lines", as: "headers" };
  throw new Error(`${type}.${name}: there is no control for a value of this type`);
}

/** The values of an enum, or of a union of literals; null for another schema. */
function valuesOf(node: Node): string[] | null {
  if (node.enum !== undefined) return node.enum;
  const values = node.anyOf?.map((branch) => branch.const);
  return values !== undefined && values.every((value) => typeof value === "string") ? values : null;
}
