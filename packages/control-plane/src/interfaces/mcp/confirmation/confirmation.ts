import { isId, newId } from "@statusmesh/shared/ids";
import { inTransaction, type System } from "../../../platform/context.ts";
import type { Hub } from "../../../platform/db/notify.ts";
import * as queries from "./queries.ts";
import type { NoConfirmation } from "../failures.ts";
import type { RpcAnswer } from "../message.ts";
import type { SendRequest } from "../server.ts";
import { announce } from "../sessions/queries.ts";
import type { Session } from "../sessions/sessions.ts";

/** Time for a person to answer. */
const answerMs = 120_000;
/** Confirmations of one session that wait for an answer. */
const maxOpen = 8;

/** A form with one required field: the title of the field says what a tick means. */
const requestedSchema = {
  type: "object",
  properties: {
    confirm: { type: "boolean", title: "Yes, do this now", description: "Leave it off to change nothing." },
  },
  required: ["confirm"],
};

/** What an answer that is no yes means. */
const refusals: Readonly<Record<Exclude<queries.Answer, "accepted">, NoConfirmation>> = {
  declined: "declined",
  dismissed: "dismissed",
  failed: "cannot_ask",
  withdrawn: "call_ended",
};

/**
 * Asks the person at the client and waits. Null for a yes within two minutes, else why there is none; `signal` fires
 * when the client disconnects. Any replica may receive the answer. No connection or transaction of the database is held
 * meanwhile.
 */
export async function whyNotConfirmed(
  system: System,
  hub: Hub,
  asked: { session: Session; requestId: string | number; question: string; send: SendRequest; signal: AbortSignal },
): Promise<NoConfirmation | null> {
  const { session, requestId, question, send, signal } = asked;
  const { sql, clock } = system;
  const id = newId();
  const deadline = clock.now() + answerMs;
  const over = new AbortController();
  const ends = AbortSignal.any([signal, over.signal]);
  // Listens before the question is out, so that no answer is lost.
  const answered = () =>
    hub.wait("sm_mcp", Math.max(0, deadline - clock.now()), {
      predicate: (payload) => payload === id || payload === session.id,
      signal: ends,
    });
  let next = answered();
  const row = {
    id,
    sessionId: session.id,
    requestId: JSON.stringify(requestId),
    now: new Date(clock.now()),
    expiresAt: new Date(deadline),
  };
  const refused = await inTransaction(system, async (tx): Promise<NoConfirmation | null> => {
    if (!(await queries.lockSession(tx.sql, session.id))) return "call_ended";
    return (await queries.insertConfirmation(tx.sql, row, maxOpen)) ? null : "too_many";
  });
  try {
    if (refused !== null) return refused;
    await send({ id, method: "elicitation/create", params: { message: question, requestedSchema } });
    for (;;) {
      await next;
      next = answered();
      const answer = await queries.selectAnswer(sql, id);
      if (answer !== "open" || signal.aborted || clock.now() >= deadline) break;
    }
    // One statement decides between an answer and the end of the waiting.
    const answer = await queries.closeConfirmation(sql, id);
    if (answer === "accepted") return null;
    if (answer !== null) return refusals[answer];
    return !signal.aborted && clock.now() >= deadline ? "timed_out" : "call_ended";
  } catch (error) {
    await queries.closeConfirmation(sql, id);
    throw error;
  } finally {
    over.abort();
  }
}

/** Takes the answer to a question. Only `accept` with `confirm: true` is a yes; it counts once, in its own session. */
export async function answerConfirmation(
  { sql, clock }: System,
  session: Session,
  { id, result }: RpcAnswer,
): Promise<void> {
  if (typeof id !== "string" || !isId(id)) return;
  const now = new Date(clock.now());
  if (await queries.answerOpen(sql, session.id, id, meaningOf(result), now)) await announce(sql, id);
}

function meaningOf(result: RpcAnswer["result"]): queries.Answer {
  if (result === null) return "failed";
  if (result["action"] === "cancel") return "dismissed";
  const content = result["content"] as { confirm?: unknown } | null | undefined;
  const isYes = result["action"] === "accept" && typeof content === "object" && content?.confirm === true;
  return isYes ? "accepted" : "declined";
}

/** The client has cancelled the call: its question has no answer any more. */
export async function withdrawConfirmations({ sql }: System, session: Session, requestId: unknown): Promise<void> {
  if (typeof requestId !== "string" && typeof requestId !== "number") return;
  for (const id of await queries.withdrawCall(sql, session.id, JSON.stringify(requestId))) await announce(sql, id);
}
