export { dropOldOrgCounts, gatherOrgCounts, uncountDeleted } from "./org-count-queries.ts";
export { countForOrgs } from "./org-counts.ts";
