import { highest, isBelow } from "@statusmesh/shared/severity";
import { minuteMs } from "@statusmesh/shared/time";
import { type Ctx, requireScope } from "../../../platform/context.ts";
import { iso } from "../../../platform/http/wire.ts";
import { type CallRow, selectCalls, selectCauseCalls } from "./on-call-queries.ts";

/** A level of the ladder of an open incident. */
export interface Rung {
  /** From 1. */
  level: number;
  minutes: number;
  channels: string[];
  /** RFC 3339; null before the opening notice. */
  at: string | null;
  /**
   * over: its time has passed; next: it is notified at `at`; later; stopped: by an acknowledgement, or held; gated: the
   * incident is not severe enough for its channels.
   */
  state: "over" | "next" | "later" | "stopped" | "gated";
}

/** Which channels were notified of an open incident, and which are next. */
export interface Call {
  /** Channels that got a message, the time of the first in RFC 3339, and of how many incidents. */
  notified: { name: string; at: string; incidents: number }[];
  rungs: Rung[];
  /** The next level; null where there is none. */
  next: Rung | null;
  /** True while something holds the notices. */
  held: boolean;
}

const timed = (notified: CallRow["notified"]): Call["notified"] =>
  (notified ?? []).map((channel) => ({ ...channel, at: iso(new Date(channel.at)) }));

function callOf({ from, passed, due_at, stopped, held, ladder, notified, ...row }: CallRow): Call {
  let next: Rung | null = null;
  const rungs = (ladder ?? []).map(({ after_minutes: minutes, channel_ids: ids, min_severity: gate }, at): Rung => {
    const known = ids.map((id) => row.channels?.[id] ?? { name: "a deleted channel", gate: "minor" as const });
    const reached = known.filter((channel) => !isBelow(row.severity, highest(gate, channel.gate)));
    const isGated = reached.length === 0;
    const state = isGated
      ? "gated"
      : minutes <= passed
        ? "over"
        : stopped || held
          ? "stopped"
          : due_at !== null && next === null
            ? "next"
            : "later";
    const due = from === null ? (state === "next" ? due_at : null) : new Date(from.getTime() + minutes * minuteMs);
    const channels = (isGated ? known : reached).map(({ name }) => name);
    const rung: Rung = { level: at + 1, minutes, channels, at: due === null ? null : iso(due), state };
    if (state === "next") next = rung;
    return rung;
  });
  return { notified: timed(notified), rungs, next, held };
}

/** {@link Call} of open incidents, by their id. */
export async function callsOf(ctx: Ctx, ids: readonly string[]): Promise<Map<string, Call>> {
  requireScope(ctx, "incidents:read");
  if (ids.length === 0) return new Map();
  const rows = await selectCalls(ctx.sql, ctx.orgId, ids, new Date(ctx.clock.now()));
  return new Map(rows.map((row) => [row.id, callOf(row)]));
}

/**
 * {@link Call} of causes that several open incidents share, by key: the channels that were notified of any of the
 * incidents, and the ladder of the one whose next level is due first. Levels that are due within a minute are one.
 */
export async function callsOfCauses(ctx: Ctx, keys: readonly string[]): Promise<Map<string, Call>> {
  requireScope(ctx, "incidents:read");
  if (keys.length === 0) return new Map();
  const rows = await selectCauseCalls(ctx.sql, ctx.orgId, keys, new Date(ctx.clock.now()));
  const calls = await callsOf(
    ctx,
    rows.flatMap(({ incident_ids: ids }) => ids),
  );
  return new Map(
    rows.flatMap(({ key, incident_ids: ids, notified }) => {
      const [call, ...others] = ids.flatMap((id) => calls.get(id) ?? []);
      if (call === undefined) return [];
      const levels = [call, ...others].flatMap(({ next }) => next ?? []);
      const timeOf = ({ at }: Rung): number => (at === null ? Infinity : Date.parse(at));
      const first = Math.min(...levels.map(timeOf));
      const due = levels.filter((level) => timeOf(level) < first + minuteMs).toSorted((a, b) => timeOf(a) - timeOf(b));
      const next =
        due[0] === undefined ? null : { ...due[0], channels: [...new Set(due.flatMap(({ channels }) => channels))] };
      return [[key, { ...call, next, notified: timed(notified) }] as const];
    }),
  );
}
