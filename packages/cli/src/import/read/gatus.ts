import { Failure } from "../../shell/output.ts";
import { isRow, type Row } from "@statusmesh/shared/foreign/values";
import { readYaml, yamlFiles } from "./foreign-yaml.ts";

/** Sections whose variables must be set: the others are not carried over. */
const imported = new Set(["endpoints", "external-endpoints", "alerting", "maintenance"]);

/**
 * The configuration of Gatus: a file, or a folder whose files are put together as Gatus does (maps merge, lists append,
 * a scalar stands once). Its variables are those of the environment. Throws Failure.
 */
export function readGatus(path: string): Row {
  const config = yamlFiles(path).reduce<Row>((before, file) => merged(before, readYaml(file), file), {});
  const missing = new Set<string>();
  const filled = Object.fromEntries(
    Object.entries(config).map(([name, value]) => [name, imported.has(name) ? expanded(value, missing) : value]),
  );
  if (missing.size > 0)
    throw new Failure(`${path} uses variables that are not set: ${[...missing].join(", ")}. Set them as for Gatus.`);
  return filled;
}

function merged(before: Row, more: Row, file: string): Row {
  const whole = new Map(Object.entries(before));
  for (const [name, value] of Object.entries(more)) {
    const known = whole.get(name);
    if (known === undefined) whole.set(name, value);
    else if (isRow(known) && isRow(value)) whole.set(name, merged(known, value, file));
    else if (Array.isArray(known) && Array.isArray(value))
      whole.set(name, [...(known as unknown[]), ...(value as unknown[])]);
    else throw new Failure(`${file}: ${name} is in another file too.`);
  }
  return Object.fromEntries(whole);
}

/** `$NAME` and `${NAME}` of every text; `$$` is a dollar. */
function expanded(value: unknown, missing: Set<string>): unknown {
  if (Array.isArray(value)) return value.map((one) => expanded(one, missing));
  if (isRow(value))
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, expanded(one, missing)]));
  if (typeof value !== "string") return value;
  return value.replaceAll(/\$\$|\$([A-Za-z_]\w*)|\$\{([^{}]*)\}/g, (all, bare?: string, braced?: string) => {
    const name = bare ?? braced;
    if (name === undefined) return "$";
    const found = process.env[name];
    // Gatus has no defaults: ${X:false} is a variable of this name, which is never set.
    if (found === undefined && !/^[A-Za-z_]\w*$/.test(name)) return "";
    if (found === undefined) missing.add(name);
    return found ?? all;
  });
}
