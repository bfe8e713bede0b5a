import type { X509Certificate } from "node:crypto";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { daysLeft, expiryShort } from "@statusmesh/shared/checks/expiry";
import { DialError } from "@statusmesh/shared/net/dial-error";
import { secure } from "@statusmesh/shared/net/tls";
import { clientWarning, contextOf } from "./certificates.ts";
import { type Authorities, authoritiesOf, commonName, pathOf, sentBy } from "./chain.ts";
import type { ProbeContext } from "../probe.ts";

/** Days before the end of a certificate from which a run warns. */
const warningDays = 14;

export interface HandshakeOptions {
  /** Name for the certificate and SNI. */
  host: string;
  verify: boolean;
  /** ALPN protocols; as in {@link secure}. */
  protocols?: readonly string[];
  /** False for a server that must not see the client certificate of the check. */
  isOwn?: boolean;
}

/** Codes of OpenSSL for an issuer that is not trusted. */
const untrusted = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);

/**
 * TLS of a check over a connected socket. Keeps the end of the server's certificate, and warns of what is
 * wrong with a certificate that is accepted.
 */
export async function handshake(
  socket: Socket,
  { host, verify, protocols, isOwn = true }: HandshakeOptions,
  { signal, trace, now, warn, certificates: { ca, client } }: ProbeContext,
): Promise<TLSSocket> {
  const used = { ca, client: isOwn ? client : null };
  const context = contextOf(used, verify);
  const options = { socket, host, verify, context, signal, trace, now, ...(protocols !== undefined && { protocols }) };
  const ending = clientWarning(used, warningDays, now());
  if (ending !== null) warn(ending);
  const secured = await secure(options).catch((error: unknown) => {
    throw error instanceof DialError && untrusted.has(error.code) ? withRemedy(error, ca !== null) : error;
  });
  const leaf = secured.getPeerX509Certificate();
  if (leaf === undefined) return secured;
  const notAfter = Date.parse(leaf.validTo);
  if (notAfter >= 0)
    trace.certificateNotAfter = Math.min(trace.certificateNotAfter ?? Infinity, notAfter, 8_640_000_000_000);
  warnOfExpiry(notAfter, host, now(), warn);
  // The path of a connection that OpenSSL has verified is complete and in time.
  for (const text of chainWarnings(host, sentBy(leaf), verify ? null : await authoritiesOf(ca), now())) warn(text);
  return secured;
}

/** Names what would be trusted; `chosen`: whether the check has an authority of its own. */
const withRemedy = ({ message, code, cause }: DialError, chosen: boolean): DialError =>
  new DialError(
    "certificate",
    chosen
      ? `${message}: the authority that the check names (certificates.ca_id) has not issued it`
      : `${message}: name its authority in the check (certificates.ca_id), or trust it on the agent (--ca-file)`,
    code,
    cause,
  );

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
