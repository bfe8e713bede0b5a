import { minuteMs } from "@statusmesh/shared/time";
import { type Ctx, requireScope } from "../../platform/context.ts";
import { iso } from "../../platform/http/wire.ts";
import { type CallRow, selectCalls } from "./on-call-queries.ts";

/** A level of the ladder of an open incident. */
export interface Rung {
  /** From 1. */
  level: number;
  minutes: number;
  channels: string[];
  /** RFC 3339; null before the opening notice. */
  at: string | null;
  /** over: its time has passed; next: it is notified at `at`; later; stopped: by an acknowledgement, or held. */
  state: "over" | "next" | "later" | "stopped";
}

/** Who was told of an open incident, and who is told next. */
export interface Call {
  /** Channels that got a message, and the time of the first. RFC 3339. */
  told: { name: string; at: string }[];
  rungs: Rung[];
  /** The next level; null where there is none. */
  next: Rung | null;
  /** True while something holds the notices. */
  held: boolean;
}

function callOf({ from, passed, due_at, stopped, held, ladder, told, names }: CallRow): Call {
  let next: Rung | null = null;
  const rungs = (ladder ?? []).map(({ after_minutes: minutes, channel_ids: ids }, at): Rung => {
    const state =
      minutes <= passed ? "over" : stopped || held ? "stopped" : due_at !== null && next === null ? "next" : "later";
    const due = state === "next" ? due_at : from === null ? null : new Date(from.getTime() + minutes * minuteMs);
    const channels = ids.map((id) => names?.[id] ?? "a deleted channel");
    const rung: Rung = { level: at + 1, minutes, channels, at: due === null ? null : iso(due), state };
    if (state === "next") next = rung;
    return rung;
  });
  return { told: (told ?? []).map(({ name, at }) => ({ name, at: iso(new Date(at)) })), rungs, next, held };
}

/** {@link Call} of open incidents, by their id and by that of their monitor; `ids` are of either. */
export async function callsOf(ctx: Ctx, ids: readonly string[]): Promise<Map<string, Call>> {
  requireScope(ctx, "incidents:read");
  if (ids.length === 0) return new Map();
  const rows = await selectCalls(ctx.sql, ctx.orgId, ids, new Date(ctx.clock.now()));
  return new Map(
    rows.flatMap((row) => {
      const call = callOf(row);
      return [
        [row.id, call],
        [row.target_id, call],
      ] as const;
    }),
  );
}
