import { constants, X509Certificate } from "node:crypto";
import { isIP, type Socket } from "node:net";
import { connect, createSecureContext, rootCertificates, type SecureContext, type TLSSocket } from "node:tls";
import { codeOf } from "../thrown.ts";
import { dayMs } from "../time.ts";
import type { CancelSignal } from "./cancellation.ts";
import type { DialTrace } from "./dial.ts";
import { abortError, alertIn, DialError, overdue, wordsFor } from "./dial-error.ts";

export interface SecureOptions {
  /** A connected socket. The TLS socket owns it and destroys it when the handshake fails. */
  socket: Socket;
  /** Name for the certificate and SNI; an IP address is compared but not sent (RFC 6066 section 3). */
  host: string;
  /** False accepts any certificate, protocol version and cipher: the connection carries no secret. */
  verify: boolean;
  signal: CancelSignal;
  trace?: DialTrace | undefined;
  /** Replaces the shared context, to trust other authorities. */
  context?: SecureContext | undefined;
  /** ALPN protocols (RFC 7301); an empty list offers none. HTTP/1.1 when absent. */
  protocols?: readonly string[];
  /**
   * Called with the server's certificate as soon as it arrives, whatever the outcome of the handshake. Node returns it
   * once: ask the socket only without this callback.
   */
  onCertificate?: (leaf: X509Certificate) => void;
  /** Unix ms, for "expired 3 days ago". */
  now?: () => number;
}

// Shared: a context per connection costs a third of the handshake. Handshakes stay full, because no session is stored.
let verifying: SecureContext | undefined;
let accepting: SecureContext | undefined;
let authorities: readonly string[] = rootCertificates;

/** Trusts these authorities (PEM) in addition to those of Node, for every later handshake of the process. */
export function trustAlso(added: readonly string[]): void {
  authorities = [...rootCertificates, ...added];
  verifying = accepting = undefined;
}

/** The authorities that are trusted where nothing else is said, PEM; the same array until {@link trustAlso}. */
export const trustedAuthorities = (): readonly string[] => authorities;

/** The certificates of a text in PEM (RFC 7468), which may have other text between them. */
export const pemsIn = (text: string): string[] =>
  text.match(/-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----[^-]*-----END (?:TRUSTED |X509 )?CERTIFICATE-----/g) ?? [];

export function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0;
  } catch {
    return false;
  }
}

/** What a connection uses beside the shared context. */
export interface ContextParts {
  /** Authorities in place of those that are trusted elsewhere, PEM. */
  ca?: readonly string[] | null | undefined;
  /** Certificate with its chain, and its key, PEM. */
  client?: { readonly certificate: string; readonly private_key: string } | null | undefined;
}

/** A context for a client; `verify` as for {@link secure}. Throws for a certificate that OpenSSL does not use. */
export function clientContext(verify: boolean, { ca, client }: ContextParts = {}): SecureContext {
  const trusted = ca ?? (authorities === rootCertificates ? null : authorities);
  return createSecureContext({
    // Parsing the 144 authorities of Node takes 80 ms, which its own default does once.
    ...(trusted === null ? {} : { ca: [...trusted] }),
    // An authority that was chosen is one, also where another has issued it.
    ...(ca == null ? {} : partialChain),
    ...(client == null ? {} : { cert: client.certificate, key: client.private_key }),
    ...(!verify && {
      minVersion: "TLSv1",
      ciphers: "DEFAULT@SECLEVEL=0",
      // Servers older than RFC 5746, which cannot renegotiate safely: this client never renegotiates.
      secureOptions: constants.SSL_OP_LEGACY_SERVER_CONNECT,
    }),
  });
}

/** Option of Node 20.18, which its types of Node 20 do not have. */
const partialChain: object = { allowPartialTrustChain: true };

const contextFor = (verify: boolean): SecureContext =>
  verify ? (verifying ??= clientContext(true)) : (accepting ??= clientContext(false));

/**
 * A TLS handshake over a connected socket. Resolves before any application byte is sent; rejects with {@link
 * DialError}.
 */
export function secure(options: SecureOptions): Promise<TLSSocket> {
  const { socket, host, verify, signal, trace, protocols = ["http/1.1"] } = options;
  return new Promise((settle, reject) => {
    if (signal.aborted) {
      socket.destroy();
      return reject(abortError(signal, "tls"));
    }
    if (trace !== undefined) trace.overdue = `${overdue.tls} after`;
    const started = performance.now();
    const secured = connect({
      socket,
      host,
      secureContext: options.context ?? contextFor(verify),
      ...(protocols.length === 0 ? {} : { ALPNProtocols: [...protocols] }),
      // Verified below instead: a socket that Node has destroyed no longer has the certificate.
      rejectUnauthorized: false,
      ...(isIP(host) === 0 ? { servername: host } : {}),
    });
    const fail = (error: unknown): void => {
      signal.removeEventListener("abort", onAbort);
      secured.destroy();
      socket.destroy();
      reject(error);
    };
    // The session secret follows the certificate, before a server can refuse the client's certificate. After that Node
    // has destroyed the socket and its data.
    if (options.onCertificate !== undefined) {
      const look = (): void => {
        const leaf = secured.getPeerX509Certificate();
        if (leaf === undefined) return;
        secured.off("keylog", look);
        options.onCertificate?.(leaf);
      };
      secured.on("keylog", look);
    }
    const onAbort = (): void => fail(abortError(signal, "tls"));
    signal.addEventListener("abort", onAbort, { once: true });
    // For the socket's life: an error after the handshake belongs to the reader, but must always have a listener.
    secured.on("error", (error: Error) =>
      fail(new DialError("tls", handshakeWords(error, protocols[0]), codeOf(error), error)),
    );
    secured.once("secureConnect", () => {
      if (verify && !secured.authorized) return fail(certificateError(secured, host, (options.now ?? Date.now)()));
      signal.removeEventListener("abort", onAbort);
      if (trace !== undefined) trace.tls_ms = (trace.tls_ms ?? 0) + (performance.now() - started);
      settle(secured);
    });
  });
}

function handshakeWords(error: Error, protocol: string | undefined): string {
  const code = codeOf(error);
  if (code === "ECONNRESET") return "connection closed by peer during the TLS handshake";
  if (
    code === "ERR_SSL_WRONG_VERSION_NUMBER" ||
    code === "ERR_SSL_PACKET_LENGTH_TOO_LONG" ||
    code === "ERR_SSL_HTTP_REQUEST"
  )
    return "the server does not speak TLS on this port";
  if (code === "ERR_SSL_UNSUPPORTED_PROTOCOL" || code === "ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION")
    return "the server offers no secure TLS version (1.2 or later)";
  if (code === "ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL")
    return protocol === "h2"
      ? "the server does not offer HTTP/2 over TLS, only another protocol such as HTTP/1.1"
      : "the server does not offer HTTP/1.1 over TLS, only another protocol such as HTTP/2";
  const alert = alertIn(error);
  if (alert !== null) return `TLS handshake failed: the server sent the alert "${alert}"`;
  const reason = "reason" in error && typeof error.reason === "string" ? error.reason : null;
  return `TLS handshake failed: ${reason ?? wordsFor(error)}`;
}

const days = (ms: number): string => {
  const count = Math.floor(ms / dayMs);
  return count === 0 ? "less than a day" : count === 1 ? "1 day" : `${count} days`;
};

const distrust: Record<string, string> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: "certificate is self-signed",
  SELF_SIGNED_CERT_IN_CHAIN: "certificate is signed by an authority that is not trusted here",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "certificate is signed by an authority that is not trusted here",
  UNABLE_TO_GET_ISSUER_CERT: "certificate is signed by an authority that is not trusted here",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    "certificate is signed by an authority that is not trusted here, or an intermediate certificate is missing",
  CERT_REVOKED: "certificate is revoked",
  CERT_UNTRUSTED: "certificate is not trusted",
};

function certificateError(secured: TLSSocket, host: string, now: number): DialError {
  // Declared as Error, but Node stores only the code.
  const code = String(secured.authorizationError);
  const leaf = secured.getPeerX509Certificate();
  const words = (): string => {
    if (code === "CERT_HAS_EXPIRED") {
      const ago = leaf === undefined ? -1 : now - Date.parse(leaf.validTo);
      return ago > 0 ? `certificate expired ${days(ago)} ago` : "a certificate in the chain has expired";
    }
    if (code === "CERT_NOT_YET_VALID") {
      const ahead = leaf === undefined ? -1 : Date.parse(leaf.validFrom) - now;
      return ahead > 0
        ? `certificate is not valid for another ${days(ahead)}`
        : "a certificate in the chain is not valid yet";
    }
    if (code === "ERR_TLS_CERT_ALTNAME_INVALID") {
      const names = (leaf?.subjectAltName ?? "").replaceAll(/(DNS|IP Address):/g, "").slice(0, 200);
      return `certificate is not for ${host}${names === "" ? "" : ` (it is for ${names})`}`;
    }
    return distrust[code] ?? `certificate is not accepted: ${code.toLowerCase().replaceAll("_", " ")}`;
  };
  return new DialError("certificate", words(), code);
}
