import { checkKinds } from "@statusmesh/shared/checks";
import { type Check, mapTexts, Secret } from "@statusmesh/shared/foreign/check";
import type { Item } from "@statusmesh/shared/foreign/item";
import { clamp, line } from "@statusmesh/shared/foreign/values";
import type { Json } from "@statusmesh/shared/json";
import type { Findings, Found } from "./found.ts";

const longestIntervalSecs = 31 * 86_400;

/** A monitor of another product as a declared one. */
export function declaredOf(
  check: Check,
  more: { name: string; intervalSecs: number; tags?: readonly string[]; enabled?: boolean },
): Json {
  const { minIntervalSecs, reported } = { reported: false, ...checkKinds[check.type] };
  const tags = [...new Set((more.tags ?? []).map((tag) => line(tag, 50)).filter((tag) => tag !== ""))].slice(0, 50);
  return {
    name: line(more.name, 200),
    // Labels have no environment: a secret is as readable as they are.
    check: mapTexts(check, (text) => (text instanceof Secret ? text.value : text)),
    ...(reported ? {} : { interval: clamp(more.intervalSecs, minIntervalSecs, longestIntervalSecs) }),
    ...(tags.length === 0 ? {} : { tags }),
    ...(more.enabled === false ? { enabled: false } : {}),
  };
}

/** Lists what an equivalent does not say. True where the item has an equivalent. */
export function remarkOn(item: Item, found: Found, key: string, findings: Findings): boolean {
  for (const { reason, weight } of item.notes)
    if (item.isRefused || weight !== "detail") findings.ignore(found, `${item.name}: ${reason}`);
  if (item.isRefused) findings.kept.add(key);
  return !item.isRefused;
}
