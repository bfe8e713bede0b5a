/*
 * The jobs' door to this domain: what the rollup makes its sums with.
 */
export { latencyColumns, latencyOfRuns } from "./latency-queries.ts";
export { resultDays } from "./hours.ts";
