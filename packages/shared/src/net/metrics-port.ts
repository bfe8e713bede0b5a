import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { hostAndPort } from "../url.ts";

/** What a path of the port answers. */
export interface MetricsPage {
  /** 200 when left out. */
  status?: number;
  type: string;
  text: string;
}

export interface MetricsPort {
  /** The URL of the listener: `http://127.0.0.1:9464`. */
  readonly url: string;
  stop(): Promise<void>;
}

/** Content type of the text exposition format, version 0.0.4. */
export const expositionType = "text/plain; version=0.0.4; charset=utf-8";

/**
 * A small HTTP server for a monitoring system: it answers GET and HEAD at the paths of `pages`, and 404 elsewhere. It
 * has no authentication, so it belongs on a loopback address or into a private network. A connection holds few
 * resources: 32 connections, 8 KiB of headers, 5 s for them. Rejects with the error of `listen` when the address cannot
 * be had.
 */
export async function openMetricsPort(
  { host, port }: { host: string; port: number },
  pages: Readonly<Record<string, () => MetricsPage | Promise<MetricsPage>>>,
): Promise<MetricsPort> {
  const paths = new Map(Object.entries(pages));
  const limits = {
    maxHeaderSize: 8192,
    headersTimeout: 5000,
    requestTimeout: 10_000,
    keepAliveTimeout: 75_000,
    connectionsCheckingInterval: 2000,
  };
  const server = createServer(limits, (request, response) => void answer(paths, request, response));
  server.maxConnections = 32;
  server.listen(port, host);
  await once(server, "listening");
  const { address, port: bound } = server.address() as AddressInfo;
  return {
    url: `http://${hostAndPort(address, bound)}`,
    async stop() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

async function answer(
  paths: ReadonlyMap<string, () => MetricsPage | Promise<MetricsPage>>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const page = await pageFor(paths, request);
  const body = Buffer.from(page.text);
  response.writeHead(page.status ?? 200, {
    "Content-Type": page.type,
    "Content-Length": body.length,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    ...(page.status === 405 ? { Allow: "GET, HEAD" } : {}),
  });
  response.end(request.method === "HEAD" ? undefined : body);
}

const plain = (status: number, text: string): MetricsPage => ({
  status,
  type: "text/plain; charset=utf-8",
  text: `${text}\n`,
});

async function pageFor(
  paths: ReadonlyMap<string, () => MetricsPage | Promise<MetricsPage>>,
  { method, url = "" }: IncomingMessage,
): Promise<MetricsPage> {
  const page = paths.get(url.split("?", 1)[0]!);
  if (page === undefined) return plain(404, `There is ${[...paths.keys()].join(" and ")} here, and nothing else.`);
  if (method !== "GET" && method !== "HEAD") return plain(405, "This can only be read.");
  try {
    return await page();
  } catch {
    return plain(500, "The metrics are not available at the moment.");
  }
}
