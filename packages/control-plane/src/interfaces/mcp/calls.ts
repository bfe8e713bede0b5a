import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { fits, type SchemaNode, validate } from "@statusmesh/shared/schema/validate";
import type { Ctx, System } from "../../platform/context.ts";
import type { Hub } from "../../platform/db/notify.ts";
import { asAppError, describe } from "../../platform/http/exchange.ts";
import type { Tool } from "../../platform/http/tool.ts";
import { recordCall, type Recorded, recordedArguments } from "./audit/audit.ts";
import type { Caller } from "./sessions/callers.ts";
import { whyNotConfirmed } from "./confirmation/confirmation.ts";
import { continuationOf } from "./sessions/cursors.ts";
import { failed, failureOf, type NoConfirmation, notConfirmed } from "./failures.ts";
import type { RpcId } from "./refusals.ts";
import type { Outcome } from "./schema.ts";
import type { SendRequest } from "./server.ts";
import type { Session } from "./sessions/sessions.ts";

/** Bytes of a result, as JSON. */
const maxResultBytes = 25_000;

/** One call of a tool. */
export interface ToolRun {
  /** Records the refusal of a call that does not run. */
  denied(detail: string): Promise<void>;
  /** What is recorded of a call that a limit refuses; null for one that only reads. */
  readonly overLimit: Recorded | null;
  /** Runs the tool; never throws. `signal` fires when the client hangs up. */
  run(send: SendRequest, signal: AbortSignal): Promise<CallToolResult>;
}

interface Call {
  readonly system: System;
  readonly hub: Hub;
  readonly caller: Caller;
  readonly session: Session;
  readonly tool: Tool;
  readonly args: Readonly<Record<string, unknown>>;
  readonly requestId: RpcId;
}

/** A call without confirmation. `detail` is for the audit. */
class Denied extends Error {
  readonly reason: NoConfirmation;
  readonly detail: string;

  constructor(reason: NoConfirmation, detail: string = reason) {
    super(detail);
    this.reason = reason;
    this.detail = detail;
  }
}

export function callTool(call: Call): ToolRun {
  const { caller, tool } = call;
  const record = async (outcome: Outcome, detail: string | null): Promise<void> => {
    if (tool.confirm !== null) await recordCall(caller, recorded(outcome, detail));
  };
  const recorded = (outcome: Outcome, detail: string | null): Recorded => {
    const args = recordedArguments(call.args, Object.keys(tool.input.properties));
    return { tool: tool.name, arguments: args, outcome, detail };
  };
  return {
    overLimit: tool.confirm === null ? null : recorded("denied", "too_many_requests"),
    denied: async (detail) => await record("denied", detail),
    async run(send, signal) {
      try {
        const output = await perform(call, send, signal);
        await record("success", null);
        return output;
      } catch (thrown) {
        if (thrown instanceof Denied) {
          await record("denied", thrown.detail);
          return failed(notConfirmed(thrown.reason));
        }
        const failure = failureOf(thrown, tool);
        if (failure.code === "internal") report(caller.ctx, tool, thrown);
        await record("error", failure.code);
        return failed(failure);
      }
    },
  };
}

/** Arguments, existence, confirmation, access again, then the handler. */
async function perform(call: Call, send: SendRequest, signal: AbortSignal): Promise<CallToolResult> {
  const { caller, tool } = call;
  const args = validate(tool.input, structuredClone(call.args)) as Record<string, unknown>;
  const cursor = Object.hasOwn(tool.input.properties, "cursor")
    ? await continuationOf(caller.ctx, tool, args)
    : noContinuation;
  const ctx = tool.confirm === null ? caller.ctx : await confirmedCtx(call, args, send, signal);
  const output = await tool.handle({ ctx, args, cursor });
  return resultOf(tool, output);
}

const noContinuation = {
  after: null,
  next(): string {
    throw new Error("the tool declares no cursor");
  },
};

/** The context of a confirmed call, by the access that the client has after the yes. Throws Denied. */
async function confirmedCtx(
  { system, hub, caller, session, tool, requestId }: Call,
  args: Record<string, unknown>,
  send: SendRequest,
  signal: AbortSignal,
): Promise<Ctx> {
  const { ask, action } = tool.confirm!;
  const question = await ask({ ctx: caller.ctx, args });
  const refusal = session.canConfirm
    ? await whyNotConfirmed(system, hub, { session, requestId, question, send, signal })
    : "cannot_ask";
  if (refusal !== null) throw new Denied(refusal);
  const now = await caller.again();
  const { userId, orgId, client } = caller.owner;
  if (now?.owner.userId !== userId || now.owner.orgId !== orgId || now.owner.client !== client)
    throw new Denied("access_ended");
  if (!now.ctx.scopes.has(tool.scope)) throw new Denied("access_ended", "insufficient_scope");
  return { ...now.ctx, trail: { ...now.ctx.trail!, action: action ?? `MCP ${tool.name}` } };
}

/** The result, as data and as the same JSON in a text. */
function resultOf(tool: Tool, returned: object): CallToolResult {
  const output = withoutNulls(tool.output as SchemaNode, returned) as object;
  const text = JSON.stringify(output);
  const bytes = Buffer.byteLength(text);
  if (bytes >= maxResultBytes) throw new Error(`${tool.name} answered ${bytes} bytes`);
  if (!fits(tool.output, output)) throw new Error(`${tool.name} answered what it does not declare: ${text}`);
  return { structuredContent: output as Record<string, unknown>, content: [{ type: "text", text }] };
}

/** The value without fields that are null and not required. */
function withoutNulls(node: SchemaNode | undefined, value: unknown): unknown {
  if (typeof value !== "object" || value === null || node === undefined) return value;
  if (Array.isArray(value)) {
    const { items } = node;
    return Array.isArray(items) ? value : value.map((item) => withoutNulls(items, item));
  }
  const { properties = {}, required = [] } = node;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key, field]) => field !== null || required.includes(key))
      .map(([key, field]) => [key, withoutNulls(properties[key], field)]),
  );
}

function report({ log, traceId }: Ctx, tool: Tool, thrown: unknown): void {
  const { code } = asAppError(thrown);
  // The database watch logs an outage once, at its start and its end.
  const level = code === "DEPENDENCY_DOWN" ? "debug" : "error";
  log[level]({ trace: traceId, tool: tool.name, code, err: describe(thrown) }, "an MCP tool failed");
}
