import type { Command } from "commander";
import { messageOf } from "@statusmesh/shared/thrown";
import { badge, exits, fail, iso, lasted, milliseconds } from "../shell/output.ts";
import * as options from "../shell/options.ts";
import { paint, screenOf, type Screen, table, tame, type Tone } from "@statusmesh/shared/shell/terminal";
import { folderHolder } from "../spool/lock.ts";
import { type AgentStatus, readStatus } from "../telemetry/status-file.ts";

/** `standing`: the process exists but has not written for long. */
type State = "running" | "impaired" | "cut off" | "standing" | "not running";

/** Maximum age of the state of a working agent, ms. */
const staleMs = 30_000;

const looks: Record<State, { exit: number; tone: Tone }> = {
  running: { exit: exits.up, tone: "good" },
  impaired: { exit: exits.degraded, tone: "warn" },
  "cut off": { exit: exits.degraded, tone: "warn" },
  standing: { exit: exits.down, tone: "bad" },
  "not running": { exit: exits.down, tone: "bad" },
};

export function define(command: Command): void {
  command
    .description(
      "Show the status of the agent that uses this spool folder. Exit code: 0 running, 2 running with a " +
        "problem, 1 not running.",
    )
    .addOption(options.spoolDir("spool folder of the agent").makeOptionMandatory())
    .option("--json", "print one JSON object")
    .action(({ spoolDir, json }: { spoolDir: string; json?: true }, self: Command) => {
      let status: AgentStatus | null;
      try {
        status = readStatus(spoolDir);
      } catch (error) {
        return fail(self, exits.config, `the spool folder ${spoolDir} cannot be read (${messageOf(error)}).`);
      }
      const now = Date.now();
      const held = folderHolder(spoolDir, now) !== null;
      const state = stateOf(status, held, now);
      process.stdout.write(
        json === true
          ? `${JSON.stringify(inJson(state, status))}\n`
          : inWords(state, status, now, screenOf(process.stdout, process.env)),
      );
      process.exitCode = looks[state].exit;
    });
}

/** `now` is Unix ms on this machine's clock. */
export function stateOf(status: AgentStatus | null, held: boolean, now: number): State {
  if (!held) return "not running";
  if (status === null || status.stopped_at !== null || now + status.clock_offset_ms - status.seen_at > staleMs)
    return "standing";
  if (status.impaired_since !== null) return "impaired";
  return isFailing(status.pull) || isFailing(status.report) ? "cut off" : "running";
}

const isFailing = ({ succeeded_at, failure }: AgentStatus["pull"]): boolean =>
  failure !== null && failure.at > (succeeded_at ?? -Infinity);

function inJson(state: State, status: AgentStatus | null): object {
  if (status === null) return { state, seen_at: null };
  const { format: _, started_at, seen_at, stopped_at, impaired_since, pull, report, ...numbers } = status;
  const contact = ({ succeeded_at, failure }: AgentStatus["pull"]) => ({
    succeeded_at: iso(succeeded_at),
    failure: failure === null ? null : { at: iso(failure.at), message: failure.message },
  });
  const times = {
    started_at: iso(started_at),
    seen_at: iso(seen_at),
    stopped_at: iso(stopped_at),
    impaired_since: iso(impaired_since),
  };
  return { state, ...times, ...numbers, pull: contact(pull), report: contact(report) };
}

function inWords(state: State, status: AgentStatus | null, now: number, screen: Screen): string {
  if (status === null) {
    const why = state === "not running" ? "never seen here" : "it has written no status yet";
    return `${badge(state, looks[state].tone, screen)} (${why})\n`;
  }
  const there = now + status.clock_offset_ms;
  const ago = (at: number | null): string => (at === null ? "never" : `${lasted(there - at)} ago`);
  const contact = ({ succeeded_at, failure }: AgentStatus["pull"]): string =>
    `${ago(succeeded_at)}${failure === null ? "" : `; last error ${ago(failure.at)}: ${tame(failure.message)}`}`;
  const how: Record<State, string> = {
    running: `for ${lasted(there - status.started_at)}`,
    impaired: `its own network is down since ${iso(status.impaired_since) ?? ""}`,
    "cut off": "it does not reach the control plane, or its token is refused",
    standing: `its process runs, last seen ${ago(status.seen_at)}`,
    "not running":
      `last seen ${ago(status.seen_at)}` + (status.stopped_at === null ? ", not stopped cleanly" : ", stopped cleanly"),
  };
  const offset =
    Math.abs(status.clock_offset_ms) < 1
      ? "0 ms"
      : `${milliseconds(Math.abs(status.clock_offset_ms))} ${status.clock_offset_ms > 0 ? "behind" : "ahead of"} ` +
        "the control plane's";
  const rows: [string, string][] = [
    ["version", status.version],
    ["control plane", status.control_plane],
    ["region", status.region ?? "not known yet"],
    [
      "checks",
      `${status.assigned} assigned, ${status.in_flight} in flight, ${status.breakers_open} blocked by circuit breakers`,
    ],
    ["lag p99", milliseconds(status.lag_p99_ms)],
    [
      "spool",
      `${status.spool.waiting} waiting, ${status.spool.backlog} of them backlog, ${status.spool.dropped} dropped`,
    ],
    ...(status.pings_waiting === null ? [] : [["pings", `${status.pings_waiting} waiting`] satisfies [string, string]]),
    ["last pull", contact(status.pull)],
    ["last report", contact(status.report)],
    ["clock", offset],
    ["pid", String(status.pid)],
  ];
  const isOver = state === "not running";
  const numbers = paint(table(rows), isOver ? "quiet" : "good", { color: screen.color && isOver });
  return `${badge(state, looks[state].tone, screen)} (${how[state]})\n${numbers}`;
}
