import type { X509Certificate } from "node:crypto";
import type { TLSSocket } from "node:tls";
import { daysLeft } from "@statusmesh/shared/checks/details";
import { canonicalHost } from "@statusmesh/shared/checks/kind";
import { type CertificateDetails, serverName, type TlsCertCheck } from "@statusmesh/shared/checks/tls-cert";
import { dial } from "@statusmesh/shared/net/dial";
import { codeOf, DialError } from "@statusmesh/shared/net/dial-error";
import { secure } from "@statusmesh/shared/net/tls";
import type { Probe, ProbeContext, Verdict } from "./probe.ts";

/** A server that does not answer the end of the connection with its own is left after this time. */
const hangUpMs = 500;

/**
 * How long the certificate of a server is still valid, whoever issued it and whatever it is for. `down` and `degraded`
 * say something about the certificate; whatever keeps it from being read (no connection, no handshake, silence) is `error`.
 */
export const tlsCert: Probe<TlsCertCheck> = {
  timeoutStatus: "error",
  async run(spec, context) {
    let leaf: X509Certificate | undefined;
    try {
      leaf = await certificateOf(spec, context);
    } catch (error) {
      if (error instanceof DialError && !error.local)
        return { status: "error", error: error.message, transportFailed: error.transport };
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
    allowPrivate,
    signal,
    lookup,
    trace,
  });
  // Which protocol is spoken afterwards is unknown, so none is offered: a mail server may hang up on one that offers HTTP.
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
    // One that wants a certificate of the client says no after it has shown its own, up to TLS 1.2; in 1.3 the handshake is over by then.
    if (shown !== undefined && clientRefused.has(codeOf(error))) return shown;
    throw error;
  }
}

/** The alerts for a client without a certificate, or with one that will not do (RFC 5246 section 7.2.2, RFC 8446 section 6.2). */
const clientRefused = new Set([
  "ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE",
  "ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE",
  "ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED",
]);

/** Ends the connection as a client does that has what it came for: torn down at once, it would fill the server's log with broken handshakes. */
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

/** The most specific common name, at a length that leaves the document whole; null where there is none. */
function commonName(name: { CN?: string | string[] } | undefined): string | null {
  const text = [name?.CN ?? []].flat().at(-1) ?? "";
  if (text === "") return null;
  return text
    .slice(0, 200)
    .replaceAll(/\p{Cc}/gu, " ")
    .toWellFormed();
}
