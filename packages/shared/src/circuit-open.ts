/**
 * The error of a run that an open circuit breaker refused: it counts as failing, but it is not what is wrong with the
 * target.
 */
export const circuitOpen = "circuit_open";
