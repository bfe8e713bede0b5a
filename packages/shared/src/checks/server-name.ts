import { AppError } from "../errors.ts";
import { canonicalHost, hostOrThrow } from "./kind.ts";

/** Server name (SNI, RFC 6066 section 3); defaults to the host. */
export function serverName(spec: { host: string; server_name?: string | null }): string {
  if ((spec.server_name ?? null) === null) return hostOrThrow(spec.host, "/host");
  const refuse = (cause?: unknown) =>
    new AppError(
      "INVALID_TLS_CERT_PARAMS",
      `"${spec.server_name}" is not a host name that a server can be asked for. Write it without scheme or ` +
        "port, or null for the host.",
      {
        field: "/server_name",
        cause,
      },
    );
  let name: string;
  try {
    name = canonicalHost(spec.server_name!);
  } catch (cause) {
    throw refuse(cause);
  }
  // SNI cannot carry an address, and wildcards exist only in certificates.
  if (!/^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/.test(name) || /^[\d.]+$/.test(name)) throw refuse();
  return name;
}
