import type { TSchema } from "typebox";
import { pointerSegment } from "@statusmesh/shared/secrets";

type Change = (secret: string, pointer: string) => string;

/** The names of the fields that have `secret: true`. */
export function secretFields(schema: TSchema): string[] {
  const { properties = {} } = schema as { properties?: Record<string, { secret?: boolean }> };
  return Object.keys(properties).filter((name) => properties[name]!.secret === true);
}

/**
 * A function that returns a copy of a config with a change applied to every secret: to the texts whose schema has
 * `secret: true`, and to the values of records that have it. Absent and null values stay.
 */
export function mapSecretsOf<Config>(schema: TSchema): (config: Config, change: Change) => Config {
  const names = secretFields(schema);
  return (config, change) => {
    const copy = { ...config } as Record<string, unknown>;
    for (const name of names) copy[name] = changed(copy[name], `/${name}`, change);
    return copy as Config;
  };
}

function changed(value: unknown, pointer: string, change: Change): unknown {
  if (typeof value === "string") return change(value, pointer);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, secret]) => [key, change(String(secret), `${pointer}/${pointerSegment(key)}`)]),
  );
}
