import { isIP } from "node:net";
import type { Item } from "@statusmesh/shared/foreign/item";
import { registrableDomain } from "@statusmesh/shared/net/registrable-domain";
import type { Draft } from "./draft.ts";

/** Domains of one import, each of which has one monitor. */
export type KnownDomains = Set<string>;

/** Adds a monitor of the domain of a host, once a day, for a reminder of the other product; none for another host. */
export function addDomain(
  draft: Draft,
  item: Item,
  { host, known, alerts = null }: { host: string; known: KnownDomains; alerts?: readonly string[] | null },
): void {
  if (!host.includes(".") || isIP(host) !== 0) return;
  let domain: string;
  try {
    ({ domain } = registrableDomain(host));
  } catch {
    // A name of an own network.
    return;
  }
  item.note("reminded of its domain too: that is a monitor of its own, once a day", "detail");
  if (known.size === known.add(domain).size) return;
  draft.monitor(item, {
    name: `${domain} domain`,
    check: { type: "domain_expiry", domain: host, warn_days: 21, critical_days: 7 },
    interval: 86_400,
    alerts,
    confirmations: 1,
  });
}
