export { countFailingSlots } from "./failing-slot-queries.ts";
export {
  dropOldSlots,
  intervalsOf,
  issueSlots,
  issuedKey,
  selectIssued,
  selectIssuedSince,
} from "./issued-slot-queries.ts";
export { issueFreeSlot, leastRecheckMs } from "./issued-slots.ts";
