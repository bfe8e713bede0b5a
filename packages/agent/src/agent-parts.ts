import { dial } from "@statusmesh/shared/net/dial";
import { resolve } from "@statusmesh/shared/net/resolve";
import type { CorrectedClock } from "./clock.ts";
import type { Log } from "./log.ts";
import { MemoryLimit } from "./memory.ts";
import type { AgentMetrics } from "./metrics/metrics.ts";
import { NetworkGuard, type Place } from "./network.ts";
import type { RdapCache } from "./rdap/cache.ts";
import { RdapLookups } from "./rdap/lookups.ts";
import type { Spool } from "./spool.ts";

export interface AgentSettings {
  /** URL of the control plane; may have a path. */
  url: string;
  token: string;
  /** Reads the current token after a refusal; null when there is none. */
  newToken?: () => string | null;
  clock: CorrectedClock;
  version: string;
  allowPrivateTargets: boolean;
  /** Folder for data that survives a restart; null keeps it in memory. */
  stateDir: string | null;
  /** URL of the list of RDAP registries; IANA's by default. */
  rdapBootstrapUrl: string | undefined;
  /** The spool of results; closed by {@link Agent.stop}. */
  spool: Spool;
  /** Canaries: addresses that always answer; see {@link NetworkGuard}. */
  canaries: readonly Place[];
  /** Size of the spool on disk, bytes; null without one. */
  spoolBytes: (() => Promise<number>) | null;
  /** Maximum number of concurrent runs. */
  maxConcurrency: number;
  /** Memory limit above which no run starts, and what to do when that does not help. */
  memory: { limitBytes: number; collect: () => void; hopeless: () => void } | null;
  /** Called for every run; null for none. */
  metrics: AgentMetrics | null;
  /** Interval of the statistics in the log, ms. */
  statsMs: number;
  log: Log;
}

/** The memory limit; null without one. */
export function openMemoryLimit({ memory, clock, log }: AgentSettings): MemoryLimit | null {
  return memory === null ? null : new MemoryLimit({ ...memory, clock, log, rss: () => process.memoryUsage.rss() });
}

/** Lookups at registries. */
export function openRdap(settings: AgentSettings, cache: RdapCache, userAgent: string): RdapLookups {
  const { clock, log, allowPrivateTargets: allowPrivate, rdapBootstrapUrl: registriesUrl } = settings;
  return new RdapLookups({ cache, clock, log, userAgent, allowPrivate, registriesUrl });
}

/** The network guard, which dials as probes do. `changed` is called when the own network goes down or comes back. */
export function openNetwork(settings: AgentSettings, changed: () => void): NetworkGuard {
  const { clock, log, url, canaries, allowPrivateTargets } = settings;
  return new NetworkGuard({
    clock,
    log,
    controlPlane: placeOf(url),
    canaries,
    connect: async ({ host, port }, named, signal) => {
      const { socket, address } = await dial({ host, port, allowPrivate: named || allowPrivateTargets, signal });
      socket.destroy();
      return address;
    },
    lookUp: (name) => resolve(name),
    changed,
  });
}

/** Host and port of a URL. */
export function placeOf(url: string): Place {
  const { protocol, hostname, port } = new URL(url);
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? (protocol === "https:" ? 443 : 80) : Number(port),
  };
}
