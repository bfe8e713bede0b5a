import * as format from "../../platform/html/format.ts";
import { localOf } from "@statusmesh/shared/zoned";
import type { UptimeRow } from "./schema.ts";

/** Gaps of a row that are listed; the others are counted. */
const shownGaps = 3;

/** The gaps of a row in words, in the zone, and how many more there are. */
export function gapsOf({ gaps }: Pick<UptimeRow, "gaps">, zone: string): { shown: string[]; more: number } {
  const time = (at: string) => {
    const local = new Date(localOf(Date.parse(at), zone));
    return `${format.day(local)} ${local.toISOString().slice(11, 16)}`;
  };
  return {
    shown: gaps.slice(0, shownGaps).map(({ from, to }) => `${time(from)} to ${time(to)}`),
    more: Math.max(0, gaps.length - shownGaps),
  };
}
