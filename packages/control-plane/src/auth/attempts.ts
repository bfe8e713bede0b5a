import { AppError, type ErrorCode } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import type { System } from "../context.ts";
import * as queries from "./attempt-queries.ts";
import type { Caller, OpenedSession } from "./sessions.ts";

const day = 86_400_000;
/** Browsers say more about themselves than anybody reads. */
const maxAgentLength = 300;

/** What an attempt to sign in was, for the log that operators read. */
export interface Attempt {
  method: "magic_link" | "bootstrap_link" | "invitation" | "github" | "google" | "unknown";
  /** As it was typed, or as a provider attests it. */
  email: string | null;
  userId: string | null;
}

/** Why a service did not let somebody in, as the log calls it. */
const outcomes: Partial<Record<ErrorCode, string>> = {
  SIGN_IN_LINK_INVALID: "link_invalid",
  INVITATION_INVALID: "invitation_invalid",
  INVITATION_FOR_ANOTHER: "invitation_for_another",
  QUOTA_EXCEEDED: "member_limit",
  UNAUTHENTICATED: "sign_in_first",
};

/**
 * Writes a row of `login_attempts`. It never throws: nobody is kept out, and nobody let in, because the log cannot be
 * written. Call it when the attempt is decided and committed, never inside its transaction.
 */
export async function noteAttempt(system: System, attempt: Attempt, caller: Caller, outcome: string): Promise<void> {
  const { method, email, userId } = attempt;
  try {
    await queries.insertAttempt(system.sql, {
      id: newId(),
      at: new Date(system.clock.now()),
      method,
      email: email?.toLowerCase() ?? null,
      user_id: userId,
      outcome,
      ip: caller.ip,
      user_agent: caller.userAgent?.slice(0, maxAgentLength) ?? null,
    });
  } catch (error) {
    system.log.error(
      { trace: caller.traceId ?? null, method, outcome, err: String(error) },
      "an attempt to sign in could not be recorded",
    );
  }
}

/** Lets `work` sign somebody in, and writes what became of it. `attempt` is filled in by `work` as it finds out who it is. */
export async function noted<T extends OpenedSession>(
  system: System,
  attempt: Attempt,
  caller: Caller,
  work: () => Promise<T>,
): Promise<T> {
  let opened: T;
  try {
    opened = await work();
  } catch (error) {
    await noteAttempt(
      system,
      attempt,
      caller,
      (error instanceof AppError ? outcomes[error.code] : undefined) ?? "error",
    );
    throw error;
  }
  await noteAttempt(system, { ...attempt, userId: opened.userId }, caller, "ok");
  return opened;
}

/** Removes what is older than `retention.login_attempts_days`. Returns how many rows went. */
export async function purgeAttempts(system: System): Promise<number> {
  return await queries.deleteAttemptsBefore(
    system.sql,
    new Date(system.clock.now() - system.config.retention.login_attempts_days * day),
  );
}
