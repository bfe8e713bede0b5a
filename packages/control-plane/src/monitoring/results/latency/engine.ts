export { latencyColumns, latencyOfRuns, msOfSum } from "./queries.ts";
