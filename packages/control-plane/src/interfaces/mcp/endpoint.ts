import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { bearerOf } from "../../access/auth/sessions/service.ts";
import { isId } from "@statusmesh/shared/ids";
import type { System } from "../../platform/context.ts";
import type { Hub } from "../../platform/db/notify.ts";
import { asAppError, reportFailure, traceOf } from "../../platform/http/exchange.ts";
import { visitorAddress } from "../../platform/http/limits/per-ip.ts";
import type { Throttle } from "../../platform/http/limits/throttle.ts";
import { sumRefusals } from "./audit/audit.ts";
import { callTool, type ToolRun } from "./calls.ts";
import { answerConfirmation, withdrawConfirmations } from "./confirmation/confirmation.ts";
import { offeredScopes } from "../../access/oauth/service.ts";
import { type Caller, callerOf } from "./sessions/callers.ts";
import { notAcceptable, readMessage, type RpcRequest, toolCallOf } from "./message.ts";
import { answerRefusal, insufficientScope, refusalOf, RpcRefusal, rpcCodes, unauthorised } from "./refusals.ts";
import type { Registry } from "./registry.ts";
import { exchangeOnce, isInitialize, revisions } from "./server.ts";
import { endSession, openSession, recordUse, type Session } from "./sessions/sessions.ts";
import { openStreams } from "./sessions/streams.ts";

export interface EndpointOptions {
  readonly system: System;
  readonly hub: Hub;
  readonly throttle: Throttle;
  readonly registry: Registry;
  /** Fires when the process drains. */
  readonly draining: AbortSignal;
}

const methods = "GET, POST, DELETE";

interface Endpoint extends EndpointOptions {
  readonly streams: ReturnType<typeof openStreams>;
  readonly refused: ReturnType<typeof sumRefusals>;
}

/** Serves `/mcp`: Streamable HTTP of the Model Context Protocol, with sessions that any replica serves. */
export function openEndpoint(options: EndpointOptions): (http: Context) => Promise<void> {
  const { system, hub, draining } = options;
  const endpoint = { ...options, streams: openStreams(system, hub, draining), refused: sumRefusals(draining) };
  return async (http) => {
    try {
      await serve(endpoint, http);
    } catch (thrown) {
      if (thrown instanceof RpcRefusal) return answerRefusal(http, thrown);
      const error = asAppError(thrown);
      reportFailure(http, error, thrown, system.log);
      answerRefusal(http, refusalOf(error, system.config));
    }
  };
}

async function serve(endpoint: Endpoint, http: Context): Promise<void> {
  refuseForeignOrigin(http, endpoint.system);
  if (isPreflight(http, endpoint.system)) return;
  if (!methods.split(", ").includes(http.method))
    throw new RpcRefusal(405, rpcCodes.server, `/mcp answers ${methods}.`, { headers: { Allow: methods } });
  const caller = await authenticate(http, endpoint.system);
  if (http.method === "POST") return await post(endpoint, http, caller);
  if (http.method === "GET" && !http.get("accept").includes("text/event-stream"))
    throw notAcceptable("text/event-stream");
  const session = await sessionOf(endpoint, http, caller);
  await endpoint.throttle(caller.ctx, "api_reads");
  if (http.method === "DELETE") {
    await endSession(endpoint.system, caller.owner, session.id);
    http.status = 204;
    return;
  }
  http.set({ "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no", "Mcp-Session-Id": session.id });
  http.type = "text/event-stream";
  http.body = endpoint.streams.open(http, caller, session.id);
}

async function post(endpoint: Endpoint, http: Context, caller: Caller): Promise<void> {
  const { message, raw } = await charged(endpoint, caller, () => readMessage(http));
  if (message.kind === "request" && message.method === "initialize")
    return await initialize(endpoint, http, caller, raw, message);
  const session = await sessionOf(endpoint, http, caller);
  if (message.kind === "request") return await answer(endpoint, http, caller, session, raw, message);
  if (message.kind === "answer") await answerConfirmation(endpoint.system, session, message);
  else if (message.method === "notifications/cancelled")
    await withdrawConfirmations(endpoint.system, session, message.params?.["requestId"]);
  http.body = null;
  // After the body, because Koa sets 204 with an empty one.
  http.status = 202;
}

async function initialize(
  endpoint: Endpoint,
  http: Context,
  caller: Caller,
  raw: unknown,
  { id, params }: RpcRequest,
): Promise<void> {
  await endpoint.throttle(caller.ctx, "api_reads");
  if (!isInitialize(raw))
    throw new RpcRefusal(200, rpcCodes.invalidParams, "Invalid params: protocolVersion, capabilities, clientInfo.", {
      id,
    });
  const { clientInfo, capabilities, protocolVersion } = params as {
    clientInfo: { name: string };
    capabilities: { elicitation?: { form?: object; url?: object } };
    protocolVersion: string;
  };
  const { elicitation } = capabilities;
  const session = await openSession(endpoint.system, caller.owner, {
    name: clientInfo.name,
    protocol: protocolVersion,
    // An empty capability means forms (MCP 2025-11-25, elicitation).
    canConfirm: elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined),
  });
  await reply(endpoint, http, { raw, streamed: false, call: refuseCall });
  http.set("Mcp-Session-Id", session.id);
}

async function answer(
  endpoint: Endpoint,
  http: Context,
  caller: Caller,
  session: Session,
  raw: unknown,
  request: RpcRequest,
): Promise<void> {
  if (request.method !== "tools/call") {
    await endpoint.throttle(caller.ctx, "api_reads");
    return await reply(endpoint, http, { raw, streamed: false, call: refuseCall });
  }
  const { entry, args } = await charged(endpoint, caller, () => toolCallOf(request, endpoint.registry));
  const { tool } = entry;
  const call = callTool({
    system: endpoint.system,
    hub: endpoint.hub,
    caller,
    session,
    tool,
    args,
    requestId: request.id,
  });
  await recorded(endpoint, caller, call, () => endpoint.throttle(caller.ctx, entry.category));
  if (!caller.ctx.scopes.has(tool.scope)) {
    await call.denied("insufficient_scope");
    const offered = offeredScopes([...endpoint.registry.values()].map((one) => one.tool));
    const granted = offered.filter((scope) => caller.ctx.scopes.has(scope));
    throw insufficientScope(endpoint.system.config, granted, tool.scope, request.id);
  }
  if (tool.confirm === null)
    return await reply(endpoint, http, {
      raw,
      streamed: false,
      call: async (send) => await call.run(send, endpoint.draining),
    });
  const ended = await recorded(endpoint, caller, call, async () => endpoint.streams.hold(http, caller, session.id));
  const signal = AbortSignal.any([ended, endpoint.draining]);
  await reply(endpoint, http, { raw, streamed: true, call: async (send) => await call.run(send, signal) });
}

/** Records a call that `work` refuses because of a limit, summed with others of its token and tool. */
async function recorded<T>(endpoint: Endpoint, caller: Caller, call: ToolRun, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (call.overLimit !== null) await endpoint.refused(caller, call.overLimit);
    throw error;
  }
}

/** Charges the caller a read when `work` refuses: refused messages are not free. */
async function charged<T>(endpoint: Endpoint, caller: Caller, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await endpoint.throttle(caller.ctx, "api_reads");
    throw error;
  }
}

async function reply(
  endpoint: Endpoint,
  http: Context,
  exchange: Pick<Parameters<typeof exchangeOnce>[0], "raw" | "streamed" | "call">,
): Promise<void> {
  const { status, headers, body } = await exchangeOnce({ ...exchange, registry: endpoint.registry });
  http.status = status;
  http.set(headers);
  http.body = body;
}

/**
 * The session of a request. 400 without one, and for a missing or unknown revision; 404 for one that is not the
 * caller's.
 */
async function sessionOf(endpoint: Endpoint, http: Context, caller: Caller): Promise<Session> {
  const id = http.get("mcp-session-id");
  if (id === "")
    throw new RpcRefusal(400, rpcCodes.server, "Bad request: send Mcp-Session-Id, which initialize has answered.");
  refuseRevision(http.get("mcp-protocol-version"), endpoint.system);
  if (caller.session === null)
    throw new RpcRefusal(404, rpcCodes.noSession, "The session has ended or is unknown: initialize again.");
  await recordUse(endpoint.system, caller.session);
  return caller.session;
}

/** The revisions do not differ here, so a request without one is served as its session was initialized. */
function refuseRevision(revision: string, { config }: System): void {
  if (revision === "" && !config.mcp.require_protocol_version) return;
  if (revisions.some((served) => served === revision)) return;
  throw new RpcRefusal(
    400,
    rpcCodes.server,
    `Bad request: send MCP-Protocol-Version with one of ${revisions.join(", ")}.` +
      (revision === "" ? " For a client that cannot, the operator sets mcp.require_protocol_version to false." : ""),
  );
}

const refuseCall = async (): Promise<never> => {
  throw new AppError("INTERNAL", "This is no tools/call.");
};

/** Origin check against DNS rebinding. A client that is no browser sends none. */
function refuseForeignOrigin(http: Context, { config }: System): void {
  const origin = http.get("origin");
  const allowed = config.mcp.allowed_origins;
  if (origin === "" || allowed.length === 0 || allowed.includes(origin.toLowerCase())) return;
  throw new RpcRefusal(403, rpcCodes.server, "Requests of this Origin are not allowed.");
}

/**
 * Lets web pages of the listed origins call the server and read its headers (Fetch standard, section 3.2); answers
 * their preflight. Requests carry no cookie: they need a token.
 */
function isPreflight(http: Context, { config }: System): boolean {
  if (config.mcp.allowed_origins.length === 0) return false;
  http.vary("Origin");
  const origin = http.get("origin");
  if (origin === "") return false;
  http.set({
    "Access-Control-Allow-Origin": origin,
    "Access-Control-Expose-Headers": "Mcp-Session-Id, WWW-Authenticate, Retry-After",
  });
  if (http.method !== "OPTIONS" || http.get("access-control-request-method") === "") return false;
  http.set({
    "Access-Control-Allow-Methods": methods,
    "Access-Control-Allow-Headers": "authorization, content-type, mcp-session-id, mcp-protocol-version, last-event-id",
    "Access-Control-Max-Age": "600",
  });
  http.status = 204;
  return true;
}

async function authenticate(http: Context, system: System): Promise<Caller> {
  const token = bearerOf(http);
  const session = http.get("mcp-session-id");
  const origin = {
    traceId: traceOf(http),
    ip: visitorAddress(http, system.config),
    userAgent: http.get("user-agent") || null,
  };
  const caller =
    token === null ? null : await callerOf(system, { token, sessionId: isId(session) ? session : null }, origin);
  if (caller === null) throw unauthorised(system.config, http.get("authorization") !== "");
  return caller;
}
