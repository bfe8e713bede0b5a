import type { X509Certificate } from "node:crypto";
import type { TLSSocket } from "node:tls";
import { daysLeft } from "@statusmesh/shared/checks/expiry";
import { canonicalHost, serverName } from "@statusmesh/shared/checks/host";
import type { CertificateDetails, TlsCertCheck } from "@statusmesh/shared/checks/tls-cert";
import { dial } from "@statusmesh/shared/net/dial";
import { DialError } from "@statusmesh/shared/net/dial-error";
import { secure } from "@statusmesh/shared/net/tls";
import { codeOf } from "@statusmesh/shared/thrown";
import { connectionDiagnosis } from "../../diagnosis/connection.ts";
import { contextOf } from "./certificates.ts";
import { authoritiesOf, commonName, pathOf, sentBy } from "./chain.ts";
import { chainWarnings } from "./handshake.ts";
import type { Probe, ProbeContext, Verdict } from "../probe.ts";
import { StartTlsError, startTls } from "./starttls.ts";

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
      if (error instanceof StartTlsError) return { status: "error", error: error.message };
      if (error instanceof DialError && !error.local)
        return {
          status: "error",
          error: error.message,
          transportFailed: error.transport,
          unresolved: error.unresolved,
          diagnosis: connectionDiagnosis(error),
        };
      throw error;
    }
    if (leaf === undefined) return { status: "error", error: "the server presented no certificate" };
    const sent = sentBy(leaf);
    const trusted = await authoritiesOf(context.certificates.ca);
    for (const text of chainWarnings(serverName(spec), sent, trusted, context.now())) context.warn(text);
    const path = spec.judge === "chain" ? pathOf(sent, trusted).certificates : [leaf];
    return judge(spec, path, context.now());
  },
};

async function certificateOf(spec: TlsCertCheck, context: ProbeContext): Promise<X509Certificate | undefined> {
  const { signal, trace, allowPrivate, lookup, certificates } = context;
  const { socket } = await dial({
    host: canonicalHost(spec.host),
    port: spec.port,
    ipVersion: spec.ip_version,
    allowPrivate,
    signal,
    lookup,
    trace,
  });
  const { starttls = "none", port } = spec;
  const host = serverName(spec);
  // The application protocol is unknown, so none is offered: a mail server may refuse a client that offers HTTP.
  let shown: X509Certificate | undefined;
  try {
    if (starttls !== "none") await startTls(starttls, socket, { host, port }, context);
    const secured = await secure({
      socket,
      host,
      verify: false,
      context: contextOf(certificates, false),
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
    socket.destroy();
    throw error;
  }
}

/** Alerts for a missing or unsuitable client certificate (RFC 5246 section 7.2.2, RFC 8446 section 6.2). */
const clientRefused = new Set([
  "ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE",
  "ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE",
  // GnuTLS 3.7 refuses an empty list of certificates with it.
  "ERR_SSL_TLSV1_ALERT_DECODE_ERROR",
  "ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED",
]);

/** Closes the connection cleanly: an abrupt close would fill the server's log with broken handshakes. */
function hangUp(socket: TLSSocket): void {
  const tooLong = setTimeout(() => socket.destroy(), hangUpMs);
  socket.once("close", () => clearTimeout(tooLong));
  socket.resume().end();
}

const endOf = (one: X509Certificate): number => Date.parse(one.validTo);
const beginOf = (one: X509Certificate): number => Date.parse(one.validFrom);

/** Judges the certificate of the path that ends first, or one that is not valid yet. */
function judge(spec: TlsCertCheck, path: readonly X509Certificate[], now: number): Verdict {
  const { warn_days, critical_days, judge: judged } = spec;
  const early = path.find((one) => beginOf(one) > now);
  const one = early ?? path.reduce((first, other) => (endOf(other) < endOf(first) ? other : first));
  const notAfter = endOf(one);
  const daysRemaining = daysLeft(notAfter, now);
  const details: CertificateDetails = {
    days_remaining: daysRemaining,
    not_after: new Date(notAfter).toISOString(),
    subject_common_name: commonName(one, "subject"),
    issuer_common_name: commonName(one, "issuer"),
    ...(early !== undefined && { not_before: new Date(beginOf(early)).toISOString() }),
    ...(judged === "chain" && { leaf_common_name: commonName(path[0]!, "subject") }),
  };
  if (early === undefined && daysRemaining >= warn_days) return { status: "up", error: null, details };
  const isDown = early !== undefined || daysRemaining < 0 || daysRemaining < critical_days;
  return { status: isDown ? "down" : "degraded", error: JSON.stringify(details), details };
}
