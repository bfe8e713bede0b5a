import type { Parameters } from "fast-check";

/**
 * How many random histories a test of a model plays: the same few at each run of all tests. `SM_TEST_RUNS` draws as
 * many others. A failure prints its seed and path: `SM_TEST_SEED` and `SM_TEST_PATH` play that history again.
 */
export function histories(usual: number): Parameters<[unknown]> {
  const { SM_TEST_RUNS: runs, SM_TEST_SEED: seed, SM_TEST_PATH: path } = process.env;
  const given = seed ?? (runs === undefined ? "1" : undefined);
  return {
    numRuns: Number(runs ?? usual),
    endOnFailure: false,
    ...(given === undefined ? {} : { seed: Number(given) }),
    ...(path === undefined ? {} : { path }),
  };
}
