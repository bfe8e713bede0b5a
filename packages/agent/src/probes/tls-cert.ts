import type { X509Certificate } from "node:crypto";
import type { TLSSocket } from "node:tls";
import { daysLeft } from "@statusmesh/shared/checks/expiry";
import { canonicalHost, serverName } from "@statusmesh/shared/checks/host";
import type { CertificateDetails, TlsCertCheck } from "@statusmesh/shared/checks/tls-cert";
import { dial } from "@statusmesh/shared/net/dial";
import { DialError } from "@statusmesh/shared/net/dial-error";
import { secure } from "@statusmesh/shared/net/tls";
import { codeOf } from "@statusmesh/shared/thrown";
import type { Probe, ProbeContext, Verdict } from "./probe.ts";

/** How long to wait for the server's close_notify, ms. */
const hangUpMs = 500;

/**
 * Remaining validity of a server's certificate, of any issuer. `down` and `degraded` come from the certificate;
 * anything that prevents reading it (no connection, no handshake, timeout) is `error`.
 */
export const tlsCert: Probe<TlsCertCheck> = {
  timeoutStatus: "error",
  async run(spec, context) {
    let leaf: X509Certificate | undefined;
    try {
      leaf = await certificateOf(spec, context);
    } catch (error) {
      if (error instanceof DialError && !error.local)
        return {
          status: "error",
          error: error.message,
          transportFailed: error.transport,
          unresolved: error.unresolved,
        };
      throw error;
    }
    return leaf === undefined
      ? { status: "error", error: "the server presented no certificate" }
      : judge(spec, leaf, context.now());
  },
};

async function certificateOf(
  spec: TlsCertCheck,
  { signal, trace, allowPrivate, lookup }: ProbeContext,
): Promise<X509Certificate | undefined> {
  const { socket } = await dial({
    host: canonicalHost(spec.host),
    port: spec.port,
    ipVersion: spec.ip_version,
    allowPrivate,
    signal,
    lookup,
    trace,
  });
  // The application protocol is unknown, so none is offered: a mail server may refuse a client that offers HTTP.
  let shown: X509Certificate | undefined;
  try {
    const secured = await secure({
      socket,
      host: serverName(spec),
      verify: false,
      protocols: [],
      signal,
      trace,
      onCertificate: (leaf) => (shown = leaf),
    });
    hangUp(secured);
    return shown ?? secured.getPeerX509Certificate();
  } catch (error) {
    // Up to TLS 1.2 a server that requires a client certificate refuses after it has sent its own; in 1.3 the handshake
    // is complete.
    if (shown !== undefined && clientRefused.has(codeOf(error))) return shown;
    throw error;
  }
}

/** Alerts for a missing or unsuitable client certificate (RFC 5246 section 7.2.2, RFC 8446 section 6.2). */
const clientRefused = new Set([
  "ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE",
  "ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE",
  "ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED",
]);

/** Closes the connection cleanly: an abrupt close would fill the server's log with broken handshakes. */
function hangUp(socket: TLSSocket): void {
  const tooLong = setTimeout(() => socket.destroy(), hangUpMs);
  socket.once("close", () => clearTimeout(tooLong));
  socket.resume().end();
}

function judge({ warn_days, critical_days }: TlsCertCheck, leaf: X509Certificate, now: number): Verdict {
  const notAfter = Date.parse(leaf.validTo);
  const daysRemaining = daysLeft(notAfter, now);
  const { subject, issuer } = leaf.toLegacyObject();
  const details: CertificateDetails = {
    days_remaining: daysRemaining,
    not_after: new Date(notAfter).toISOString(),
    subject_common_name: commonName(subject),
    issuer_common_name: commonName(issuer),
  };
  if (daysRemaining >= warn_days) return { status: "up", error: null, details };
  return {
    status: daysRemaining < 0 || daysRemaining < critical_days ? "down" : "degraded",
    error: JSON.stringify(details),
    details,
  };
}

/** The most specific common name, shortened so that the document stays complete; null without one. */
function commonName(name: { CN?: string | string[] } | undefined): string | null {
  const text = [name?.CN ?? []].flat().at(-1) ?? "";
  if (text === "") return null;
  return text
    .slice(0, 200)
    .replaceAll(/\p{Cc}/gu, " ")
    .toWellFormed();
}
