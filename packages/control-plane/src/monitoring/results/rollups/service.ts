export { oldestAcceptable } from "./late-queries.ts";
export { hourOf, markLate } from "./late.ts";
export { selectNextHour } from "./rollup-queries.ts";
