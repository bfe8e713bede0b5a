const day = 86_400_000;

/** A session ends after this long without a request, and after this long in any case. */
const idleMs = 30 * day;
export const absoluteMs = 90 * day;

/** A sign-in link works for this long, once. */
export const signInLinkMs = 15 * 60_000;

/** Sessions not used since then have ended. */
export const idleSince = (now: Date): Date => new Date(now.getTime() - idleMs);
