// Defects of schedule, circuit breaker, network guard, ingest, partitions and retention.
const pipeline = "control-plane/src/monitoring/pipeline";
const partitions = "control-plane/src/platform/db/distributed/partitions.ts";
const rollup = "control-plane/src/monitoring/results/rollups/rollup.test.ts";
const ingest = `${pipeline}/ingest.test.ts`;
const schedule = "shared/src/schedule.ts";
const limits = "agent/src/run/limits.ts";
const limitsTest = "agent/src/run/limits.test.ts";
const network = "agent/src/run/network.ts";
const networkTest = "agent/src/run/network.test.ts";

export default [
  {
    name: "two regions of a monitor check at the same time",
    file: schedule,
    search: "hash32(`${targetId}/${region}`)",
    replace: "hash32(targetId)",
    test: "agent/src/schedule/schedule.test.ts",
  },
  {
    name: "a slot that is due now is left out",
    file: schedule,
    search: "return Math.ceil((fromMs - phase) / intervalMs) * intervalMs + phase;",
    replace: "return (Math.floor((fromMs - phase) / intervalMs) + 1) * intervalMs + phase;",
    test: "agent/src/schedule/schedule.test.ts",
  },
  {
    name: "an agent that takes over skips a run whose jitter is not over",
    file: schedule,
    search: "return last + jitterMs(targetId, last, intervalMs, jitterPct) >= nowMs ? last : slot;",
    replace: "return slot;",
    test: "control-plane/src/monitoring/pipeline/assign.test.ts",
  },
  {
    name: "a check that still runs starts a second time",
    file: "agent/src/schedule/schedule.ts",
    search: "const begins = entry.running === null || turn !== null;",
    replace: "const begins = true;",
    test: "agent/src/schedule/schedule.test.ts",
  },
  {
    name: "a recheck comes right before the next run",
    file: schedule,
    search: "const last = intervalMs - step / 2;",
    replace: "const last = intervalMs;",
    test: "agent/src/schedule/schedule.test.ts",
  },
  {
    name: "a result of before the monitor is accepted",
    file: schedule,
    search: 'if (slotMs < schedule.createdAt) return "before_creation";',
    replace: "",
    test: ingest,
  },
  {
    name: "a breaker opens one failure later",
    file: limits,
    search: ".slice(-failuresToOpen);",
    replace: ".slice(-failuresToOpen - 1);",
    test: limitsTest,
  },
  {
    name: "a connection leaves the breaker open",
    file: limits,
    search: "  connected(key: string): void {\n    this.#breakers.delete(key);",
    replace: "  connected(key: string): void {\n    this.#breakers.get(key);",
    test: limitsTest,
  },
  {
    name: "an open breaker allows every run as a trial",
    file: limits,
    search: "    breaker.openUntil = now + openMs;\n    breaker.trialUntil",
    replace: "    breaker.trialUntil",
    test: limitsTest,
  },
  {
    name: "one run more than the limit of a host",
    file: limits,
    search: "return (this.#counts.get(key) ?? 0) >= this.max;",
    replace: "return (this.#counts.get(key) ?? 0) > this.max;",
    test: limitsTest,
  },
  {
    name: "the answer of the failed destination itself proves that the network works",
    file: network,
    search: "(key === keyOf(failure) ? other : at) >= failure.began",
    replace: "at >= failure.began",
    test: networkTest,
  },
  {
    name: "an answer from before the run proves that the network works",
    file: network,
    search: "(key === keyOf(failure) ? other : at) >= failure.began",
    replace: "(key === keyOf(failure) ? other : at) > -Infinity",
    test: networkTest,
  },
  {
    name: "two silent networks are an outage of the agent",
    file: network,
    search: "const minSilentNetworks = 3;",
    replace: "const minSilentNetworks = 2;",
    test: networkTest,
  },
  {
    name: "the guard lets the metadata addresses of clouds pass",
    file: "shared/src/net/address.ts",
    search: '  "169.254.0.0/16",\n',
    replace: "",
    test: "shared/src/net/address.test.ts",
  },
  {
    name: "the guard lets IPv4 addresses in IPv6 pass",
    file: "shared/src/net/address.ts",
    search: 'const globalUnicastV6 = "2000::/3";',
    replace: 'const globalUnicastV6 = "::/1";',
    test: "shared/src/net/address.test.ts",
  },
  {
    name: "a name with one private address passes the guard",
    file: "shared/src/net/resolve-guarded.ts",
    search: "found.some((it) => blockedRange(it) !== null)",
    replace: "found.every((it) => blockedRange(it) !== null)",
    test: "shared/src/net/resolve-guarded.test.ts",
  },
  {
    name: "an absent name is told from a private one",
    file: "shared/src/net/resolve-guarded.ts",
    search: "if (!allowPrivate && (found instanceof DialError || found.some",
    replace: "if (!allowPrivate && !(found instanceof DialError) && (found.some",
    test: "shared/src/net/resolve-guarded.test.ts",
  },
  {
    name: "attempts to sign in are kept for ever",
    file: "control-plane/src/access/auth/passwords/attempts.ts",
    search: "config.retention.login_attempts_days * dayMs",
    replace: "config.retention.login_attempts_days * dayMs * 1000",
    test: "control-plane/src/access/auth/passwords/attempts.test.ts",
  },
  {
    name: "the first day that is kept loses its results",
    file: partitions,
    search: "if (name >= oldest) continue;",
    replace: "if (name > oldest) continue;",
    test: rollup,
  },
  {
    name: "the last day ahead has no partition",
    file: partitions,
    search: "Math.max(0, last - first + 1)",
    replace: "Math.max(0, last - first)",
    test: rollup,
  },
  {
    name: "hours are dropped after a month",
    file: "control-plane/src/monitoring/results/rollups/retention.ts",
    search: "const keepMonths = 13;",
    replace: "const keepMonths = 1;",
    test: rollup,
  },
  {
    name: "a run of a paused monitor is evidence",
    file: `${pipeline}/ingest.ts`,
    search: "if (locked.target.enabled && !skip) runs.push",
    replace: "if (!skip) runs.push",
    test: ingest,
  },
  {
    name: "a batch of which a result is stored already is refused",
    file: `${pipeline}/ingest.ts`,
    search: "return await ingestBatch(ctx, batch, drops, true);",
    replace: "throw error;",
    test: ingest,
  },
];
