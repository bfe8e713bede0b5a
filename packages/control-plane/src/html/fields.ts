import { html, Markup } from "./markup.ts";

/** A control of a form whose values become a JSON body. `assets/form.js` reads these attributes. */
export interface Field {
  /** Where the value goes, and what an error of the API calls it: a JSON pointer, `/check/url`. */
  name: string;
  label: string;
  value?: unknown;
  hint?: string;
  type?: "text" | "url" | "number" | "password" | "color" | "lines" | "select" | "checkbox";
  /** How the text becomes a value: text (as it is), int, tags, headers, status, nullable (empty is null), optional (empty is left out). */
  as?: "text" | "int" | "tags" | "headers" | "status" | "nullable" | "optional";
  options?: readonly (readonly [value: string, label: string])[];
  placeholder?: string;
  required?: boolean;
  min?: number;
  max?: number;
  maxLength?: number;
  rows?: number;
  /** Keeps ids apart where several alternatives hold the same field. */
  scope?: string;
  /** Size of the control: fills its row unless it is short. */
  short?: boolean;
  autofocus?: boolean;
  /** Id of a datalist. */
  list?: string;
}

const idOf = (field: Field): string =>
  `${field.scope ?? "f"}-${field.name.replace(/[^a-z0-9]+/gi, "-").replace(/^-/, "")}`;

const attribute = (name: string, value: unknown): Markup =>
  value === undefined || value === false || value === null
    ? new Markup("")
    : value === true
      ? new Markup(` ${name}`)
      : html` ${new Markup(name)}="${value}"`;

/** Label, control and hint of one field, tied together for readers. */
export function field(it: Field): Markup {
  const id = idOf(it);
  const described = it.hint === undefined ? undefined : `${id}-hint`;
  const shared = html`id="${id}"
  name="${it.name}"${attribute("data-as", it.as)}${attribute("aria-describedby", described)}${attribute("required", it.required)}${attribute("autofocus", it.autofocus)}`;
  const hint = it.hint === undefined ? "" : html`<p class="hint" id="${id}-hint">${it.hint}</p>`;
  if (it.type === "checkbox") {
    return html`<div class="field check">
      <input type="checkbox" ${shared}${attribute("checked", it.value === true)} /><label for="${id}">${it.label}</label
      >${hint}
    </div>`;
  }
  return html`<div class="field${it.short ? " short" : ""}">
    <label for="${id}">${it.label}</label>${control(it, shared)}${hint}
  </div>`;
}

function control(it: Field, shared: Markup): Markup {
  const value = it.value ?? "";
  if (it.type === "select") {
    const options = (it.options ?? []).map(
      ([key, label]) => html`<option value="${key}" ${attribute("selected", key === String(value))}>${label}</option>`,
    );
    return html`<select ${shared}>
      ${options}
    </select>`;
  }
  if (it.type === "lines") {
    // A line break right after the tag is dropped by the parser: this one is there to be dropped.
    return html`<textarea
      ${shared}${attribute("rows", it.rows ?? 3)}${attribute("maxlength", it.maxLength)}${attribute("placeholder", it.placeholder)}
      spellcheck="false"
    >
${value}</textarea>`;
  }
  return html`<input
    type="${it.type ?? "text"}"
    ${shared}
    value="${value}"
    ${attribute("min", it.min)}${attribute("max", it.max)}${attribute("maxlength", it.maxLength)}${attribute("placeholder", it.placeholder)}${attribute("list", it.list)}${attribute("autocomplete", it.type === "password" ? "new-password" : "off")}${it.type === "url" ? new Markup(' spellcheck="false"') : ""}
  />`;
}
