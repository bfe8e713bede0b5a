export { callsOf, callsOfCauses } from "./on-call.ts";
