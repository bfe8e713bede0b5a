import { X509Certificate } from "node:crypto";
import type { SecureContext } from "node:tls";
import type { PullReply, SentCertificate } from "@statusmesh/shared/protocol/agent-protocol";
import { certificatesOf } from "@statusmesh/shared/checks/certificates";
import { daysLeft } from "@statusmesh/shared/checks/expiry";
import { clientContext, pemsIn } from "@statusmesh/shared/net/tls";

/** A stored certificate as the agent keeps it; checks that name it share the object. */
interface Material extends SentCertificate {
  readonly pems: readonly string[];
  /** Distinguishes it from an earlier material with the same id. */
  readonly key: number;
}

/** The certificates that one check uses. */
export interface CheckCertificates {
  readonly ca: Material | null;
  readonly client: (Material & { readonly private_key: string }) | null;
}

const none: CheckCertificates = { ca: null, client: null };
const attached = new WeakMap<object, CheckCertificates>();
let keys = 0;

/** The certificates of checks. The newest of each id is kept, so that later replies share it. */
export class CertificateStore {
  #kept = new Map<string, Material>();

  /** Gives the checks and runs of a reply the certificates that it brings. */
  apply({ full, certificates = [], checks, runs }: Pick<PullReply, "full" | "certificates" | "checks" | "runs">): void {
    const before = this.#kept;
    this.#kept = new Map(full ? [] : before);
    for (const sent of certificates) {
      const known = before.get(sent.id);
      const isSame = known?.certificate === sent.certificate && known.private_key === sent.private_key;
      this.#kept.set(sent.id, isSame ? known : { ...sent, pems: pemsIn(sent.certificate), key: keys++ });
    }
    for (const { check } of [...checks, ...runs]) attachCertificates(check, (id) => this.#kept.get(id));
  }
}

/** Gives a check the certificates that it names. */
function attachCertificates(check: object, find: (id: string) => Material | undefined): void {
  const named = certificatesOf(check);
  if (named.length === 0) return;
  const found = { ca: null, client: null } as { -readonly [K in keyof CheckCertificates]: Material | null };
  for (const { id, kind } of named) {
    const material = find(id);
    if (material === undefined || (kind === "client") !== (material.private_key !== null)) return;
    found[kind] = material;
  }
  attached.set(check, found as CheckCertificates);
}

/** The certificates of a check; null where it names one that the agent has not been sent. */
export const certificatesFor = (check: object): CheckCertificates | null =>
  attached.get(check) ?? (certificatesOf(check).length === 0 ? none : null);

/** Certificates in all kept contexts; OpenSSL needs 8 kB for each. */
const maxKept = 4096;
/** Contexts by what is in them, the least recently used first. Making one of 32 authorities takes up to 40 ms. */
const contexts = new Map<string, { context: SecureContext; size: number }>();
let kept = 0;

/** The context of a connection with these certificates; undefined where it is the shared one. */
export function contextOf({ ca, client }: CheckCertificates, verify: boolean): SecureContext | undefined {
  if (ca === null && client === null) return undefined;
  const key = `${ca?.key ?? ""} ${client?.key ?? ""} ${verify}`;
  const known = contexts.get(key);
  contexts.delete(key);
  const one = known ?? {
    context: clientContext(verify, { ca: ca?.pems, client }),
    size: (ca?.pems.length ?? 0) + (client?.pems.length ?? 0),
  };
  if (known === undefined) kept += one.size;
  contexts.set(key, one);
  for (const [oldest, { size }] of contexts) {
    if (kept <= maxKept) break;
    contexts.delete(oldest);
    kept -= size;
  }
  return one.context;
}

/** A warning where the client certificate has ended, or ends within so many days; null for none. */
export function clientWarning({ client }: CheckCertificates, withinDays: number, now: number): string | null {
  if (client === null) return null;
  const end = Date.parse(new X509Certificate(client.pems[0]!).validTo);
  const day = new Date(end).toISOString().slice(0, 10);
  const left = daysLeft(end, now);
  if (left < 0) return `The client certificate of this check expired on ${day}.`;
  return left < withinDays ? `The client certificate of this check expires on ${day}.` : null;
}
