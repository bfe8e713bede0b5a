export { createReporting, createRules, createTarget, createTargets } from "./create.ts";
export { setTargetRegions, targetRegions } from "./regions.ts";
export { checkRules, completed as completedCheck } from "./rules.ts";
export { savedWarnings, unableTargets } from "./unable.ts";
export { edited, targetTag, type TargetEdit, updateTarget, updateTargets } from "./update.ts";
