// Defects of deliveries.
const deliveries = "control-plane/src/alerting/deliveries";

export default [
  {
    name: "a receiver that is never well gets one attempt more",
    file: `${deliveries}/retry.ts`,
    search: "outcome.permanent || attempt >= maxAttempts",
    replace: "outcome.permanent || attempt > maxAttempts",
    test: `${deliveries}/retry.test.ts`,
  },
  {
    name: "a permanent failure is repeated",
    file: `${deliveries}/retry.ts`,
    search: "outcome.permanent || attempt >= maxAttempts",
    replace: "attempt >= maxAttempts",
    test: `${deliveries}/retry.test.ts`,
  },
  {
    name: "the backoff does not grow",
    file: `${deliveries}/retry.ts`,
    search: "firstDelayMs * 2 ** (attempt - 1) * (1 + 0.2 * random)",
    replace: "firstDelayMs * (1 + 0.2 * random)",
    test: `${deliveries}/retry.test.ts`,
  },
  {
    name: "a receiver that asks for a day silences its channel for a day",
    file: `${deliveries}/retry.ts`,
    search: "return now + Math.min(maxPauseMs, Math.max(1, outcome.retryAfterSecs) * 1000);",
    replace: "return now + Math.max(1, outcome.retryAfterSecs) * 1000;",
    test: `${deliveries}/retry.test.ts`,
  },
];
