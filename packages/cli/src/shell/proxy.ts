import * as http from "node:http";
import * as https from "node:https";
import type { Duplex } from "node:stream";
import { BlockList, isIP } from "node:net";
import { connect as connectTls } from "node:tls";
import { isLoopback } from "@statusmesh/shared/net/address";
import { codeOrMessage } from "@statusmesh/shared/thrown";
import { portOf } from "@statusmesh/shared/url";
import { Failure } from "./output.ts";

/*
 * Proxies of the environment, as curl reads them: HTTPS_PROXY and HTTP_PROXY by the scheme of the address, NO_PROXY for
 * hosts without one; names in lower case come first. The agents of Node.js know them from version 24 on, and undici's
 * EnvHttpProxyAgent would add half a megabyte to the bundle of 1 MB.
 */

/** Longest time until a proxy has opened a tunnel. */
const tunnelMs = 30_000;

export interface Proxy {
  /** The variable that names it. */
  readonly from: string;
  readonly isSecure: boolean;
  /** As `hostname` of node:http: IPv6 without brackets. */
  readonly hostname: string;
  readonly port: number;
  /** Headers with its credentials, which no message shows. */
  readonly headers: Readonly<Record<string, string>>;
}

/** A proxy is away or refuses. */
export class ProxyError extends Error {}

const bare = (hostname: string): string => hostname.replace(/^\[|\]$/g, "").toLowerCase();

/**
 * The proxy for an address; null for none. This machine is never asked for through one: its connections may be
 * unencrypted. Throws Failure for a proxy that cannot be used, without its text, which may have a password.
 */
export function proxyOf(url: URL, env: NodeJS.ProcessEnv = process.env): Proxy | null {
  const names = url.protocol === "https:" ? ["https_proxy", "HTTPS_PROXY"] : ["http_proxy", "HTTP_PROXY"];
  const from = names.find((name) => env[name]?.trim());
  if (from === undefined || isLoopback(bare(url.hostname))) return null;
  if (isExcepted(url, env["no_proxy"] || env["NO_PROXY"] || "")) return null;
  const text = env[from]!.trim();
  const written = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;
  const proxy = URL.canParse(written) ? new URL(written) : null;
  if (proxy === null || !/^https?:$/.test(proxy.protocol) || proxy.hostname === "")
    throw new Failure(`${from} is no http or https address of a proxy, such as http://proxy.example.org:3128.`);
  const isSecure = proxy.protocol === "https:";
  return {
    from,
    isSecure,
    hostname: bare(proxy.hostname),
    port: portOf(proxy),
    headers: credentialsOf(proxy, from),
  };
}

function credentialsOf({ username, password }: URL, from: string): Record<string, string> {
  if (username === "" && password === "") return {};
  try {
    const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    return { "proxy-authorization": `Basic ${Buffer.from(pair).toString("base64")}` };
  } catch {
    throw new Failure(`the user or password of ${from} has a % that is not followed by two hexadecimal digits.`);
  }
}

/** Whether NO_PROXY has the host: names with their subdomains, addresses, networks (10.0.0.0/8); a port may follow. */
function isExcepted(url: URL, list: string): boolean {
  const host = bare(url.hostname);
  const port = String(portOf(url));
  return list
    .toLowerCase()
    .split(/[\s,]+/)
    .filter((entry) => entry !== "")
    .some((entry) => {
      if (entry === "*") return true;
      const [, bracketed, plain = "", wanted = port] =
        /^(?:\[([^\]]+)\]|([^:]*|[^:]*:.*:.*?))(?::(\d+))?$/.exec(entry) ?? [];
      const name = (bracketed ?? plain).replace(/^\*?\./, "");
      if (name === "" || wanted !== port) return false;
      if (name.includes("/")) return isInNetwork(host, name);
      return host === name || (isIP(host) === 0 && host.endsWith(`.${name}`));
    });
}

function isInNetwork(host: string, network: string): boolean {
  const [net = "", bits = ""] = network.split("/");
  const family = isIP(net);
  if (family === 0 || isIP(host) !== family || !/^\d{1,3}$/.test(bits) || Number(bits) > (family === 4 ? 32 : 128))
    return false;
  const list = new BlockList();
  list.addSubnet(net, Number(bits), family === 4 ? "ipv4" : "ipv6");
  return list.check(host, family === 4 ? "ipv4" : "ipv6");
}

const addressOf = ({ hostname, port }: Proxy): string => `${isIP(hostname) === 6 ? `[${hostname}]` : hostname}:${port}`;

/** What a reply other than 2xx of the proxy means. */
export function refusalOf(proxy: Proxy, status: number): ProxyError {
  const where = `the proxy ${addressOf(proxy)} of ${proxy.from}`;
  if (status !== 407) return new ProxyError(`${where} refuses the connection (${status}).`);
  return new ProxyError(
    "proxy-authorization" in proxy.headers
      ? `${where} does not accept the user and password of ${proxy.from} (407).`
      : `${where} wants a user and a password (407): write ${proxy.from}=http://user:password@${addressOf(proxy)}.`,
  );
}

/** An error of the connection to the proxy. */
export const awayOf = (proxy: Proxy, error: unknown): ProxyError =>
  error instanceof ProxyError
    ? error
    : new ProxyError(`the proxy ${addressOf(proxy)} of ${proxy.from} does not answer (${codeOrMessage(error)}).`);

/** Opens a tunnel to a host (RFC 9110 section 9.3.6). Calls back once. */
function openTunnel(
  proxy: Proxy,
  { host, port }: { host: string; port: number },
  done: (error: Error | null, socket?: Duplex) => void,
): void {
  const target = `${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
  const { hostname, isSecure, headers } = proxy;
  const asked = (isSecure ? https : http).request({
    method: "CONNECT",
    hostname,
    port: proxy.port,
    path: target,
    headers: { host: target, ...headers },
    agent: false,
    timeout: tunnelMs,
  });
  asked.once("connect", ({ statusCode = 0 }, socket, head) => {
    if (statusCode < 200 || statusCode > 299) {
      socket.destroy();
      return done(refusalOf(proxy, statusCode));
    }
    socket.setTimeout(0);
    if (head.length > 0) socket.unshift(head);
    done(null, socket);
  });
  asked.once("timeout", () => asked.destroy(new Error(`no tunnel within ${tunnelMs / 1000} s`)));
  asked.once("error", (error) => done(awayOf(proxy, error)));
  asked.end();
}

/** Connections through a proxy, each in a tunnel of its own; with TLS inside for an https address. */
class Tunnels extends http.Agent {
  // ClientRequest reads both: an agent of node:http is one for TLS with them.
  readonly protocol: string;
  readonly defaultPort: number;
  readonly #proxy: Proxy;

  constructor({ protocol }: URL, proxy: Proxy) {
    super({ keepAlive: true });
    this.protocol = protocol;
    this.defaultPort = protocol === "https:" ? 443 : 80;
    this.#proxy = proxy;
  }

  override createConnection(
    { host: named, port }: http.ClientRequestArgs,
    done: (error: Error | null, socket: Duplex) => void,
  ): undefined {
    const host = bare(named ?? "");
    openTunnel(this.#proxy, { host, port: Number(port ?? this.defaultPort) }, (error, socket) => {
      if (error !== null || this.protocol !== "https:") return done(error, socket!);
      // The name that is asked for and verified is that of the host, and not that of the proxy.
      done(null, connectTls({ socket: socket!, host, ...(isIP(host) === 0 ? { servername: host } : {}) }));
    });
  }
}

/** An agent whose connections to an address go through the proxy. */
export const tunnelsTo = (url: URL, proxy: Proxy): http.Agent => new Tunnels(url, proxy);
