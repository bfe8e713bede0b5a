import { X509Certificate } from "node:crypto";
import { setImmediate as turn } from "node:timers/promises";
import { trustedAuthorities } from "@statusmesh/shared/net/tls";
import { oncePer } from "../probe.ts";

/** Certificates of a server beyond this many are not looked at. */
const maxSent = 10;

/** The certificates that the server sent, its own first. */
export function sentBy(leaf: X509Certificate): X509Certificate[] {
  const sent: X509Certificate[] = [];
  // Node links them in the order in which they came.
  for (let one: X509Certificate | undefined = leaf; one !== undefined && sent.length < maxSent;) {
    sent.push(one);
    one = one.issuerCertificate;
  }
  return sent;
}

/** Authorities by their subject. */
export type Authorities = ReadonlyMap<string, readonly X509Certificate[]>;

/** The authorities of a check; without any, those that the agent trusts. Parsed once, a few at a time. */
export const authoritiesOf = (ca: { readonly pems: readonly string[] } | null): Promise<Authorities> =>
  parsedOnce(ca?.pems ?? trustedAuthorities());
const parsedOnce = oncePer(parsed);

async function parsed(pems: readonly string[]): Promise<Authorities> {
  const found = new Map<string, X509Certificate[]>();
  for (const [at, pem] of pems.entries()) {
    // Parsing all at once would hold other checks for 80 ms.
    if (at % 8 === 7) await turn();
    const one = new X509Certificate(pem);
    found.set(one.subject, [...(found.get(one.subject) ?? []), one]);
  }
  return found;
}

const endOf = (one: X509Certificate): number => Date.parse(one.validTo);
const issued = (issuer: X509Certificate, one: X509Certificate): boolean =>
  one.checkIssued(issuer) && one.verify(issuer.publicKey);

/** The certificates from the server's own to an authority, and whether that is trusted. */
export interface Path {
  certificates: X509Certificate[];
  trusted: boolean;
}

/**
 * The path that verifies from the server's own certificate. A trusted authority comes before a certificate that was
 * sent, as in OpenSSL, so that an expired cross-signature which a server still sends does not count. Of several issuers
 * the one that ends last is taken.
 */
export function pathOf(sent: readonly X509Certificate[], authorities: Authorities): Path {
  const certificates = [sent[0]!];
  for (;;) {
    const last = certificates.at(-1)!;
    const issuers = (candidates: readonly X509Certificate[]) =>
      candidates
        .filter((one) => !certificates.includes(one) && issued(one, last))
        .sort((one, other) => endOf(other) - endOf(one))[0];
    const known = authorities.get(last.issuer) ?? [];
    if (known.some((one) => one.fingerprint256 === last.fingerprint256)) return { certificates, trusted: true };
    const root = issuers(known);
    if (root !== undefined) return { certificates: [...certificates, root], trusted: true };
    const next = last.subject === last.issuer ? undefined : issuers(sent);
    if (next === undefined) return { certificates, trusted: false };
    certificates.push(next);
  }
}

/** The most specific common name of one side, shortened so that a document stays complete; null without one. */
export function commonName(certificate: X509Certificate, whose: "subject" | "issuer"): string | null {
  const names: { CN?: string | string[] } | undefined = certificate.toLegacyObject()[whose];
  const text = [names?.CN ?? []].flat().at(-1) ?? "";
  if (text === "") return null;
  return text
    .slice(0, 200)
    .replaceAll(/\p{Cc}/gu, " ")
    .toWellFormed();
}
