/**
 * A schema node as JSON Schema has it, with our own keywords: `text` (how a text is cleaned), `errorCode`, `emptyCode`
 * and `longCode` (of an empty and of a long text), `emptyIsNull`, `sizeCodes` (of an array with too few items, and with
 * too many), `discriminator` (a union's tag), `cap` (a silent maximum of a query parameter) and `expects` (the message
 * for a value of the wrong type or pattern).
 */
export interface SchemaNode {
  type?: string;
  text?: "line" | "lines" | "id" | "search";
  const?: unknown;
  enum?: unknown[];
  anyOf?: SchemaNode[];
  discriminator?: string;
  errorCode?: string;
  emptyCode?: string;
  longCode?: string;
  emptyIsNull?: boolean;
  sizeCodes?: [few: string, many: string];
  cap?: number;
  /** True for a text that is a secret, and for a list or a map of such texts. */
  secret?: boolean;
  expects?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
  default?: unknown;
  properties?: Record<string, SchemaNode>;
  patternProperties?: Record<string, SchemaNode>;
  required?: string[];
  additionalProperties?: boolean | SchemaNode;
  minProperties?: number;
  maxProperties?: number;
  items?: SchemaNode | SchemaNode[];
  minItems?: number;
  maxItems?: number;
}

/** The properties that a client must send: `validate` applies defaults before it checks required properties. */
export function requiredInput({ properties = {}, required = [] }: SchemaNode): string[] {
  return required.filter((name) => properties[name]?.default === undefined);
}

/** Keywords of our own validator, which a strict validator of a client refuses. */
export const ownKeywords: ReadonlySet<string> = new Set([
  "errorCode",
  "emptyCode",
  "longCode",
  "emptyIsNull",
  "sizeCodes",
  "mapEntries",
  "cap",
  "discriminator",
  "expects",
  "text",
  "form",
  "secret",
  "shows",
]);
