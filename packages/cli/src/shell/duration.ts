import { InvalidArgumentError } from "commander";
import { durationIn } from "@statusmesh/shared/declared/durations";

/** `90s`, `5m`, `4h` as ms; a parser of an option. */
export function durationMs(text: string): number {
  const ms = durationIn("ms", text);
  if (ms === null || ms === 0) throw new InvalidArgumentError("It must be a duration like 90s, 5m or 4h.");
  return ms;
}
