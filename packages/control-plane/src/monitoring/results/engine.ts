export { oldAfterMs, resultDays } from "./hours.ts";
export { runs } from "./runs-queries.ts";
