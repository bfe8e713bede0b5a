import type { Context } from "koa";
import { isObject, type Json } from "@statusmesh/shared/json";
import { readJson } from "../../platform/http/body/body.ts";
import { RpcRefusal, rpcCodes, type RpcId } from "./refusals.ts";

const maxBytes = 1_048_576;

export interface RpcRequest {
  readonly kind: "request";
  readonly id: RpcId;
  readonly method: string;
  readonly params: Json | undefined;
}
export interface RpcNotification {
  readonly kind: "notification";
  readonly method: string;
  readonly params: Json | undefined;
}
/** Answer to a request of the server. `result` is null for an error. */
export interface RpcAnswer {
  readonly kind: "answer";
  readonly id: RpcId | null;
  readonly result: Json | null;
}
export type RpcMessage = RpcRequest | RpcNotification | RpcAnswer;

const isRpcId = (value: unknown): value is RpcId => typeof value === "string" || Number.isSafeInteger(value);

/** The JSON-RPC message of a POST: media types, size, syntax, shape. Throws RpcRefusal or AppError. */
export async function readMessage(http: Context): Promise<{ message: RpcMessage; raw: unknown }> {
  const accepted = http.get("accept");
  if (!accepted.includes("application/json") || !accepted.includes("text/event-stream"))
    throw notAcceptable("application/json, text/event-stream");
  const raw = await readJson(http, maxBytes);
  return { message: messageOf(raw), raw };
}

export const notAcceptable = (wanted: string): RpcRefusal =>
  new RpcRefusal(406, rpcCodes.server, `Not acceptable: send Accept: ${wanted}`);

/** The message, by JSON-RPC 2.0 section 4. A batch is refused: the revisions since 2025-06-18 have none. */
function messageOf(raw: unknown): RpcMessage {
  if (Array.isArray(raw)) throw invalidRequest("a batch is not supported: send one message per request");
  if (!isObject(raw) || raw["jsonrpc"] !== "2.0") throw invalidRequest('it has no "jsonrpc": "2.0"');
  const { id, method, params } = raw;
  if (method === undefined) return answerOf(raw);
  if (typeof method !== "string") throw invalidRequest("method is not a string");
  if (params !== undefined && !isObject(params))
    throw new RpcRefusal(400, rpcCodes.invalidParams, "Invalid params: params must be an object.", {
      id: isRpcId(id) ? id : null,
    });
  if (!Object.hasOwn(raw, "id")) return { kind: "notification", method, params };
  if (!isRpcId(id)) throw invalidRequest("id must be a string or a whole number");
  return { kind: "request", id, method, params };
}

function answerOf({ id, result, error }: Json): RpcAnswer {
  const known = isRpcId(id) ? id : null;
  if (isObject(result) && error === undefined && known !== null) return { kind: "answer", id: known, result };
  if (isObject(error) && result === undefined) return { kind: "answer", id: known, result: null };
  throw invalidRequest("it is neither a request nor a notification nor an answer");
}

const invalidRequest = (why: string): RpcRefusal =>
  new RpcRefusal(400, rpcCodes.invalidRequest, `Invalid request: ${why}.`);

/** Name and arguments of a `tools/call`. Throws -32602, also for an unknown tool. */
export function toolCallOf<T extends { readonly tool: { readonly name: string } }>(
  { id, params }: RpcRequest,
  tools: ReadonlyMap<string, T>,
): { entry: T; args: Json } {
  const invalid = (why: string) => new RpcRefusal(200, rpcCodes.invalidParams, `Invalid params: ${why}.`, { id });
  const name = params?.["name"];
  const { arguments: args = {} } = params ?? {};
  if (typeof name !== "string") throw invalid("name must be the name of a tool");
  const entry = tools.get(name);
  if (entry === undefined) throw invalid(`there is no tool ${JSON.stringify(name.slice(0, 60))}; see tools/list`);
  if (!isObject(args)) throw invalid("arguments must be an object");
  return { entry, args };
}
