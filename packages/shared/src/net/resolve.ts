import { Resolver } from "node:dns";
import { lookup as systemLookup } from "node:dns/promises";
import { readFileSync, statSync } from "node:fs";
import { DialError, codeOf, wordsFor } from "./dial-error.ts";

/** Addresses of a name, both families, in the order in which to try them. Rejects with a DialError of phase `dns`. */
export type Lookup = (name: string) => Promise<string[]>;

const hostsFile = process.platform === "win32" ? "C:\\Windows\\System32\\drivers\\etc\\hosts" : "/etc/hosts";
const hostsMaxAgeMs = 5000;
let hostsReadAt = -Infinity;
let hostsMtime = -1;
let hostNames: ReadonlySet<string> = new Set();

/** Names that the hosts file answers. They are looked up anew only when the file has changed. */
function namesInHostsFile(): ReadonlySet<string> {
  if (performance.now() - hostsReadAt < hostsMaxAgeMs) return hostNames;
  hostsReadAt = performance.now();
  try {
    const mtime = statSync(hostsFile).mtimeMs;
    if (mtime !== hostsMtime) {
      const lines = readFileSync(hostsFile, "utf8").split("\n");
      hostNames = new Set(lines.flatMap((line) => line.replace(/#.*/, "").trim().toLowerCase().split(/\s+/).slice(1)));
      hostsMtime = mtime;
    }
  } catch {
    hostNames = new Set();
  }
  return hostNames;
}

const queryTimeoutMs = 2500;
const resolverMaxAgeMs = 30_000;

/** Error codes of "no such name" and "no DNS server here". */
const absent = new Set(["ENOTFOUND", "ENODATA", "ECONNREFUSED"]);

/**
 * Creates a lookup that queries DNS itself, and the operating system only where DNS cannot know: short names, names in
 * the hosts file, `.local`, and names that DNS does not have. `getaddrinfo` runs in a pool of four threads, so four
 * names with a dead name server would block every other check.
 *
 * `servers` replaces those of this machine; `system` replaces the operating system's lookup.
 */
export function createLookup(servers?: readonly string[], system: Lookup = systemAddresses): Lookup {
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
  return (name) => {
    if (!name.includes(".") || name.endsWith(".local") || name.endsWith(".localhost") || namesInHostsFile().has(name))
      return system(name);
    return new Promise((settle, reject) => {
      const found: [string[], string[]] = [[], []];
      const failures: Error[] = [];
      let pending = 2;
      const answer = (family: 0 | 1) => (error: Error | null, addresses?: string[]) => {
        if (error === null) found[family] = addresses ?? [];
        else failures.push(error);
        if (--pending > 0) return;
        const ordered = interleave(...found);
        if (ordered.length > 0) return settle(ordered);
        const failure = failures.find((candidate) => !absent.has(codeOf(candidate)));
        if (failure === undefined) return settle(system(name));
        // A resolver reads the machine's servers once: a new one picks up changes.
        if (performance.now() - madeAt > resolverMaxAgeMs) resolver = null;
        reject(new DialError("dns", wordsFor(failure), codeOf(failure), failure));
      };
      shared().resolve4(name, answer(0));
      shared().resolve6(name, answer(1));
    });
  };
}

/** The lookup of this machine. */
export const resolve: Lookup = createLookup();

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
