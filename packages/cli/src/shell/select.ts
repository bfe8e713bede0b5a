import type { Command } from "commander";
import { isId } from "@statusmesh/shared/ids";
import type { Api } from "./api.ts";
import { collect } from "./options.ts";
import { Failure } from "./output.ts";

/** A monitor of `GET /targets`, the fields that are read. */
export interface Monitor {
  readonly id: string;
  readonly name: string;
  readonly enabled: boolean;
  readonly status: string;
  readonly managed_by?: { readonly project: string; readonly key: string } | null;
}

export interface Selection {
  monitor?: string[];
  tag?: string[];
}

/** Adds --monitor and --tag, both repeatable. */
export const selects = (command: Command): Command =>
  command
    .option("--monitor <monitor>", "id, name or key of a monitor; repeatable", collect)
    .option("--tag <tag>", "every monitor with this tag; repeatable", collect);

/** The selected monitors, each once. Throws Failure for a name that fits none or several, and for no monitor. */
export async function selectMonitors(api: Api, names: readonly string[], tags: readonly string[] = []) {
  const found = new Map<string, Monitor>();
  if (names.length > 0) {
    const all = (await api.all("/api/v1/targets")) as unknown as Monitor[];
    for (const name of names) {
      const one = theOne(all, name, "monitor");
      found.set(one.id, one);
    }
  }
  for (const tag of tags)
    for (const monitor of (await api.all(`/api/v1/targets?tag=${encodeURIComponent(tag)}`)) as unknown as Monitor[])
      found.set(monitor.id, monitor);
  if (found.size === 0)
    throw new Failure(tags.length > 0 ? `no monitor has the tag ${tags.join(" or ")}.` : "no monitor is selected.");
  return [...found.values()];
}

/** The one with this id, key or name. Throws Failure. */
export function theOne<T extends { id: string; name: string; managed_by?: { project: string; key: string } | null }>(
  all: readonly T[],
  wanted: string,
  what: string,
): T {
  const byId = isId(wanted) ? all.filter(({ id }) => id === wanted.toLowerCase()) : [];
  const keyed = all.filter(
    ({ managed_by: by }) => by != null && (by.key === wanted || `${by.project}/${by.key}` === wanted),
  );
  const named = all.filter(({ name }) => name === wanted);
  const found = [byId, keyed, named].find((some) => some.length > 0) ?? [];
  const [one, second] = found;
  if (one === undefined) throw new Failure(`there is no ${what} with the id, key or name ${wanted}.`);
  if (second !== undefined)
    throw new Failure(`${found.length} ${what}s are called ${wanted}: ${found.map(({ id }) => id).join(", ")}.`);
  return one;
}
