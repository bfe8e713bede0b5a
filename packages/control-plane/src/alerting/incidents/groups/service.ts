export { markGroups, markMembers } from "./judging.ts";
export { writeLevels } from "./queries.ts";
export { neededOf, type MemberCounts } from "./state.ts";
