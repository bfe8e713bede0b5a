import { dayMs, minuteMs } from "@statusmesh/shared/time";

/** Idle and absolute lifetime of a session. */
const idleMs = 30 * dayMs;
export const absoluteMs = 90 * dayMs;

/** Lifetime of a sign-in link. */
export const signInLinkMs = 15 * minuteMs;

/** Sessions without a request since then have ended. */
export const idleSince = (now: Date): Date => new Date(now.getTime() - idleMs);
