import { type DialError, overdue } from "@statusmesh/shared/net/dial-error";

/** What a resolver, a router or a TLS handshake said, by the code of the error. */
const byCode: Readonly<Record<string, string>> = {
  ENOTFOUND: "dns::nxdomain",
  ENODATA: "dns::nodata",
  ESERVFAIL: "dns::servfail",
  EREFUSED: "dns::refused",
  EBADRESP: "dns::malformed",
  ETIMEOUT: "dns::timeout",
  EAI_AGAIN: "dns::timeout",
  EHOSTUNREACH: "path::no-route",
  EHOSTDOWN: "path::no-route",
  ENETUNREACH: "path::no-network",
  EACCES: "path::firewall",
  EPERM: "path::firewall",
  CERT_HAS_EXPIRED: "tls::expired",
  CERT_NOT_YET_VALID: "tls::early",
  CERT_REVOKED: "tls::revoked",
  ERR_TLS_CERT_ALTNAME_INVALID: "tls::name",
  DEPTH_ZERO_SELF_SIGNED_CERT: "tls::self-signed",
  SELF_SIGNED_CERT_IN_CHAIN: "tls::authority",
  UNABLE_TO_GET_ISSUER_CERT: "tls::authority",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "tls::incomplete",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "tls::incomplete",
  ERR_SSL_WRONG_VERSION_NUMBER: "tls::plain",
  ERR_SSL_PACKET_LENGTH_TOO_LONG: "tls::plain",
  ERR_SSL_HTTP_REQUEST: "tls::plain",
  ERR_SSL_UNSUPPORTED_PROTOCOL: "tls::version",
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: "tls::version",
  ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL: "tls::protocol",
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: "tls::client-required",
  ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE: "tls::client-refused",
  ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED: "tls::client-refused",
  ERR_SSL_SSLV3_ALERT_CERTIFICATE_REVOKED: "tls::client-refused",
  ERR_SSL_TLSV1_ALERT_UNKNOWN_CA: "tls::client-refused",
};

/** What a failed connection says; null where its error says all. */
export function connectionDiagnosis({ phase, code, message }: DialError): string | null {
  if (phase === "guard") return null;
  // The leaf is in time, and another certificate of the path is not.
  if (code === "CERT_HAS_EXPIRED" && message.startsWith("a certificate in the chain")) return "tls::chain-expired";
  if (phase === "connect" && code === "ETIMEDOUT") return "path::timeout";
  if (phase === "dns") return byCode[code] ?? (code === "ETIMEDOUT" ? "dns::timeout" : null);
  if (Object.hasOwn(byCode, code)) return byCode[code]!;
  if (phase !== "tls") return null;
  if (code === "ECONNRESET") return "tls::closed";
  return code.startsWith("ERR_SSL_") && code.includes("_ALERT_") ? "tls::alert" : null;
}

/** What the phase says in which the deadline came; `said`: what the trace says of it. */
export function overdueDiagnosis(said: string): string | null {
  if (said.startsWith(overdue.dns)) return "dns::timeout";
  if (said.startsWith(overdue.connect)) return "path::timeout";
  return said.startsWith(overdue.tls) ? "tls::timeout" : null;
}
