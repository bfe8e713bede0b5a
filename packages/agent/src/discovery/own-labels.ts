import { isObject, type Json } from "@statusmesh/shared/json";
import type { Findings, Found } from "./found.ts";

/** Fields that are texts, also where they look like JSON. */
const texts = new Set(["name", "url"]);

/**
 * Our own labels: `<prefix><key>.<field>`, split at the last dot. A value is JSON, or text where it is none. `check` is
 * one JSON; `url` alone is an http check. True where the object has some.
 */
export function readOwnLabels(found: Found, prefix: string, findings: Findings): boolean {
  const monitors = new Map<string, Json>();
  for (const [label, value] of Object.entries(found.labels)) {
    if (!label.startsWith(prefix)) continue;
    const rest = label.slice(prefix.length);
    const dot = rest.lastIndexOf(".");
    if (dot < 1 || dot === rest.length - 1) {
      findings.refuse(found, null, `the label ${label} is not ${prefix}<key>.<field>`);
      continue;
    }
    const [key, field] = [rest.slice(0, dot), rest.slice(dot + 1)];
    const fields = monitors.get(key) ?? (Object.create(null) as Json);
    fields[field] = texts.has(field) ? value : jsonOrText(value);
    monitors.set(key, fields);
  }
  for (const [key, { url, ...fields }] of monitors) {
    const check = fields["check"] ?? (url === undefined ? undefined : { type: "http", url });
    if (url !== undefined && fields["check"] !== undefined)
      findings.refuse(found, key, `${key} has both check and url: write the address into check`);
    else if (!isObject(check))
      findings.refuse(found, key, `${key} needs check, a JSON object such as {"type":"tcp",…}, or url`);
    else findings.add(found, key, { name: found.name, ...fields, check });
  }
  return monitors.size > 0;
}

/** Keys that the labels of an object name, wrong ones among them. */
export function ownKeys({ labels }: Found, prefix: string): string[] {
  const keys = Object.keys(labels)
    .filter((label) => label.startsWith(prefix))
    .map((label) => label.slice(prefix.length, Math.max(prefix.length, label.lastIndexOf("."))));
  return [...new Set(keys)];
}

function jsonOrText(value: string): unknown {
  try {
    return JSON.parse(value) as unknown;
  } catch {
    return value;
  }
}
