/** Exit codes of sysexits.h: a supervisor restarts after the first, and not after the second. */
const temporaryFailure = 75;
const configurationError = 78;

/**
 * A problem that prevents the start. `main` prints the message without a stack. `temporary` says that a later start may
 * succeed without a change by the administrator.
 */
export class StartupError extends Error {
  override readonly name: string = "StartupError";
  readonly exitCode: number;

  constructor(message: string, { cause, temporary = false }: { cause?: unknown; temporary?: boolean } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.exitCode = temporary ? temporaryFailure : configurationError;
  }
}
