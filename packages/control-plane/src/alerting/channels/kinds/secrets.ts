import type { TSchema } from "typebox";
import { pointerSegment } from "@statusmesh/shared/secrets";

type Change = (secret: string, pointer: string) => string;

/** The names of the fields that have `secret: true`. */
export function secretFields(schema: TSchema): string[] {
  const fields = fieldsOf(schema);
  return Object.keys(fields).filter((name) => fields[name]!.secret === true);
}

const fieldsOf = (schema: TSchema): Record<string, { secret?: boolean; shows?: number }> =>
  (schema as { properties?: Record<string, { secret?: boolean; shows?: number }> }).properties ?? {};

/**
 * A function that returns a copy of a config with a change applied to every secret: to the texts whose schema has
 * `secret: true`, and to the values of records and lists that have it. Absent and null values stay.
 */
export function mapSecretsOf<Config>(schema: TSchema): (config: Config, change: Change) => Config {
  const names = secretFields(schema);
  return (config, change) => {
    const copy = { ...config } as Record<string, unknown>;
    for (const name of names) copy[name] = changed(copy[name], `/${name}`, change);
    return copy as Config;
  };
}

/** The number of last characters of a secret that are shown behind its mask, by field. */
export const shownEnds = (schema: TSchema): ReadonlyMap<string, number> =>
  new Map(
    Object.entries(fieldsOf(schema)).flatMap(([name, { shows }]) => (shows === undefined ? [] : [[name, shows]])),
  );

function changed(value: unknown, pointer: string, change: Change): unknown {
  if (typeof value === "string") return change(value, pointer);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((secret, at) => change(String(secret), `${pointer}/${at}`));
  return Object.fromEntries(
    Object.entries(value).map(([key, secret]) => [key, change(String(secret), `${pointer}/${pointerSegment(key)}`)]),
  );
}
