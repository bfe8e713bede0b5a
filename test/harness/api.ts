import { Agent, type IncomingHttpHeaders, request as httpRequest } from "node:http";
import type { Teardown } from "./folder.ts";

/** An answer, read to its end. */
export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  /** The body when it is JSON, else null. Tests check its shape themselves. */
  body: Json;
}

// A test names the fields that it expects; spelling out every reply here would test the test.
// oxlint-disable-next-line typescript/no-explicit-any
export type Json = any;

export interface RequestOptions {
  headers?: Record<string, string>;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent as it is. */
  body?: string | Buffer;
}

export interface Client {
  /** Sends exactly this path: nothing is normalised or escaped. */
  send(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  get(path: string): Promise<Answer>;
  post(path: string, json?: unknown): Promise<Answer>;
  patch(path: string, json: unknown): Promise<Answer>;
  delete(path: string): Promise<Answer>;
  /** The same with other headers. */
  with(headers: Record<string, string>): Client;
}

/**
 * A client of the service at `baseUrl` with a bearer token, or with none for null. Its connections are kept until the
 * test ends.
 */
export function connect(t: Teardown, baseUrl: string, token: string | null): Client {
  const agent = new Agent({ keepAlive: true });
  t.teardown(() => agent.destroy());
  return client(agent, new URL(baseUrl), token === null ? {} : { authorization: `Bearer ${token}` });
}

function client(agent: Agent, { hostname, port }: URL, own: Record<string, string>): Client {
  const send = (method: string, path: string, options: RequestOptions = {}): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const content = options.json === undefined ? options.body : JSON.stringify(options.json);
      const headers: Record<string, string> = {
        ...own,
        ...(options.json === undefined ? {} : { "content-type": "application/json" }),
        ...options.headers,
      };
      if (content !== undefined) headers["content-length"] = String(Buffer.byteLength(content));
      const request = httpRequest({ agent, hostname, port, method, path, headers }, (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("error", reject);
        response.on("end", () => {
          const text = Buffer.concat(chunks).toString("utf8");
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text,
            body: parse(text, response.headers["content-type"]),
          });
        });
      });
      request.setTimeout(60_000, () =>
        request.destroy(new Error(`${method} ${path} was not answered within a minute`)),
      );
      request.on("error", reject);
      request.end(content);
    });
  return {
    send,
    get: (path) => send("GET", path),
    post: (path, json) => send("POST", path, json === undefined ? {} : { json }),
    patch: (path, json) => send("PATCH", path, { json }),
    delete: (path) => send("DELETE", path),
    with: (headers) => client(agent, new URL(`http://${hostname}:${port}`), { ...own, ...headers }),
  };
}

function parse(text: string, type = ""): Json {
  return type.startsWith("application/json") && text !== "" ? JSON.parse(text) : null;
}
