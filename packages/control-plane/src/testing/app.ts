import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Koa, { type Context } from "koa";
import type { AgentCtx, Ctx, System } from "../platform/context.ts";
import { exchange } from "../platform/http/exchange.ts";
import { mountRoutes } from "../platform/http/mount.ts";
import { admitted } from "../publishing/public/access/gate.ts";
import type { Route } from "../platform/http/route.ts";
import type { Throttle } from "../platform/http/limits/throttle.ts";
import type { Teardown } from "./database.ts";

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  /** The JSON; undefined when the answer is none. */
  // oxlint-disable-next-line typescript/no-explicit-any -- what the routes answer is what the tests look into
  body: any;
}

export interface ServeOptions {
  /** Context per auth; a request of another auth is refused. */
  tenant?: (http: Context) => Ctx | Promise<Ctx>;
  agent?: (http: Context) => AgentCtx | Promise<AgentCtx>;
  operator?: (http: Context) => System | Promise<System>;
  public?: () => System;
  throttle?: Throttle;
  /** Pages beside the routes. */
  page?: Koa.Middleware;
}

export type Ask = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>;

/** Asks, and says where: `http://127.0.0.1:54321`. */
export type Served = Ask & { readonly origin: string };

/** Serves routes on a real socket, every reply held against its declaration. Returns a function that asks. */
export async function serve(
  t: Teardown,
  system: System,
  routes: readonly Route[],
  options: ServeOptions = {},
): Promise<Served> {
  const shut = (): never => {
    throw new Error("no such auth in this test");
  };
  const authenticators = {
    tenant: async (http: Context) => await (options.tenant ?? shut)(http),
    agent: async (http: Context) => await (options.agent ?? shut)(http),
    operator: async (http: Context) => await (options.operator ?? shut)(http),
    public: async () => (options.public ?? (() => system))(),
    page: (http: Context) => admitted((options.public ?? (() => system))(), http),
  };
  const koa = new Koa();
  koa.use(exchange({ log: system.log, clock: system.clock, page: () => null, headers: {} }));
  if (options.page !== undefined) koa.use(options.page);
  koa.use(mountRoutes(routes, authenticators, true, undefined, options.throttle));
  return await listen(t, koa);
}

/** Puts an application on a socket of this machine until the test ends. */
export async function listen(t: Teardown, koa: Koa): Promise<Served> {
  // On a busy machine a client would reuse a connection in the moment in which the server closes it.
  const http = createServer({ keepAliveTimeout: 0 }, koa.callback()).listen(0, "127.0.0.1");
  await new Promise((resolve) => http.once("listening", resolve));
  t.teardown(() => {
    http.closeAllConnections();
    http.close();
  });
  const origin = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const ask = async (
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> => {
    const json =
      body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { "content-type": "application/json", ...headers } };
    const response = await fetch(origin + path, { method, headers, redirect: "manual", ...json });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      text,
      body:
        response.headers.get("content-type")?.startsWith("application/json") && text !== ""
          ? JSON.parse(text)
          : undefined,
    };
  };
  return Object.assign(ask, { origin });
}
