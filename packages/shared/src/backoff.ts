/** Exponential backoff: `firstMs` after no earlier failure, doubled for each earlier one, at most `maxMs`. */
export const exponentialMs = (failures: number, firstMs: number, maxMs: number): number =>
  Math.min(maxMs, firstMs * 2 ** failures);

/** Between half of `ms` and `ms`, so that clients that failed together do not return together. */
export const jitteredMs = (ms: number, random: () => number = Math.random): number => (ms * (1 + random())) / 2;
