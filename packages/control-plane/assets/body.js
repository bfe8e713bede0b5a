import { differs } from "./leave.js";
import { now } from "./times.js";
import { instantOf, readLocal } from "./zoned.js";

// Builds a JSON body from the controls of a form. Names are JSON pointers; data-as says how text becomes a value.

/** Input that cannot be parsed. */
export class Unreadable extends Error {
  /** All controls of the form that are wrong, in order, each with its message. */
  faults;
  constructor(control, message, faults = [{ control, message }]) {
    super(message);
    this.faults = faults;
  }
}

/** Throws for a control that is empty though required, or whose number is out of its bounds. */
function checkControl(control) {
  if (control.required && control.value.trim() === "") throw new Unreadable(control, "Required.");
  if (control.type !== "number" || control.validity.valid) return;
  const { min, max } = control;
  if (control.dataset.unit === "s") throw new Unreadable(control, `Enter ${inWords(min)} to ${inWords(max)}.`);
  const bounds = min !== "" && max !== "" ? ` from ${min} to ${max}` : min !== "" ? ` of at least ${min}` : "";
  throw new Unreadable(control, `Enter a whole number${bounds}.`);
}

/** `10 seconds` and `31 days`. */
function inWords(seconds) {
  const [count, unit] = seconds % 86_400 === 0 ? [seconds / 86_400, "day"] : [seconds, "second"];
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}

/** The parts of a text between separators, trimmed, without empty ones. */
export const partsOf = (text, separator) =>
  text
    .split(separator)
    .map((part) => part.trim())
    .filter((part) => part !== "");

const ops = new Set(["eq", "ne", "lt", "le", "gt", "ge", "contains", "matches", "exists", "absent"]);

const units = { ms: 1, s: 1000, min: 60_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

const readers = {
  text: (control) => control.value,
  int: (control) => (control.value.trim() === "" ? null : Number(control.value)),
  nullable: (control) => (control.value === "" ? null : control.value),
  // A choice of true, false and neither.
  flag: (control) => (control.value === "" ? null : control.value === "true"),
  optional: (control) => (control.value === "" ? undefined : control.value),
  duration(control) {
    const text = control.value.trim();
    if (text === "") return null;
    const parts = [];
    const part = /(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)[a-z]*\s*/iy;
    // The next one begins where this one ends, so that the text is read once.
    for (let found = part.exec(text); found; found = part.exec(text)) {
      parts.push(found);
      if (part.lastIndex === text.length) break;
    }
    if (parts.map(([whole]) => whole).join("") !== text)
      throw new Unreadable(control, "Enter a time with its unit, for example 30 s, 10 min, 1 h 30 min or 1 d.");
    return Math.round(parts.reduce((sum, [, count, unit]) => sum + Number(count) * units[unit.toLowerCase()], 0));
  },
  null: () => null,
  true: () => true,
  // A number of ms from now.
  later: (control) => new Date(now() + Number(control.value)).toISOString(),
  // A part of a control that reads it.
  part: () => undefined,
  ladder(control) {
    const levels = [...control.parentElement.querySelectorAll("[data-rung]")].map((rung) => ({
      minutes: rung.querySelector("[type=number]"),
      channels: [...rung.querySelectorAll("[type=checkbox]")].filter((box) => box.checked),
      gate: rung.querySelector("[data-gate]").value,
    }));
    return levels.flatMap(({ minutes, channels, gate }) => {
      if (minutes.value.trim() === "" && channels.length === 0) return [];
      if (minutes.value.trim() === "") throw new Unreadable(minutes, "Enter the minutes until this level.");
      if (channels.length === 0) throw new Unreadable(minutes, "Choose a channel, or clear the minutes.");
      return [
        {
          after_minutes: Number(minutes.value),
          channel_ids: channels.map((box) => box.value),
          ...(gate === "" ? {} : { min_severity: gate }),
        },
      ];
    });
  },
  // A local time in the zone that the form names.
  instant: (control) => new Date(instantOf(readLocal(control.value), control.form.elements.zone.value)).toISOString(),
  tags: (control) => partsOf(control.value, ","),
  list: (control) => partsOf(control.value, "\n"),
  headers(control) {
    const headers = {};
    for (const line of control.value.split("\n").filter((text) => text.trim() !== "")) {
      const at = line.indexOf(":");
      if (at < 1)
        throw new Unreadable(control, `Enter each header as name: value. This line has no colon: ${line.slice(0, 60)}`);
      headers[line.slice(0, at).trim()] = line.slice(at + 1).trim();
    }
    return headers;
  },
  // As shared/src/checks/expectations.ts writes and reads them: subject, op, and a JSON value or text.
  expectations(control) {
    const read = (text) => {
      const words = [...text.trim().matchAll(/\S+/g)];
      const op = words.find(({ 0: word }, at) => at > 0 && ops.has(word));
      if (!op)
        throw new Unreadable(control, `Enter one per line, like: ${control.placeholder}. Not: ${text.slice(0, 60)}`);
      const subject = text.trim().slice(0, op.index).trim();
      const rest = text
        .trim()
        .slice(op.index + op[0].length)
        .trim();
      const found = { [control.dataset.subject]: subject, op: op[0] };
      if (rest === "") return found;
      try {
        const value = JSON.parse(rest);
        return { ...found, value: typeof value === "object" && value !== null ? rest : value };
      } catch {
        return { ...found, value: rest };
      }
    };
    return control.value
      .split("\n")
      .filter((text) => text.trim() !== "")
      .map(read);
  },
  status(control) {
    const text = control.value.trim();
    const range = /^(\d{3})\s*[-–]\s*(\d{3})$/.exec(text);
    if (range) return { kind: "range", value: { min: Number(range[1]), max: Number(range[2]) } };
    if (/^\d{3}$/.test(text)) return { kind: "exact", value: Number(text) };
    if (/^\d{3}(\s*,\s*\d{3})+$/.test(text)) return { kind: "one_of", value: text.split(",").map(Number) };
    throw new Unreadable(control, "Enter a range like 200-299, one code like 200, or several like 200, 204, 301.");
  },
};

const items = {
  channel(control) {
    const option = control.closest(".opt");
    const after = option.querySelector("[data-after]")?.value ?? "";
    const severity = option.querySelector("[data-gate]")?.value ?? "";
    const { recovery } = control.dataset;
    return {
      channel_id: control.value,
      ...(after === "" ? {} : { after_failures: Number(after) }),
      ...(recovery === undefined ? {} : { notify_recovery: recovery === "true" }),
      ...(severity === "" ? {} : { min_severity: severity }),
    };
  },
  item: (control) => control.value,
  member: (control) => ({ target_id: control.value }),
};

/**
 * The controls of a form that count now: those of hidden alternatives are disabled. `part` is a fieldset with a
 * request of its own; without it, the controls outside all such fieldsets.
 */
export function controlsOf(form, part = null) {
  return [...form.elements].filter(
    (control) =>
      control.name?.startsWith("/") && !control.matches(":disabled") && control.closest("[data-request]") === part,
  );
}

/** True where the control, one of the same name, its alternative's choice, or its whole group was changed. */
function changed(form, control) {
  const named = [...form.elements].filter((other) => other.name === control.name && !other.matches(":disabled"));
  if (named.some(differs)) return true;
  for (let box = control.closest("[data-when]"); box; box = box.parentElement.closest("[data-when]")) {
    const choice = box.dataset.when.split("=")[0];
    if ([...form.elements].some((other) => other.name === choice && differs(other))) return true;
  }
  const whole = control.closest("[data-whole]");
  return (
    whole !== null &&
    [...whole.querySelectorAll("input, select, textarea")].some(
      (other) => !other.matches(":disabled") && differs(other),
    )
  );
}

function put(body, pointer, value) {
  const parts = pointer.slice(1).split("/");
  let at = body;
  for (const [index, part] of parts.slice(0, -1).entries()) {
    if (typeof at[part] !== "object" || at[part] === null) at[part] = /^\d+$/.test(parts[index + 1]) ? [] : {};
    at = at[part];
  }
  at[parts.at(-1)] = value;
}

/**
 * The body of a form: all of it, or with `onlyChanged` what was changed, so that stored secrets stay. `part` takes a
 * fieldset with a request of its own, `under` only the values below a pointer. Null when there is nothing to send.
 */
export function bodyOf(form, { onlyChanged = false, part = null, under = "" } = {}) {
  const body = {};
  const lists = {};
  const faults = [];
  let any = false;
  for (const control of controlsOf(form, part)) {
    if (!control.name.startsWith(under)) continue;
    if (onlyChanged && !changed(form, control)) continue;
    // Hidden until its channel is chosen, and not sent.
    if (control.dataset.after !== undefined && !control.closest(".opt").querySelector("input:checked")) continue;
    const item = items[control.dataset.as];
    if (control.type === "radio" && !control.checked) continue;
    any = true;
    try {
      checkControl(control);
      if (control.dataset.as === "members") {
        // The members by tag of a group, behind those that are chosen one by one.
        lists[control.name] ??= [];
        lists[control.name].push(...partsOf(control.value, ",").map((tag) => ({ tag })));
        put(body, control.name, lists[control.name]);
      } else if (item) {
        lists[control.name] ??= [];
        if (control.checked) lists[control.name].push(item(control));
        put(body, control.name, lists[control.name]);
      } else {
        const value = control.type === "checkbox" ? control.checked : readers[control.dataset.as ?? "text"](control);
        if (value !== undefined) put(body, control.name, value);
      }
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      faults.push(...error.faults);
    }
  }
  // All at once, so that nobody has to save as often as there are mistakes.
  if (faults.length > 0) throw new Unreadable(faults[0].control, faults[0].message, faults);
  return any ? body : null;
}
