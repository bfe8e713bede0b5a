import { html, Markup } from "./markup.ts";

/** A control of a form whose values become a JSON body. `assets/form.js` reads these attributes. */
export interface Field {
  /** JSON pointer of the value in the body, as errors of the API name it: `/check/url`. */
  name: string;
  label: string;
  value?: unknown;
  hint?: string;
  type?: "text" | "url" | "number" | "password" | "color" | "lines" | "select" | "checkbox";
  /**
   * How the text becomes a value: text (as it is), int, tags, list (a text a line), headers, status, expectations,
   * duration (milliseconds, empty is null), nullable (empty is null), optional (empty is left out).
   */
  as?:
    | "text"
    | "int"
    | "tags"
    | "list"
    | "members"
    | "headers"
    | "status"
    | "expectations"
    | "duration"
    | "nullable"
    | "optional"
    | "flag";
  /** Field of what an expectation compares: path or name. */
  subject?: string;
  options?: readonly (readonly [value: string, label: string])[];
  placeholder?: string;
  required?: boolean;
  /** True for what is never shown again. */
  secret?: boolean;
  min?: number;
  max?: number;
  maxLength?: number;
  rows?: number;
  /** Errors name its bounds as times: `10 seconds to 31 days`. */
  unit?: "s";
  /** Keeps ids apart where several alternatives hold the same field. */
  scope?: string;
  /** Size of the control: fills its row unless it is short. */
  short?: boolean;
  autofocus?: boolean;
  /** A token of autocompletion (HTML standard); default: off, for a password new-password. */
  autocomplete?: string;
  /** Id of a datalist. */
  list?: string;
}

const idOf = (field: Field): string =>
  `${field.scope ?? "f"}-${field.name.replace(/[^a-z0-9]+/gi, "-").replace(/^-/, "")}`;

type AttributeValue = string | number | boolean | null | undefined;

/** Attributes with a space before each; false, null and undefined are left out. */
const attributes = (all: Record<string, AttributeValue>): Markup[] =>
  Object.entries(all).flatMap(([name, value]) =>
    value === undefined || value === false || value === null
      ? []
      : [value === true ? new Markup(` ${name}`) : html` ${new Markup(name)}="${value}"`],
  );

/** Label, control and hint of one field, tied together for readers. */
export function field(it: Field): Markup {
  const id = idOf(it);
  const hint = it.hint === undefined ? "" : html`<p class="hint" id="${id}-hint">${it.hint}</p>`;
  const shared = attributes({
    id,
    name: it.name,
    "data-as": it.as,
    "data-subject": it.subject,
    "aria-describedby": it.hint === undefined ? undefined : `${id}-hint`,
    required: it.required,
    "data-secret": it.secret,
    autofocus: it.autofocus,
    class: it.type === "url" || it.as === "headers" || it.as === "expectations" ? "code" : undefined,
  });
  const label = html`<label for="${id}">${it.label}</label>`;
  if (it.type === "checkbox") {
    const checked = attributes({ checked: it.value === true });
    return html`<div class="field check"><input type="checkbox"${shared}${checked} />${label}${hint}</div>`;
  }
  return html`<div class="field${it.short ? " short" : ""}">${label}${control(it, id, shared)}${hint}</div>`;
}

/** The options of a select, of which the one with the value `chosen` is selected. */
export const options = (all: readonly (readonly [value: string, label: string])[], chosen: unknown = ""): Markup =>
  html`${all.map(
    ([value, label]) =>
      html`<option value="${value}"${attributes({ selected: value === String(chosen) })}>${label}</option>`,
  )}`;

function control(it: Field, id: string, shared: Markup[]): Markup {
  const value = it.value ?? "";
  if (it.type === "select") return html`<select${shared}>${options(it.options ?? [], value)}</select>`;
  const text = { maxlength: it.maxLength, placeholder: it.placeholder };
  if (it.type === "lines") {
    const own = attributes({ rows: it.rows ?? 3, ...text, spellcheck: "false" });
    // A line break right after the tag is dropped by the parser: this one is there to be dropped.
    return html`<textarea${shared}${own}>\n${value}</textarea>`;
  }
  const own = attributes({
    value: String(value),
    min: it.min,
    max: it.max,
    "data-unit": it.unit,
    ...text,
    list: it.list,
    autocomplete: it.autocomplete ?? (it.type === "password" ? "new-password" : "off"),
    spellcheck: it.type === "url" ? "false" : undefined,
  });
  if (it.type === "color") {
    // A colour input cannot be empty: the text is the value, the picker fills it. Browsers give it in lower case.
    const picked = /^#[0-9a-f]{6}$/i.test(String(value)) ? String(value) : (it.placeholder ?? "#000000");
    return html`<span class="swatch"><input type="text"${shared}${own} /><input type="color" data-picks="${id}"
        value="${picked.toLowerCase()}" aria-label="Choose ${it.label.toLowerCase()}" /></span>`;
  }
  return html`<input type="${it.type ?? "text"}"${shared}${own} />`;
}
