import { Resolver } from "node:dns";
import { lookup as systemLookup } from "node:dns/promises";
import { codeOf } from "../thrown.ts";
import { DialError, wordsFor } from "./dial-error.ts";
import { insideName } from "./inside-name.ts";
import { hostsFile, hostsIn, resolverFile, searchDomainsIn } from "./local-names.ts";
import { absentCodes, type IpVersion, type Lookup, type LookupClock, SystemLookup } from "./system-lookup.ts";

export type { IpVersion, Lookup } from "./system-lookup.ts";

const queryTimeoutMs = 2500;
const resolverMaxAgeMs = 30_000;
/** How long the answer "no such name" is cached, ms. */
const absentMs = 30_000;
const maxAbsent = 10_000;

export interface LookupOptions {
  /** Name servers instead of those of this machine. */
  servers?: readonly string[];
  /** Replaces the operating system's lookup. */
  system?: Lookup;
  /** Replaces the queries to DNS: the addresses of a fully qualified name. */
  query?: Lookup;
  hostsFile?: string;
  resolverFile?: string;
  clock?: LookupClock;
}

const realClock: LookupClock = {
  now: () => performance.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms).unref();
    return () => clearTimeout(timer);
  },
};

/**
 * Creates a lookup that reads the hosts file and queries DNS itself, with the search domains of this machine for names
 * that need them. The operating system is asked for what only it may know (`.local`, names of one label, top-level
 * domains that are not public), through {@link SystemLookup}: `getaddrinfo` runs in a pool of four threads. Names that
 * do not exist are remembered for 30 s. `owner` of a lookup is who shares its places fairly: the organisation.
 */
export function createLookup(options: LookupOptions = {}): Lookup {
  const clock = options.clock ?? realClock;
  const query = options.query ?? dnsQuery(options.servers);
  const system = new SystemLookup(options.system ?? systemAddresses, clock);
  const hosts = hostsIn(options.hostsFile ?? hostsFile);
  const searchDomains = searchDomainsIn(options.resolverFile ?? resolverFile);
  const absent = new Map<string, { until: number; error: DialError }>();

  const inDns = async (name: string, wanted: IpVersion): Promise<string[]> => {
    const searched = searchDomains().map((domain) => `${name}.${domain}`);
    const candidates = name.includes(".") ? [name, ...searched] : [...searched, name];
    let failure: DialError | null = null;
    for (const candidate of candidates) {
      try {
        return await query(candidate, "", wanted);
      } catch (error) {
        if (!(error instanceof DialError)) throw error;
        if (failure === null || !absentCodes.has(error.code)) failure = error;
      }
    }
    throw failure!;
  };

  const find = async (name: string, owner: string, wanted: IpVersion): Promise<string[]> => {
    const isInside = insideName(name) !== null;
    if (name === "local" || name.endsWith(".local")) return await system.lookup(name, owner);
    try {
      return await inDns(name, wanted);
    } catch (error) {
      // ECONNREFUSED: without a DNS server the system may still have another source.
      const askSystem = isInside ? absentCodes.has(codeOf(error)) : codeOf(error) === "ECONNREFUSED";
      if (!askSystem) throw error;
      return await system.lookup(name, owner);
    }
  };

  return async (name, owner = "", wanted = "any") => {
    const listed = hosts().get(name);
    if (listed !== undefined) return listed;
    // RFC 6761 section 6.3: never asked for.
    if (name === "localhost" || name.endsWith(".localhost")) return ["127.0.0.1", "::1"];
    const known = absent.get(name);
    if (known !== undefined && known.until > clock.now()) throw known.error;
    absent.delete(name);
    try {
      return await find(name, owner, wanted);
    } catch (error) {
      if (error instanceof DialError && absentCodes.has(error.code)) {
        absent.set(name, { until: clock.now() + absentMs, error });
        if (absent.size > maxAbsent) absent.delete(absent.keys().next().value!);
      }
      throw error;
    }
  };
}

/** The lookup of this machine. */
export const resolve: Lookup = createLookup();

/** Queries both address families of a name at its name servers. */
function dnsQuery(servers?: readonly string[]): Lookup {
  // One for all queries: a new resolver per query costs four times as much.
  let resolver: Resolver | null = null;
  let madeAt = 0;
  const shared = (): Resolver => {
    if (resolver !== null) return resolver;
    resolver = new Resolver({ timeout: queryTimeoutMs, tries: 2 });
    if (servers !== undefined) resolver.setServers(servers);
    madeAt = performance.now();
    return resolver;
  };
  return (name, _owner, wanted = "any") =>
    new Promise((settle, reject) => {
      const found: Record<"4" | "6", string[]> = { 4: [], 6: [] };
      const failures: Partial<Record<"4" | "6", Error>> = {};
      let pending = 2;
      const answer = (family: "4" | "6") => (error: Error | null, addresses?: string[]) => {
        if (error === null) found[family] = addresses ?? [];
        else failures[family] = error;
        if (--pending > 0) return;
        const ordered = interleave(found["4"], found["6"]);
        const missed = wanted === "any" ? undefined : failures[wanted];
        if (ordered.length > 0 && (missed === undefined || absentCodes.has(codeOf(missed)))) return settle(ordered);
        const all = Object.values(failures);
        const failure = all.find((candidate) => !absentCodes.has(codeOf(candidate))) ?? all[0];
        // A resolver reads the machine's servers once: a new one picks up changes.
        if (performance.now() - madeAt > resolverMaxAgeMs) resolver = null;
        reject(new DialError("dns", wordsFor(failure), codeOf(failure), failure));
      };
      shared().resolve4(name, answer("4"));
      shared().resolve6(name, answer("6"));
    });
}

async function systemAddresses(name: string): Promise<string[]> {
  try {
    return (await systemLookup(name, { all: true, order: "verbatim" })).map((entry) => entry.address);
  } catch (error) {
    throw new DialError("dns", wordsFor(error), codeOf(error), error);
  }
}

/** Alternates the families (RFC 8305 section 4), IPv4 first: hosts with broken IPv6 are common. */
function interleave(v4: string[], v6: string[]): string[] {
  const ordered: string[] = [];
  for (let i = 0; i < Math.max(v4.length, v6.length); i++) {
    if (v4[i] !== undefined) ordered.push(v4[i] as string);
    if (v6[i] !== undefined) ordered.push(v6[i] as string);
  }
  return ordered;
}
