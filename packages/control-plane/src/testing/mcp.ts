import { type IncomingMessage, request } from "node:http";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { type ElicitRequest, ElicitRequestSchema, type ElicitResult } from "@modelcontextprotocol/sdk/types.js";
import { newId } from "@statusmesh/shared/ids";
import type { Test } from "tap";
import { Agent, buildConnector, fetch as undiciFetch } from "undici";
import type { AppOptions } from "../app.ts";
import { type Ctx, type Scope, scopes } from "../platform/context.ts";
import { hashToken, newToken } from "../platform/crypto/token.ts";
import type { Served } from "./app.ts";
import { serveWhole } from "./whole-app.ts";
import { openWorld, type World } from "./world.ts";

/** Origin of the MCP server in tests; its host resolves to the replicas. */
export const resource = "http://mcp.example.org";

const mcpEnv = { SM_MCP__ENABLED: "true", SM_MCP__RESOURCE_URI: resource };

export interface Reply {
  status: number;
  headers: Record<string, string>;
  text: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- what the server answers is what the tests look into
  body: any;
}

export type Headers = Record<string, string | undefined>;

/** Headers that every request of a client has; `undefined` leaves one out. */
export const usual: Headers = {
  host: "mcp.example.org",
  accept: "application/json, text/event-stream",
  "content-type": "application/json",
};

const written = (headers: Headers): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter((entry): entry is [string, string] => entry[1] !== undefined));

/** Sends a request as it is written, `Host` included. A text body is sent unchanged. */
export function send(served: Served, method: string, path: string, headers: Headers, body?: unknown): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const outgoing = request(`${served.origin}${path}`, { method, headers: written(headers) }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        const isJson = response.headers["content-type"]?.startsWith("application/json") === true && text !== "";
        resolve({
          status: response.statusCode!,
          headers: response.headers as Record<string, string>,
          text,
          body: isJson ? JSON.parse(text) : undefined,
        });
      });
    });
    outgoing.on("error", reject);
    outgoing.end(body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body));
  });
}

/** An event stream: its status when its headers are here, and its text when it has ended. */
export function openStream(served: Served, headers: Headers): { opened: Promise<number>; ended: Promise<string> } {
  const outgoing = request(`${served.origin}/mcp`, { headers: written(headers) }).end();
  const response = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.once("response", resolve);
    outgoing.once("error", reject);
  });
  return {
    opened: response.then(({ statusCode }) => statusCode!),
    ended: response.then(async (stream) => {
      let text = "";
      for await (const chunk of stream) text += String(chunk);
      return text;
    }),
  };
}

/** A call of a write tool that waits for an answer to its question. */
export interface Asking {
  /** Id of the question; the answer names it. */
  id: string;
  params: { message: string; requestedSchema: { required: string[] } };
  /** The result of the call. */
  result: Promise<Reply["body"]>;
  /** Closes the connection of the call. */
  hangUp(): void;
}

/** Calls a tool and waits for its question. */
export async function askedBy(served: Served, headers: Headers, name: string, args: unknown, id = 7): Promise<Asking> {
  const outgoing = request(`${served.origin}/mcp`, { method: "POST", headers: written({ ...usual, ...headers }) });
  const call = { jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args } };
  outgoing.on("error", () => {});
  const response = await new Promise<IncomingMessage>((resolve) => {
    outgoing.once("response", resolve);
    outgoing.end(JSON.stringify(call));
  });
  const messages = messagesOf(response);
  const first = (await messages.next()).value;
  if (first?.method !== "elicitation/create") throw new Error(`no question, but ${JSON.stringify(first)}`);
  return {
    id: first.id,
    params: first.params,
    result: messages.next().then(
      ({ value }) => value?.result,
      () => null,
    ),
    hangUp: () => void outgoing.destroy(),
  };
}

/** The JSON-RPC messages of an event stream. */
async function* messagesOf(response: IncomingMessage): AsyncGenerator<Reply["body"]> {
  let text = "";
  for await (const chunk of response) {
    text += String(chunk);
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const data = /^data: (.*)$/m.exec(text.slice(0, end))?.[1];
      text = text.slice(end + 2);
      if (data !== undefined) yield JSON.parse(data);
    }
  }
}

export interface McpWorld {
  readonly world: World;
  /** Two replicas on one database. */
  readonly replicas: readonly [Served, Served];
  /** POSTs a JSON-RPC message, in turn to each replica. */
  post(headers: Headers, message: unknown): Promise<Reply>;
  /** A token for this MCP server. */
  token(ctx: Ctx, options?: { scopes?: readonly Scope[]; audience?: string | null; expiresAt?: Date }): Promise<string>;
  /** Headers of an initialised session of the token. */
  session(token: string, capabilities?: object): Promise<Headers>;
  /** Calls a tool in that session; the body is the JSON-RPC reply, also of an event stream. */
  call(headers: Headers, name: string, args?: unknown): Promise<Reply>;
  /** The SDK client, connected; its requests alternate between the replicas. */
  client(token: string, onElicit?: (request: ElicitRequest) => ElicitResult | Promise<ElicitResult>): Promise<Client>;
}

/** A control plane with MCP on two replicas. */
export async function openMcp(
  t: Test,
  { env = {}, more = {} }: { env?: Record<string, string>; more?: Partial<AppOptions> } = {},
): Promise<McpWorld> {
  const world = await openWorld(t, { env: { ...mcpEnv, ...env } });
  const replicas = [
    await serveWhole(t, world, world.system, more),
    await serveWhole(t, world, world.system, more),
  ] as const;
  let turn = 0;
  const next = (): Served => replicas[turn++ % 2]!;
  let rpcId = 0;

  const post: McpWorld["post"] = async (headers, message) =>
    await send(next(), "POST", "/mcp", { ...usual, ...headers }, message);

  const token: McpWorld["token"] = async (ctx, options = {}) => {
    const secret = newToken("sm_live_");
    const audience = options.audience === undefined ? ctx.config.mcp.resource_uri || null : options.audience;
    await ctx.sql`
      insert into api_tokens (id, user_id, org_id, name, token_hash, scopes, created_at, expires_at, audience)
      values (${newId()}, ${ctx.userId}, ${ctx.orgId}, 'Assistant', ${hashToken(secret)},
        ${[...(options.scopes ?? scopes)]}, ${new Date(ctx.clock.now())}, ${options.expiresAt ?? null}, ${audience})`;
    return secret;
  };

  const session: McpWorld["session"] = async (secret, capabilities = { elicitation: {} }) => {
    const authorization = `Bearer ${secret}`;
    const opened = await post({ authorization }, initialize(capabilities));
    const headers = {
      authorization,
      "mcp-session-id": opened.headers["mcp-session-id"]!,
      "mcp-protocol-version": "2025-11-25",
    };
    await post(headers, { jsonrpc: "2.0", method: "notifications/initialized" });
    return headers;
  };

  const call: McpWorld["call"] = async (headers, name, args = {}) => {
    const reply = await post(headers, {
      jsonrpc: "2.0",
      id: ++rpcId,
      method: "tools/call",
      params: { name, arguments: args },
    });
    const streamed = /^data: (.*)$/m.exec(reply.text)?.[1];
    return reply.body === undefined && streamed !== undefined ? { ...reply, body: JSON.parse(streamed) } : reply;
  };

  const client: McpWorld["client"] = async (secret, onElicit) => {
    const made = new Client(
      { name: "Test", version: "1" },
      { capabilities: onElicit === undefined ? {} : { elicitation: {} } },
    );
    if (onElicit !== undefined) made.setRequestHandler(ElicitRequestSchema, async (asked) => await onElicit(asked));
    const transport = new StreamableHTTPClientTransport(new URL(`${resource}/mcp`), {
      fetch: alternating(t, replicas),
      requestInit: { headers: { authorization: `Bearer ${secret}` } },
    });
    await made.connect(transport as Transport);
    t.teardown(() => made.close());
    return made;
  };

  return { world, replicas, post, token, session, call, client };
}

export const initialize = (capabilities: object = {}, protocolVersion = "2025-11-25") => ({
  jsonrpc: "2.0",
  id: 0,
  method: "initialize",
  params: { protocolVersion, capabilities, clientInfo: { name: "Test", version: "1" } },
});

/** A fetch whose connections go to each replica in turn, whatever host the URL names. */
export function alternating(t: Test, replicas: readonly Served[]): typeof fetch {
  const connect = buildConnector({});
  const agents = replicas.map(
    ({ origin }) =>
      new Agent({
        connect: (options, done) =>
          connect({ ...options, protocol: "http:", hostname: "127.0.0.1", port: new URL(origin).port }, done),
      }),
  );
  t.teardown(async () => void (await Promise.all(agents.map((agent) => agent.destroy()))));
  let turn = 0;
  return (async (url: string, init: object) =>
    await undiciFetch(url, { ...init, dispatcher: agents[turn++ % agents.length]! })) as unknown as typeof fetch;
}
