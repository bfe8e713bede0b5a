import { Compile, type Validator } from "typebox/compile";
import { type CheckType, detailsOf, type ResultDetails } from "./index.ts";

// Not in index.ts: the compiler takes 100 ms to load, and wrong usage of sm-agent needs none.
const compiled = new Map<CheckType, Validator>();

/** True for valid details of this kind, with an existing date. */
export function areDetailsOf(type: CheckType, details: ResultDetails): boolean {
  const own = detailsOf(type);
  if (own === null) return false;
  const validator = compiled.get(type) ?? Compile(own.schema);
  compiled.set(type, validator);
  return validator.Check(details) && (own.expiresAt === undefined || Number.isFinite(own.expiresAt(details)));
}
