/** Why a sign-in with a provider failed. The reason is stable: `login_attempts` stores it. */
export const problems = {
  state_invalid: {
    status: 400,
    words: (title: string) =>
      `This sign-in with ${title} was begun in another browser, more than ten minutes ago, or is over already. Begin again.`,
  },
  denied: { status: 403, words: (title: string) => `${title} says that you did not allow it. Nothing has changed.` },
  provider_unavailable: {
    status: 503,
    words: (title: string) => `${title} does not answer as it should. Try again in a moment, or sign in another way.`,
  },
  provider_refused: {
    status: 502,
    words: (title: string) =>
      `${title} refused the sign-in. Begin again; if that does not help, tell whoever runs StatusMesh: the reason is in its log.`,
  },
  answer_invalid: {
    status: 502,
    words: (title: string) =>
      `What ${title} answered cannot be trusted, so nobody was signed in. Begin again; if that does not help, tell whoever runs StatusMesh.`,
  },
  email_unverified: {
    status: 403,
    words: (title: string) =>
      `${title} has no verified email address of yours. Verify the address there, then sign in again.`,
  },
  no_account: {
    status: 403,
    words: (_title: string) =>
      "Nobody here has that address. Ask an owner of your organisation to invite it, or sign in with the account that you were invited with.",
  },
  member_limit: {
    status: 403,
    words: (_title: string) =>
      "You are invited, but the organisation has no room for another member. Ask one of its owners.",
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
