export { changePlan, getAnyOrg, listAllOrgs } from "./operator.ts";
