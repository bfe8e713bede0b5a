import { AppError } from "@statusmesh/shared/errors";
import type { Faults } from "@statusmesh/shared/schema/faults";
import { isObject, type Json } from "@statusmesh/shared/json";
import { pointerSegment } from "@statusmesh/shared/secrets";
import { durationIn, unitOf } from "@statusmesh/shared/time";

/* Texts of a document as the API reads them: escapes, variables that were not filled in, durations. */

/** Fields of an object, and of each object in it. The one with the most has 60; a copy of 90,000 takes 50 ms. */
const maxFields = 1000;
/** Characters of a text. The longest field has a quarter of it; to unescape a MiB takes 50 ms. */
const maxText = 262_144;

/** Approximate number of characters of a value as JSON. */
export function sizeOf(value: unknown): number {
  if (typeof value === "string") return value.length + 2;
  if (typeof value !== "object" || value === null) return 4;
  let size = 2;
  if (Array.isArray(value)) for (const item of value) size += 1 + sizeOf(item);
  else for (const name in value) size += name.length + 4 + sizeOf((value as Json)[name]);
  return size;
}

/** Throws for an object that has too many fields, or a text that is too long, anywhere in the value. */
export function sizeRule(value: unknown, pointer: string): void {
  if (typeof value === "string" && value.length > maxText)
    throw new AppError("INVALID_BODY", `A text has at most ${maxText} characters.`, { field: pointer });
  if (typeof value !== "object" || value === null) return;
  const isLarge = (field: unknown): boolean =>
    typeof field === "string" ? field.length > maxText : typeof field === "object" && field !== null;
  if (Array.isArray(value)) {
    for (const [at, item] of value.entries()) if (isLarge(item)) sizeRule(item, `${pointer}/${at}`);
    return;
  }
  const names = Object.keys(value);
  if (names.length > maxFields)
    throw new AppError("INVALID_BODY", `An object has at most ${maxFields} fields.`, { field: pointer });
  for (const name of names) {
    const field = (value as Json)[name];
    if (isLarge(field)) sizeRule(field, `${pointer}/${pointerSegment(name)}`);
  }
}

/** Unescapes `$${` in every text; a variable is for the client, so that one that is left is a fault. */
export function unescaped(value: unknown, pointer: string, faults: Faults): unknown {
  if (typeof value === "string") return value.includes("${") ? unescapedText(value, pointer, faults) : value;
  if (Array.isArray(value)) return value.map((item, at) => unescaped(item, `${pointer}/${at}`, faults));
  if (!isObject(value)) return value;
  const copy: Json = {};
  for (const [name, item] of Object.entries(value))
    copy[name] =
      typeof item === "string" || (typeof item === "object" && item !== null)
        ? unescaped(item, `${pointer}/${pointerSegment(name)}`, faults)
        : item;
  return copy;
}

function unescapedText(text: string, pointer: string, faults: Faults): string {
  const lastEnd = text.lastIndexOf("}");
  let from = 0;
  // Behind the last } no variable can end.
  for (let at = text.indexOf("${"); at >= 0 && at < lastEnd; at = text.indexOf("${", at + 2)) {
    if (at > from && text[at - 1] === "$") {
      from = at + 2;
      continue;
    }
    if (faults.isFull) return text;
    const found = text.slice(at, Math.min(text.indexOf("}", at) + 1, at + 100));
    faults.add(
      new AppError(
        "UNRESOLVED_VARIABLE",
        `${found} has no value: the client fills in variables. Write $\${ for the text itself.`,
        { field: pointer },
      ),
    );
    return text;
  }
  return text.split("$${").join("${");
}

/** Replaces durations by numbers, in place. */
export function readDurations(fields: Json, pointer: string, faults: Faults): void {
  for (const [name, value] of Object.entries(fields)) {
    const unit = typeof value === "string" ? unitOf(name) : null;
    if (unit === null) continue;
    const number = durationIn(unit, value as string);
    if (number !== null) fields[name] = number;
    else
      faults.add(
        new AppError(
          "INVALID_BODY",
          `${name} is a number of ${unit}, or a duration like 30s, 5m or 1d that is a whole number of them.`,
          { field: `${pointer}/${name}` },
        ),
      );
  }
}

/** {@link readDurations} of the levels of a ladder. */
export function readLevels(fields: Json, pointer: string, faults: Faults): void {
  if (!Array.isArray(fields["escalation"])) return;
  for (const [at, level] of fields["escalation"].entries())
    if (isObject(level)) readDurations(level, `${pointer}/escalation/${at}`, faults);
}
