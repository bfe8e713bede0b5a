export { createReporting, createRules, createTarget, createTargets } from "./create.ts";
export { setTargetRegions, targetRegions } from "./regions.ts";
export { checkRules, completed as completedCheck } from "./rules.ts";
export { savedWarnings, unableTargets } from "./unable.ts";
export { updateTarget, updateTargets } from "./update.ts";
export { edited, targetTag, type TargetEdit } from "./edit.ts";
