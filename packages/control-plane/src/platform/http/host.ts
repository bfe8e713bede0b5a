import type { Context } from "koa";

/**
 * True when the Host header is exactly the host of `origin`; its default port may be written. Compared as text: a URL
 * parser also takes `user@host`, `host/x` and `127.1` for the host.
 */
export function isAtHost(http: Context, origin: string): boolean {
  const { host, port, protocol } = new URL(origin);
  const sent = http.get("host").toLowerCase();
  return sent === host || (port === "" && sent === `${host}:${protocol === "https:" ? 443 : 80}`);
}
