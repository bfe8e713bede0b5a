import { isProbed, kindOf } from "@statusmesh/shared/checks";
import type { Ctx } from "../../platform/context.ts";
import { stateWords } from "../../platform/html/states.ts";
import { throttledTargets } from "../results/service.ts";
import type { MonitorRow } from "./service.ts";
import { detail, expiryWords, isWaiting, shownState, throttledWords } from "./words.ts";

const waitingWord = ({ target }: MonitorRow): string =>
  isProbed(target.check) ? "Pending first check" : "Waiting for the first ping";

/** Words and state of a row, decided here so that templates only place them. */
export function shown(row: MonitorRow, now: number, throttled: string | null) {
  const state = shownState(row);
  const waiting = isWaiting(row);
  return {
    state,
    word: waiting ? waitingWord(row) : throttled === null ? stateWords[state] : "Throttled",
    throttled,
    since: state === "down" || state === "error" ? (row.open_incident?.outage_since ?? row.status_since) : null,
    detail: throttled ?? detail(row, now),
    expiry: expiryWords(row, now),
    kind: kindOf(row.target.check).label,
  };
}

/** Says for each row why it has no data, where its runs are throttled; null for any other. */
export async function throttledOf(ctx: Ctx, rows: readonly MonitorRow[]): Promise<(row: MonitorRow) => string | null> {
  const silent = rows.filter((row) => shownState(row) === "unknown" && row.probed && row.last_result_at !== null);
  const ids = await throttledTargets(
    ctx,
    silent.map((row) => row.target.id),
  );
  const words = throttledWords(ctx.config.checker.per_host_max_inflight);
  return (row) => (ids.has(row.target.id) ? words : null);
}
