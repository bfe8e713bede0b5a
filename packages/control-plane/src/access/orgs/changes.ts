import type { AuditEntry } from "../audit/schema.ts";

/** One field of a change: its name as a path (`check.url`), and its value before and after in words. */
export interface FieldChange {
  field: string;
  was: string | null;
  is: string | null;
}

/**
 * Every field that either side of an audit entry has. A secret reads the same before and after: it is listed because it
 * changed. A monitor that both sides name is not a change.
 */
export function changesOf({ before, after }: Pick<AuditEntry, "before" | "after">): FieldChange[] {
  const [was, is] = [new Map(flat(before)), new Map(flat(after))];
  const fields = new Set([...was.keys(), ...is.keys()]);
  if (was.get("monitor_name") === is.get("monitor_name")) fields.delete("monitor_name");
  return [...fields].map((field) => ({
    field,
    was: before ? inWords(was.get(field)) : null,
    is: after ? inWords(is.get(field)) : null,
  }));
}

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function flat(value: unknown, at = ""): [string, unknown][] {
  return Object.entries(value ?? {}).flatMap(([key, one]): [string, unknown][] =>
    isObject(one) && Object.keys(one).length > 0 ? flat(one, `${at}${key}.`) : [[`${at}${key}`, one]],
  );
}

function inWords(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  if (Array.isArray(value) && value.every((one) => typeof one !== "object")) return value.join(", ") || "none";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
