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
  {
    name: "an incident joins an alert that somebody has acknowledged, and pages nobody",
    file: `${deliveries}/alert-queries.ts`,
    search: "and a.ended_at is null and a.acknowledged_at is null\n        and a.last_opening_at",
    replace: "and a.ended_at is null\n        and a.last_opening_at",
    test: `${deliveries}/alerts.test.ts`,
  },
  {
    name: "an incident joins a group whose incidents are all acknowledged",
    file: `${deliveries}/alert-queries.ts`,
    search: "and exists (select ${told(sql)} and i.acknowledged_at is null)",
    replace: "",
    test: `${deliveries}/alerts.test.ts`,
  },
  {
    name: "a critical incident joins the alert of a lesser one",
    file: `${deliveries}/alert-queries.ts`,
    search: "and exists (select ${told(sql)} and array_position(${ranks(sql)}, i.severity) >= o.rank)",
    replace: "",
    test: `${deliveries}/alerts.test.ts`,
  },
  {
    name: "failures that share a tag of every second monitor are one alert",
    file: `${deliveries}/alert-queries.ts`,
    search: "or g.size * ${rareTag} <=",
    replace: "or g.size * 1 <=",
    test: `${deliveries}/alerts.test.ts`,
  },
  {
    name: "a resolve overtakes the trigger that is in flight",
    file: `${deliveries}/alerts.ts`,
    search: "if (known.in_flight && !known.isCarrier)",
    replace: "if (known.in_flight && !known.isCarrier && isOpen)",
    test: `${deliveries}/alerts.test.ts`,
  },
  {
    name: "an alert is acknowledged while one of its incidents waits",
    file: `${deliveries}/alerts.ts`,
    search: "isOpen && !waits && !isAcknowledged",
    replace: "isOpen && !isAcknowledged",
    test: `${deliveries}/alerts.test.ts`,
  },
  {
    name: "a process that was suspended sends what another one has claimed since",
    file: `${deliveries}/deliverer.ts`,
    search: "const latestSendMs = leaseMs / 2;",
    replace: "const latestSendMs = leaseMs * 2;",
    test: `${deliveries}/leases.test.ts`,
  },
];
