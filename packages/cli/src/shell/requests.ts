import * as http from "node:http";
import * as https from "node:https";
import { awayOf, proxyOf, refusalOf, tunnelsTo } from "./proxy.ts";

export interface Asked {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string | number>>;
  readonly content?: string | undefined;
  readonly maxBytes: number;
  /** Longest silence. */
  readonly idleMs: number;
  /** Longest time until the whole reply is there. */
  readonly totalMs?: number;
}

export interface Reply {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
}

/** Sends a request. Redirects are not followed. Rejects with a ProxyError or the error of the connection. */
export type Send = (asked: Asked) => Promise<Reply>;

/** Requests to one origin, directly or through the proxy of the environment. Throws Failure for a wrong proxy. */
export function requestsTo(origin: URL): Send {
  const client = origin.protocol === "https:" ? https : http;
  const proxy = proxyOf(origin);
  // A request over plain http is sent to the proxy as it is: proxies open tunnels to ports of TLS only.
  const isPassedOn = proxy !== null && origin.protocol === "http:";
  const agent =
    proxy === null || isPassedOn
      ? new (proxy?.isSecure === true ? https : client).Agent({ keepAlive: true })
      : tunnelsTo(origin, proxy);
  return ({ method, url, headers, content, maxBytes, idleMs, totalMs }) =>
    new Promise((resolve, reject) => {
      const options: http.RequestOptions = { method, headers, agent, timeout: idleMs };
      const sent = isPassedOn
        ? (proxy.isSecure ? https : http).request({
            ...options,
            hostname: proxy.hostname,
            port: proxy.port,
            path: `${url.origin}${url.pathname}${url.search}`,
            headers: { host: url.host, ...headers, ...proxy.headers },
          })
        : client.request(url, options);
      const timer =
        totalMs === undefined
          ? undefined
          : setTimeout(() => sent.destroy(new Error(`no whole reply within ${totalMs / 1000} s`)), totalMs);
      const broken = (error: unknown): void => {
        clearTimeout(timer);
        reject(isPassedOn ? awayOf(proxy, error) : error instanceof Error ? error : new Error(String(error)));
      };
      sent.on("response", (reply) => {
        if (isPassedOn && reply.statusCode === 407) return void sent.destroy(refusalOf(proxy, 407));
        const chunks: Buffer[] = [];
        let size = 0;
        reply.on("data", (chunk: Buffer) => {
          size += chunk.length;
          if (size > maxBytes) sent.destroy(new Error(`the reply is larger than ${maxBytes / 1_048_576} MiB`));
          else chunks.push(chunk);
        });
        reply.on("error", broken);
        reply.on("end", () => {
          clearTimeout(timer);
          const text = Buffer.concat(chunks).toString("utf8");
          resolve({ status: reply.statusCode ?? 0, headers: reply.headers, text });
        });
      });
      sent.on("timeout", () => sent.destroy(new Error(`nothing came for ${idleMs / 1000} s`)));
      sent.on("error", broken);
      sent.end(content);
    });
}
