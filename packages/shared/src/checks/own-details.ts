import { type CheckType, detailsOf, type ResultDetails } from "./index.ts";
import { validatorOf } from "../schema/problems.ts";

// Not in index.ts: the compiler takes 100 ms to load, and wrong usage of sm-agent needs none.
/** True for valid details of this kind, with an existing date. */
export function areDetailsOf(type: CheckType, details: ResultDetails): boolean {
  const own = detailsOf(type);
  if (own === null || !validatorOf(own.schema).Check(details)) return false;
  return own.expiresAt === undefined || Number.isFinite(own.expiresAt(details));
}
