import { AppError } from "@statusmesh/shared/errors";
import { minuteMs } from "@statusmesh/shared/time";
import { localOf, zoneName } from "@statusmesh/shared/zoned";

/** Names of time zones to choose from. */
export const zoneNames: readonly string[] = ["UTC", ...Intl.supportedValuesOf("timeZone")];

/** The canonical name of an IANA time zone. Throws INVALID_TIME_ZONE with the field. */
export function checkedZone(name: string, field: string): string {
  const zone = zoneName(name);
  if (zone !== null) return zone;
  throw new AppError("INVALID_TIME_ZONE", `${name} is no IANA time zone. Use a name like Europe/Berlin or UTC.`, {
    field,
  });
}

/** `2026-11-22 14:02 UTC` or `2026-11-22 15:02 Europe/Berlin`, for texts that people read outside a browser. */
export const minuteIn = (time: string | Date, zone: string): string =>
  timeIn(Math.floor(new Date(time).getTime() / minuteMs) * minuteMs, zone);

/** The same of Unix ms, with seconds unless they are 0: `2026-11-22 15:02:07 Europe/Berlin`. */
export function timeIn(at: number, zone: string): string {
  const local = new Date(localOf(at, zone)).toISOString();
  return `${local.slice(0, 10)} ${local.slice(11, local.slice(17, 19) === "00" ? 16 : 19)} ${zone}`;
}
