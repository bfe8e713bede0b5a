import { stringify } from "yaml";

/** A value as YAML, long texts on one line. */
export const yamlOf = (value: unknown): string => stringify(value, { lineWidth: 0 });
