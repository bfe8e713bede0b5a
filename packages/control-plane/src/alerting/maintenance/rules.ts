import { AppError } from "@statusmesh/shared/errors";
import { dayMs } from "@statusmesh/shared/time";
import type { WindowRow } from "./queries.ts";
import { maxDays, type WindowState } from "./schema.ts";

export const notFound = (): AppError => new AppError("MAINTENANCE_NOT_FOUND", "Maintenance window not found.");

export function stateOf({ starts_at, ends_at }: { starts_at: Date; ends_at: Date }, now: Date): WindowState {
  if (ends_at <= now) return "past";
  return starts_at <= now ? "active" : "upcoming";
}

/** Throws INVALID_TIME_RANGE and INVALID_DURATION. A start may be of any age. */
export function checkTimes(row: WindowRow): void {
  if (row.ends_at <= row.starts_at)
    throw new AppError("INVALID_TIME_RANGE", "The end must be after the start.", { field: "/ends_at" });
  checkDuration(row.ends_at.getTime() - row.starts_at.getTime());
}

/** Throws INVALID_DURATION for more than 30 days, and for more than the time between two occurrences. */
export function checkDuration(ms: number, betweenMs = Infinity): void {
  const refuse = (message: string) => new AppError("INVALID_DURATION", message, { field: "/ends_at" });
  if (ms > maxDays * dayMs) throw refuse(`A maintenance window lasts at most ${maxDays} days.`);
  if (ms > betweenMs) throw refuse("The window lasts longer than the time to its next occurrence.");
}

/** Throws for a changed start or changed components of a window in progress. */
export function keepRunning(row: WindowRow, changed: WindowRow): void {
  if (changed.starts_at.getTime() !== row.starts_at.getTime())
    throw new AppError("INVALID_TIME_RANGE", "This window has started: its start can no longer be changed.", {
      field: "/starts_at",
    });
  if (changed.target_ids.join() !== row.target_ids.join())
    throw new AppError("INVALID_COMPONENT_ID", "This window has started: its components can no longer be changed.", {
      field: "/component_ids",
    });
}
