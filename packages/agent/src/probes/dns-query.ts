import type { CancelSignal } from "@statusmesh/shared/net/cancellation";
import { Resolver, type CaaRecord, type MxRecord, type SoaRecord, type SrvRecord } from "node:dns";
import type { RecordType } from "@statusmesh/shared/checks/dns";
import { hostAndPort } from "@statusmesh/shared/url";

/**
 * A lost packet is sent again after this time, then with doubled waits, until the deadline of the check.
 */
const firstRetryMs = 1000;
/** Enough for the longest deadline: nine tries wait 511 s. */
const tries = 9;
/** A resolver reads the machine's name servers once: a new one sees whether they have changed. */
const maxAgeMs = 30_000;
/** Name servers whose idle resolver is kept. */
const maxIdle = 64;

/**
 * The resolver of one name server, shared by its open queries: one for each query costs four times as much. Queries of
 * a resolver can only be cancelled all together. So a resolver with an abandoned query takes no new ones, and is
 * cancelled when its other queries have ended.
 */
class SharedResolver {
  readonly resolver = new Resolver({ timeout: firstRetryMs, tries });
  readonly madeAt = performance.now();
  open = 0;
  abandoned = false;

  constructor(server: string | null) {
    if (server !== null) this.resolver.setServers([server]);
  }
}

const shared = new Map<string, SharedResolver>();

function resolverOf(server: string | null): SharedResolver {
  const key = server ?? "";
  const known = shared.get(key);
  if (known !== undefined && !known.abandoned && performance.now() - known.madeAt < maxAgeMs) return known;
  const made = new SharedResolver(server);
  shared.delete(key);
  shared.set(key, made);
  if (shared.size > maxIdle) {
    for (const [other, { open }] of shared) {
      if (open > 0 || other === key) continue;
      shared.delete(other);
      break;
    }
  }
  return made;
}

/**
 * Asks a name server (null: the machine's own) for the records of a name, and answers each as one line of text. UDP,
 * and TCP where the answer was truncated. Rejects with the resolver's error and its `code`, or with
 * the reason of the signal.
 */
export function ask(
  server: { address: string; port: number } | null,
  name: string,
  type: RecordType,
  signal: CancelSignal,
): Promise<string[]> {
  if (signal.aborted) return Promise.reject(signal.reason as Error);
  const at = resolverOf(server === null ? null : hostAndPort(server.address, server.port));
  at.open++;
  return new Promise((settle, reject) => {
    let over = false;
    const end = (): boolean => {
      if (over) return false;
      over = true;
      signal.removeEventListener("abort", onAbort);
      if (--at.open === 0 && at.abandoned) at.resolver.cancel();
      return true;
    };
    const onAbort = (): void => {
      at.abandoned = true;
      if (end()) reject(signal.reason as Error);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      questions[type](at.resolver, name, (error, answers) => {
        if (!end()) return;
        if (error === null) settle(answers);
        else reject(error);
      });
    } catch (error) {
      if (end()) reject(error as Error);
    }
  });
}

type Question = (resolver: Resolver, name: string, done: (error: Error | null, answers: string[]) => void) => void;

/**
 * A name ends without its dot, as people write it; the root, which an MX or SRV record names for "none", is the dot.
 */
const nameText = (name: string): string => (name === "" ? "." : name);

/**
 * One question for each record type, and its answers as zone files have them (RFC 1035 section 5.1), names without
 * their final dot.
 */
const questions: { readonly [T in RecordType]: Question } = {
  A: (resolver, name, done) => resolver.resolve4(name, (error, found) => done(error, found)),
  AAAA: (resolver, name, done) => resolver.resolve6(name, (error, found) => done(error, found)),
  CNAME: (resolver, name, done) => resolver.resolveCname(name, (error, found) => done(error, found?.map(nameText))),
  MX: (resolver, name, done) => resolver.resolveMx(name, (error, found) => done(error, found?.map(mx))),
  NS: (resolver, name, done) => resolver.resolveNs(name, (error, found) => done(error, found?.map(nameText))),
  TXT: (resolver, name, done) =>
    resolver.resolveTxt(name, (error, found) =>
      done(
        error,
        found?.map((chunks) => chunks.join("")),
      ),
    ),
  SOA: (resolver, name, done) =>
    resolver.resolveSoa(name, (error, found) => done(error, error === null ? [soa(found)] : [])),
  PTR: (resolver, name, done) => resolver.resolvePtr(name, (error, found) => done(error, found?.map(nameText))),
  CAA: (resolver, name, done) => resolver.resolveCaa(name, (error, found) => done(error, found?.map(caa))),
  SRV: (resolver, name, done) => resolver.resolveSrv(name, (error, found) => done(error, found?.map(srv))),
};

const mx = ({ priority, exchange }: MxRecord): string => `${priority} ${nameText(exchange)}`;
const srv = ({ priority, weight, port, name }: SrvRecord): string => `${priority} ${weight} ${port} ${nameText(name)}`;
const soa = (it: SoaRecord): string =>
  `${nameText(it.nsname)} ${nameText(it.hostmaster)} ${it.serial} ${it.refresh} ${it.retry} ${it.expire} ${it.minttl}`;

function caa({ critical, ...properties }: CaaRecord): string {
  const [tag = "", value = ""] = Object.entries(properties)[0] ?? [];
  return `${critical} ${tag} "${value}"`;
}
