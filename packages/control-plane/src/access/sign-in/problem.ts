/** Why a sign-in with a provider failed. The reason is stable: `login_attempts` stores it. */
export const problems = {
  state_invalid: {
    status: 400,
    words: (title: string) =>
      `This sign-in with ${title} was completed, has expired, or was started in another browser. Start again.`,
  },
  denied: { status: 403, words: (title: string) => `The sign-in was denied at ${title}. Nothing has changed.` },
  provider_unavailable: {
    status: 503,
    words: (title: string) => `${title} does not respond. Try again in a moment, or use another sign-in method.`,
  },
  provider_refused: {
    status: 502,
    words: (title: string) =>
      `${title} refused the sign-in. Start again. If it fails again, ask your administrator to check the log.`,
  },
  answer_invalid: {
    status: 502,
    words: (title: string) =>
      `The response of ${title} is invalid. Start again. If it fails again, ask your administrator to check the log.`,
  },
  email_unverified: {
    status: 403,
    words: (title: string) =>
      `${title} has no verified email address for you. Verify the address there, then sign in again.`,
  },
  no_account: {
    status: 403,
    words: (_title: string) =>
      "There is no account with this address. Ask an owner of your organisation to invite it, " +
      "or sign in with the account that was invited.",
  },
  no_role: {
    status: 403,
    words: (title: string) =>
      `None of your groups at ${title} has access here. Ask your administrator, then sign in again.`,
  },
  member_limit: {
    status: 403,
    words: (_title: string) =>
      "You are invited, but the organisation has reached its member limit. Ask one of its owners.",
  },
} as const;

export type Reason = keyof typeof problems;

/** A failed sign-in with a provider. The message is for the log. */
export class SignInProblem extends Error {
  override readonly name = "SignInProblem";
  readonly reason: Reason;
  /** The address that the provider sent, shown to its owner. */
  readonly email: string | null;

  constructor(reason: Reason, message: string, options: { email?: string | null; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.reason = reason;
    this.email = options.email ?? null;
  }
}
