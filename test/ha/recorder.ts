import { Agent, createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import type { ResultsRequest } from "@statusmesh/shared/protocol/agent-protocol";
import type { Teardown } from "../harness/folder.ts";

/** A request that is over. */
export interface Exchange {
  /** Start, `performance.now()`. */
  readonly at: number;
  readonly ms: number;
  readonly what: string;
  /** 0: the connection broke. */
  readonly status: number;
  /** Error code of the reply's envelope, empty for none. */
  readonly code: string;
}

export interface Recorder {
  readonly url: string;
  readonly exchanges: readonly Exchange[];
  /** `target/region/slot` of every result that was answered 200, with the number of its acknowledgements. */
  readonly acknowledged: ReadonlyMap<string, number>;
}

/** Region of an agent, by its token. */
export type Regions = ReadonlyMap<string, string>;

/** Starts a relay between agents and the load balancer, which records requests and acknowledged results. */
export async function startRecorder(t: Teardown, to: string, regions: Regions): Promise<Recorder> {
  const exchanges: Exchange[] = [];
  const acknowledged = new Map<string, number>();
  const agent = new Agent({ keepAlive: true });
  const { hostname, port } = new URL(to);
  const server = createServer((incoming, reply) => {
    const at = performance.now();
    const what = `${incoming.method} ${incoming.url}`;
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("error", () => undefined);
    incoming.on("end", () => {
      const body = Buffer.concat(chunks);
      const { method, url: path, headers } = incoming;
      const outgoing = request({ agent, hostname, port, method, path, headers }, (response) => {
        const parts: Buffer[] = [];
        response.on("data", (part: Buffer) => parts.push(part));
        response.on("error", () => reply.destroy());
        response.on("end", () => {
          const status = response.statusCode ?? 0;
          const text = Buffer.concat(parts);
          exchanges.push({ at, ms: performance.now() - at, what, status, code: codeOf(text) });
          if (status === 200 && path === "/api/agent/results") record(body, regions.get(headers.authorization ?? ""));
          reply.writeHead(status, response.headers).end(text);
        });
      });
      outgoing.on("error", () => {
        exchanges.push({ at, ms: performance.now() - at, what, status: 0, code: "" });
        reply.destroy();
      });
      reply.on("close", () => void (reply.writableEnded || outgoing.destroy()));
      outgoing.end(body);
    });
  });
  const record = (body: Buffer, region = ""): void => {
    const { results } = JSON.parse(body.toString("utf8")) as ResultsRequest;
    for (const { target_id: target, scheduled_at: slot } of results) {
      const key = `${target}/${region}/${slot}`;
      acknowledged.set(key, (acknowledged.get(key) ?? 0) + 1);
    }
  };
  server.requestTimeout = 0;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.teardown(() => {
    agent.destroy();
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, exchanges, acknowledged };
}

/** Returns the code of an error envelope; empty for any other text. */
export function codeOf(text: string | Buffer): string {
  return /"code"\s*:\s*"([A-Z_]+)"/.exec(text.toString().slice(0, 2_000))?.[1] ?? "";
}
