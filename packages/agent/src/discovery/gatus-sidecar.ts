import { parseYaml } from "@statusmesh/shared/declared/yaml";
import { checksOf } from "@statusmesh/shared/foreign/gatus-checks";
import { Item } from "@statusmesh/shared/foreign/item";
import { duration, isRow, list, type Row, row, text, texts, yamlFlag } from "@statusmesh/shared/foreign/values";
import { minuteMs } from "@statusmesh/shared/time";
import type { Findings, Found } from "./found.ts";
import { declaredOf, remarkOn } from "./foreign.ts";

/*
 * The Gatus sidecar (home-operations/gatus-sidecar, README): `enabled` is the switch, `endpoint` a YAML fragment of an
 * endpoint of Gatus over that of the Gateway or IngressClass.
 */

const prefix = "gatus.home-operations.com/";
const maxCharacters = 65_536;

/** Words that Go's strconv.ParseBool reads as true; anything else excludes the object. */
const isTrue = (value: string): boolean => /^(?:1|t|T|TRUE|true|True)$/.test(value);

/** Reads the annotations of an object; true where it has some that decide about it. */
export function readGatusSidecar(found: Found, isAuto: boolean, findings: Findings): boolean {
  const { labels, parent = {} } = found;
  const [enabled, fragment] = [labels[`${prefix}enabled`], labels[`${prefix}endpoint`]];
  if (enabled === undefined && (fragment === undefined || !isAuto)) return false;
  if (enabled !== undefined && !isTrue(enabled)) return true;
  const key = findings.keyOf(`gatus/${found.id}`);
  try {
    const endpoint = merged(fragmentIn(parent[`${prefix}endpoint`]), fragmentIn(fragment));
    addEndpoint(found, key, endpoint, findings);
  } catch (error) {
    findings.refuse(found, key, `the annotation ${prefix}endpoint: ${(error as Error).message}`);
  }
  return true;
}

function addEndpoint(found: Found, key: string, given: Row, findings: Findings): void {
  const endpoint = { ...endpointOf(found, given), ...overlay(given) };
  if (text(endpoint["url"]) === "")
    return findings.refuse(found, key, "it has no host: write url into the annotation endpoint");
  if (list(given["alerts"]).length > 0)
    findings.ignore(found, "its alerts are left out: it notifies the default channels");
  const item = new Item("monitor", found.name);
  const parts = checksOf(item, endpoint);
  if (!remarkOn(item, found, key, findings)) return;
  const group = text(endpoint["group"]);
  for (const [at, { name, check, everySecs }] of parts.entries())
    findings.add(
      found,
      at === 0 ? key : `${key}/${check.type}`,
      declaredOf(check, {
        name:
          at === 0
            ? text(endpoint["name"]) || found.name
            : `${text(endpoint["name"]) || found.name}${name.slice(found.name.length)}`,
        intervalSecs: everySecs ?? duration(endpoint["interval"], minuteMs) / 1000,
        tags: group === "" ? [] : [`group/${group}`],
        enabled: yamlFlag(endpoint["enabled"], true),
      }),
    );
}

/** The endpoint that the object itself makes. */
function endpointOf({ name, url }: Found, given: Row): Row {
  const path = given["path"];
  const isWeb = url !== null && /^https?:/.test(url);
  const own = isWeb && typeof path === "string" ? new URL(path || "/", url).href.replace(/(?<=[^/:])\/$/, "") : url;
  const base = { name, url: own, conditions: [isWeb ? "[STATUS] == 200" : "[CONNECTED] == true"] };
  if (given["guarded"] === undefined || url === null) return base;
  const host = new URL(url).hostname;
  return { name, url: "1.1.1.1", dns: { "query-name": host, "query-type": "A" }, conditions: ["len([BODY]) == 0"] };
}

/** What the fragment says, by the types that the sidecar takes. */
function overlay(given: Row): Row {
  const { path: _path, guarded: _guarded, conditions, ...rest } = given;
  if (conditions === undefined) return rest;
  return { ...rest, conditions: typeof conditions === "string" ? [conditions] : texts(conditions) };
}

/** Bounded as our own files are. */
function fragmentIn(annotation: string | undefined): Row {
  if (annotation === undefined || annotation.trim() === "") return {};
  if (annotation.length > maxCharacters) throw new Error("it has more than 64 Ki characters");
  const { value, mistakes } = parseYaml(annotation, "endpoint");
  if (mistakes.length > 0) throw new Error(`line ${mistakes[0]!.line ?? 1}: ${mistakes[0]!.message}`);
  if (!isRow(value)) throw new Error("it is no map");
  return value;
}

/** Maps are merged, of other values the child's wins. */
function merged(parent: Row, child: Row): Row {
  const both: Record<string, unknown> = { ...parent };
  for (const [name, value] of Object.entries(child))
    both[name] = isRow(value) && isRow(parent[name]) ? merged(row(parent[name]), value) : value;
  return both;
}
