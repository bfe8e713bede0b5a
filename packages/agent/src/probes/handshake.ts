import type { X509Certificate } from "node:crypto";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { materialOf } from "@statusmesh/shared/checks/certificates";
import { daysLeft, expiryShort } from "@statusmesh/shared/checks/expiry";
import { DialError } from "@statusmesh/shared/net/dial-error";
import { clientContext, secure } from "@statusmesh/shared/net/tls";
import { type Authorities, authoritiesOf, commonName, pathOf, sentBy } from "./chain.ts";
import { oncePer, type ProbeContext } from "./probe.ts";

/** Days before the end of a certificate from which a run warns. */
const warningDays = 14;

export interface HandshakeOptions {
  /** Name for the certificate and SNI. */
  host: string;
  verify: boolean;
  /** ALPN protocols; as in {@link secure}. */
  protocols?: readonly string[];
  /** False for another server than the one that the check names: it is not shown the client certificate. */
  own?: boolean;
}

/** Codes of OpenSSL for an issuer that is not trusted. */
const untrusted = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);

// Created once per check: a context with an authority of its own takes a third of a handshake.
const contexts = oncePer((spec: object) => ({
  verifying: memoized(() => clientContext(true, materialOf(spec)!)),
  accepting: memoized(() => clientContext(false, materialOf(spec)!)),
  foreign: memoized(() => clientContext(true, { ca: materialOf(spec)!.ca })),
  authorities: memoized(() => authoritiesOf(materialOf(spec)!.ca)),
}));

function memoized<T>(make: () => T): () => T {
  let made: { value: T } | null = null;
  return () => (made ??= { value: make() }).value;
}

/** The context of a check that has certificates of its own; undefined for the usual one. */
export function contextOf(spec: object, { verify, own = true }: Pick<HandshakeOptions, "verify" | "own">) {
  if (materialOf(spec) === null) return undefined;
  const { verifying, accepting, foreign } = contexts(spec);
  if (own) return verify ? verifying() : accepting();
  return verify ? foreign() : undefined;
}

/** The authorities that a check trusts. */
export const trustedBy = (spec: object): Promise<Authorities> =>
  materialOf(spec) === null ? authoritiesOf(undefined) : contexts(spec).authorities();

/**
 * TLS of a check over a connected socket, with the certificates that the check chooses. Keeps the end of the server's
 * certificate, and warns of what is wrong with a certificate that is accepted.
 */
export async function handshake(
  spec: object,
  socket: Socket,
  { host, verify, protocols, own = true }: HandshakeOptions,
  { signal, trace, now, warn }: ProbeContext,
): Promise<TLSSocket> {
  const context = contextOf(spec, { verify, own });
  const options = { socket, host, verify, signal, trace, now, context, ...(protocols !== undefined && { protocols }) };
  const secured = await secure(options).catch((error: unknown) => {
    throw error instanceof DialError && untrusted.has(error.code) ? withRemedy(error, spec) : error;
  });
  const leaf = secured.getPeerX509Certificate();
  if (leaf === undefined) return secured;
  const notAfter = Date.parse(leaf.validTo);
  if (notAfter >= 0)
    trace.certificateNotAfter = Math.min(trace.certificateNotAfter ?? Infinity, notAfter, 8_640_000_000_000);
  warnOfExpiry(notAfter, host, now(), warn);
  // The path of a connection that OpenSSL has verified is complete and in time.
  for (const text of chainWarnings(host, sentBy(leaf), verify ? null : await trustedBy(spec), now())) warn(text);
  return secured;
}

function withRemedy({ message, code, cause }: DialError, spec: object): DialError {
  const remedy =
    materialOf(spec)?.ca === undefined
      ? "trust its authority on the agent (--ca-file)"
      : "the check trusts its own authorities only (certificates.ca_id)";
  return new DialError("certificate", `${message}: ${remedy}`, code, cause);
}

function warnOfExpiry(notAfter: number, host: string, now: number, warn: (text: string) => void): void {
  const left = Math.floor((notAfter - now) / 86_400_000);
  if (left < 0) warn(`The certificate of ${host} has expired.`);
  else if (left < warningDays) {
    const time = left === 0 ? "less than a day" : left === 1 ? "1 day" : `${left} days`;
    warn(`The certificate of ${host} expires in ${time}.`);
  }
}

const nameOf = (certificate: X509Certificate, whose: "subject" | "issuer"): string =>
  commonName(certificate, whose) ?? "a certificate without a common name";

/**
 * What clients may refuse in the certificates that a server sent. `authorities`: those that are trusted, to find a
 * missing intermediate certificate; null where the connection is verified already.
 */
export function chainWarnings(
  host: string,
  sent: readonly X509Certificate[],
  authorities: Authorities | null,
  now: number,
): string[] {
  const warnings: string[] = [];
  const [leaf] = sent as [X509Certificate];
  if (!/(?:^|, )(?:DNS|IP Address):/.test(leaf.subjectAltName ?? ""))
    warnings.push(
      `The certificate of ${host} has its name only as common name, which browsers ignore: it needs a subjectAltName.`,
    );
  for (const one of sent.slice(1)) {
    const end = Date.parse(one.validTo);
    if (end >= now) continue;
    const words = expiryShort(nameOf(one, "subject"), daysLeft(end, now), new Date(end).toISOString());
    warnings.push(`${host} sends a certificate that has ended: ${words}.`);
  }
  if (authorities === null) return warnings;
  const { certificates, trusted } = pathOf(sent, authorities);
  const last = certificates.at(-1)!;
  if (!trusted && last.subject !== last.issuer)
    warnings.push(
      `${host} does not send the certificate of ${nameOf(last, "issuer")}, which issued ${nameOf(last, "subject")} ` +
        "and is not trusted here: an intermediate certificate is missing, or the authority is an internal one.",
    );
  return warnings;
}
