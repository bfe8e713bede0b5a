/** What an address to listen on looks like: `127.0.0.1:8080`, `[::1]:8080`, `localhost:0`. */
export const bindPattern = "(?:\\[[0-9A-Fa-f:.]+\\]|[^\\s:\\[\\]/]+):[0-9]{1,5}";

/** `host:port` in its parts; an IPv6 address loses its brackets. Port 0 asks the system for a free one. */
export function parseBind(bind: string): { host: string; port: number } {
  const colon = bind.lastIndexOf(":");
  return { host: bind.slice(0, colon).replace(/^\[|\]$/g, ""), port: Number(bind.slice(colon + 1)) };
}

/** True for the names and addresses of this machine that no other machine can reach. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(?:\.\d{1,3}){3}$/.test(host);
}
