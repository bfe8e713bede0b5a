export { openSpec, resealTargets, unreadableTargets } from "./sealing.ts";
export {
  deleteTargets,
  existingTargetIds,
  keepStored as keepTargets,
  manageTargets,
  notifiedChannels,
  openedCheck,
  storedNames,
  storedTargets,
  taggedTargets,
  targetCount,
  type StoredName,
  type StoredTarget,
  undeclaredTargets,
} from "./stored.ts";
