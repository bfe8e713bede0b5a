/**
 * The error of a run that an open circuit breaker refused: it counts as failing, but it is not what is wrong with the
 * target.
 */
export const circuitOpen = "circuit_open";

/** The error of a run that the cap per host held back: no evidence, but something for the operator to change. */
export const throttledByCap = "throttled: host concurrency cap";
/** The setting that the cap is. */
export const capSetting = "checker.per_host_max_inflight";
