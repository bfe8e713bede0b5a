import Type from "typebox";
import { AppError, type ErrorCode } from "../errors.ts";
import type { FieldForm } from "../schema/form.ts";
import { invisibleIn } from "../url.ts";
import { nullableText } from "./kind.ts";

/** The host of a check that connects to one. */
export const hostField = (example: string) =>
  Type.String({
    minLength: 1,
    maxLength: 253,
    errorCode: "INVALID_TCP_HOST",
    description: "Host name or IP address",
    examples: [example],
    form: { hint: "A host name or an IP address." },
  });

/** The URL of a check that connects to one. */
export const urlField = (description: string, example: string) =>
  Type.String({
    minLength: 1,
    maxLength: 2048,
    errorCode: "INVALID_URL_FORMAT",
    description,
    examples: [example],
    form: { label: "URL", control: "url" },
  });

/** The port beside {@link hostField}. */
export const portField = (more: { default: number } | { examples: number[] }) =>
  Type.Integer({
    minimum: 1,
    maximum: 65_535,
    errorCode: "INVALID_TCP_PORT",
    description: "TCP port",
    ...more,
    form: { beside: true },
  });

/** The name that {@link serverName} reads. */
export const serverNameField = (description: string, form: Pick<FieldForm, "section" | "beside"> & { hint: string }) =>
  nullableText(253, description, { label: "Server name (SNI)", ...form }, "INVALID_TLS_CERT_PARAMS");

/** The canonical form of a host name or address, as dialler and guard use it; throws like URL. */
export function canonicalHost(host: string): string {
  const bare = host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
  // A URL parser reads 2130706433, 0x7f.1 and full-width dots as a resolver does.
  const url = new URL(`http://${bare}/`);
  if (
    url.port !== "" ||
    url.username !== "" ||
    url.pathname !== "/" ||
    url.search !== "" ||
    url.hash !== "" ||
    url.hostname === ""
  ) {
    throw new TypeError("not a bare host");
  }
  return url.hostname.replace(/^\[|\]$/g, "").replace(/(?<=.)\.$/, "");
}

/** {@link canonicalHost} of the field `host`, with an API error. */
export function hostOrThrow(host: string): string {
  try {
    if (/[\s/@?#\\]/.test(host)) throw new TypeError("not a bare host");
    return canonicalHost(host);
  } catch (cause) {
    throw new AppError(
      "INVALID_TCP_HOST",
      `"${host}" is not a host name or an IP address. Write it without scheme, port or path, for example ` +
        "db.example.org.",
      { field: "/host", cause },
    );
  }
}

/**
 * Refuses a host with an invisible character: resolvers and URL parsers drop some of them, and the monitor would show
 * another name than it checks. Applies to input only.
 */
export function refuseInvisible(text: string, code: ErrorCode, pointer: string): void {
  const found = invisibleIn(text);
  if (found !== null)
    throw new AppError(code, `The name or address ${found}. Remove that character.`, { field: pointer });
}

/** Server name (SNI, RFC 6066 section 3); defaults to the host. */
export function serverName(spec: { host: string; server_name?: string | null }): string {
  if ((spec.server_name ?? null) === null) return hostOrThrow(spec.host);
  const refuse = (cause?: unknown) =>
    new AppError(
      "INVALID_TLS_CERT_PARAMS",
      `"${spec.server_name}" is not a host name that a server can be asked for. Write it without scheme or ` +
        "port, or null for the host.",
      { field: "/server_name", cause },
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
