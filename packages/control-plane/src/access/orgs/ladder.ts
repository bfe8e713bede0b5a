import { AppError } from "@statusmesh/shared/errors";
import type { Escalation } from "./schema.ts";

/** The levels of a ladder rise, and name each channel once. `known` are the channels of the organisation. */
export function ladderRule(ladder: Escalation, known: ReadonlySet<string>, base = "/escalation"): void {
  for (const [at, { after_minutes: minutes, channel_ids: ids }] of ladder.entries()) {
    const before = ladder[at - 1]?.after_minutes ?? 0;
    if (minutes <= before)
      throw new AppError("INVALID_ALERT_CONFIG", `Each level is later than the one before: use more than ${before}.`, {
        field: `${base}/${at}/after_minutes`,
      });
    for (const [place, id] of ids.entries()) {
      const field = `${base}/${at}/channel_ids/${place}`;
      if (!known.has(id)) throw new AppError("INVALID_ALERT_CONFIG", "Channel not found.", { field });
      if (ids.indexOf(id) !== place)
        throw new AppError("INVALID_ALERT_CONFIG", "This level names the channel twice. List it once.", { field });
    }
  }
}
