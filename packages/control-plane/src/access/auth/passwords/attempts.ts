import { AppError, type ErrorCode } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { dayMs } from "@statusmesh/shared/time";
import type { System } from "../../../platform/context.ts";
import * as queries from "../queries.ts";

/** The browser that signs in. */
export interface Caller {
  userAgent: string | null;
  ip: string;
  /** The session cookie that the browser sent: that session ends (session fixation). */
  previous?: string | null;
  /** True when nothing was proved anew: the new session keeps the absolute expiry of the previous one. */
  continues?: boolean;
  traceId?: string | null;
}

/** User-Agent headers are cut to this length. */
const maxAgentLength = 300;

/** An attempt to sign in, for the log of attempts. */
export interface Attempt {
  method:
    | "magic_link"
    | "bootstrap_link"
    | "reset_link"
    | "invitation"
    | "github"
    | "google"
    | "oidc"
    | "password"
    | "passkey"
    | "unknown";
  /** As typed, or as the identity provider attests it. */
  email: string | null;
  userId: string | null;
}

/** Outcome in the log of each error that refuses a sign-in. */
const outcomes: Partial<Record<ErrorCode, string>> = {
  SIGN_IN_LINK_INVALID: "link_invalid",
  INVALID_CREDENTIALS: "credentials_invalid",
  CODE_REQUIRED: "code_required",
  CODE_INVALID: "code_invalid",
  INVITATION_INVALID: "invitation_invalid",
  INVITATION_FOR_ANOTHER: "invitation_for_another",
  QUOTA_EXCEEDED: "member_limit",
  UNAUTHENTICATED: "sign_in_first",
};

/**
 * Writes a row of `login_attempts`. It never throws: a failure of the log changes no sign-in. Call it after the commit
 * of the attempt, never inside its transaction.
 */
export async function recordAttempt(system: System, attempt: Attempt, caller: Caller, outcome: string): Promise<void> {
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

/** Runs a sign-in and records its outcome. `work` fills in `attempt` as it identifies the user. */
export async function withAttemptRecorded<T extends { userId: string }>(
  system: System,
  attempt: Attempt,
  caller: Caller,
  work: () => Promise<T>,
): Promise<T> {
  let opened: T;
  try {
    opened = await work();
  } catch (error) {
    // A try that is refused counts nowhere, and a flood of them writes no rows.
    if (error instanceof AppError && error.code === "RATE_LIMITED") throw error;
    const outcome = error instanceof AppError ? outcomes[error.code] : undefined;
    await recordAttempt(system, attempt, caller, outcome ?? "error");
    throw error;
  }
  await recordAttempt(system, { ...attempt, userId: opened.userId }, caller, "ok");
  return opened;
}

/** Deletes attempts older than `retention.login_attempts_days`; returns their number. */
export async function purgeAttempts({ sql, clock, config }: System): Promise<number> {
  return await queries.deleteAttemptsBefore(sql, new Date(clock.now() - config.retention.login_attempts_days * dayMs));
}
