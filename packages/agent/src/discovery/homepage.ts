import type { Findings, Found } from "./found.ts";

/**
 * Homepage (gethomepage): `siteMonitor` is the URL of an http check, `ping` the host of a ping check. `href` alone is a
 * link. `widget.*` has keys of other services and is never read.
 */
export function readHomepage(found: Found, prefix: string, findings: Findings): boolean {
  // Kubernetes wants `enabled`, Docker has no such label.
  if (prefix.includes("/") && found.labels[`${prefix}enabled`] !== "true") return false;
  const of = (name: string): string => (found.labels[`${prefix}${name}`] ?? "").trim();
  const [site, ping] = [of("siteMonitor"), of("ping")];
  if (site === "" && ping === "") return false;
  const name = of("name") || found.name;
  if (site !== "")
    findings.add(found, findings.keyOf(`homepage/${found.id}`), { name, check: { type: "http", url: site } });
  if (ping === "") return true;
  // A URL is allowed there; its host is pinged.
  const host =
    /^https?:\/\//i.test(ping) && URL.canParse(ping) ? new URL(ping).hostname.replaceAll(/[[\]]/g, "") : ping;
  const key = findings.keyOf(`homepage/${found.id}/ping`);
  findings.add(found, key, { name: site === "" ? name : `${name} ping`, check: { type: "ping", host } });
  return true;
}
