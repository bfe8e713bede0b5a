const day = 86_400_000;

/** Idle and absolute lifetime of a session. */
const idleMs = 30 * day;
export const absoluteMs = 90 * day;

/** Lifetime of a sign-in link. */
export const signInLinkMs = 15 * 60_000;

/** Sessions without a request since then have ended. */
export const idleSince = (now: Date): Date => new Date(now.getTime() - idleMs);
