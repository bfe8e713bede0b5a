export { availabilityOf, dayState, expectedOf, shareOf, shownPct, sliceState } from "./availability.ts";
export { intervalSecsOf, scheduleRule, withGrace } from "./schedule.ts";
