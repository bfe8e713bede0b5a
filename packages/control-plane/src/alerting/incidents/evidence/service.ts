export { closeSilently, reevaluate, rescheduleLadders, rescheduleReminders, type PolicyEdit } from "./decisions.ts";
export { lockEvidence, type EvidenceTarget } from "./evidence.ts";
