import { readFileSync } from "node:fs";
import { createSecureContext, rootCertificates, type SecureContext } from "node:tls";
import { isCertificate, pemsIn } from "@statusmesh/shared/net/tls";
import { codeOrMessage } from "@statusmesh/shared/thrown";
import { StartupError } from "../../config/startup-error.ts";

/**
 * TLS context of outbound connections that also trusts `channels.ca_file`; null without such a file. Throws
 * StartupError for an invalid file.
 */
export function trustedAuthorities(file: string): SecureContext | null {
  if (file === "") return null;
  const refuse = (reason: string, cause?: unknown) =>
    new StartupError(`channels.ca_file: ${file} cannot be used: ${reason}`, { cause });
  let own: string[];
  try {
    own = pemsIn(readFileSync(file, "utf8"));
  } catch (error) {
    throw refuse(`it cannot be read (${codeOrMessage(error)})`, error);
  }
  if (own.length === 0) throw refuse("it has no certificate in PEM form (-----BEGIN CERTIFICATE-----)");
  const damaged = own.findIndex((pem) => !isCertificate(pem));
  if (damaged >= 0) throw refuse(`certificate ${damaged + 1} in it is damaged`);
  return createSecureContext({ ca: [...rootCertificates, ...extraCertificates(), ...own] });
}

/**
 * The certificates of NODE_EXTRA_CA_CERTS: a context with its own list ignores them (Node.js documentation,
 * command-line API).
 */
function extraCertificates(): string[] {
  try {
    return pemsIn(readFileSync(process.env["NODE_EXTRA_CA_CERTS"] ?? "", "utf8"));
  } catch {
    // Node has warned about this file at its start.
    return [];
  }
}
