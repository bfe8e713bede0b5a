import type { Static, TObject } from "typebox";
import type { Ctx, Scope } from "../context.ts";

/** Continuation of a list. Positions are texts of the tool; the cursor that a client gets is signed. */
export interface Continuation {
  /** Position behind the last row that the client has; null at the start. */
  readonly after: string | null;
  /** The cursor for a position. */
  next(position: string): string;
}

/** A tool call with checked arguments. */
export interface ToolCall<A> {
  readonly ctx: Ctx;
  readonly args: A;
  readonly cursor: Continuation;
}

/** Confirmation by a person before a write, and hints that clients get about it. */
export interface Confirmation<A> {
  /**
   * The question: what happens to which thing. Throws the AppError of invalid arguments or of an absent id, so that
   * they are refused without a question. Names are {@link quoted}, texts that a yes publishes {@link quotedWhole}.
   */
  ask(call: { ctx: Ctx; args: A }): Promise<string>;
  /** True when a repeated call changes nothing more. */
  idempotent: boolean;
  /** True when the call takes something away, such as alerts. */
  destructive: boolean;
  /** True when the call reaches systems or people outside. */
  openWorld: boolean;
  /** The equivalent route, as the audit log names the change. Null for a call that changes no configuration. */
  action: string | null;
}

/** An MCP tool. The registry in mcp/ derives hints, budget and schemas from it. */
export interface Tool {
  readonly name: string;
  readonly title: string;
  /** Tells a model when to use the tool. */
  readonly description: string;
  readonly scope: Scope;
  readonly input: TObject;
  readonly output: TObject;
  readonly confirm: Confirmation<unknown> | null;
  handle(call: ToolCall<unknown>): Promise<object>;
}

/** Declares a tool. Its handler calls the service verb of the equivalent route. */
export function tool<I extends TObject, O extends TObject>(declared: {
  name: string;
  title: string;
  description: string;
  scope: Scope;
  input: I;
  output: O;
  confirm?: Confirmation<Static<I>>;
  handle(call: ToolCall<Static<I>>): Promise<Static<O>>;
}): Tool {
  // Erases the types of the declaration; the registry passes arguments that the schema has validated.
  return { ...declared, confirm: declared.confirm ?? null } as Tool;
}
