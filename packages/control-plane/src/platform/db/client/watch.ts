import type { Sql } from "postgres";
import type { Clock } from "../../process/clock.ts";
import type { Log } from "../../process/log.ts";
import { pause } from "../../process/pause.ts";
import { type Beat, beat, sever, silenceOf } from "./beats.ts";
import { connectionsOf, listenerOf, refuseWith } from "./driver.ts";
import { openLikewise, statementTimeoutMs } from "./connect.ts";
import { failureAnswer, failureOf, type DatabaseProblem } from "./failures.ts";
import { ping } from "./sql.ts";
import { openWriteProbe } from "./write-probe.ts";

/** State of the database, known before a query would wait for its time limit. */
export interface DatabaseWatch {
  /** Null while the database answers and takes writes. */
  problem(): DatabaseProblem | null;
  /** Resolves when the database answers, and took writes at most 10 s ago. Throws DEPENDENCY_DOWN within 2 s. */
  ready(): Promise<void>;
  stop(): Promise<void>;
}

export interface WatchOptions {
  /** Time between two heartbeats, ms. */
  beatMs?: number;
  /** Queries are not refused before the database is away for this long, ms: a restart is shorter. */
  graceMs?: number;
  /** Time limit of a statement, ms. */
  statementMs?: number;
}

const tickMs = 500;
/** 3 s without an answer: a disk stalls for less, and a request waits 5 s at most. */
const silentTicks = 6;
const readyMs = 1_500;

/**
 * Starts to watch `pool`. While the database is away the pool refuses queries at once, instead of letting each wait for
 * its time limit. Silent connections are closed: their queries fail, and the pool opens new ones. `direct` has the
 * listening connection; it is the same pool unless `pool` uses a pooler.
 */
export function watchDatabase(
  { pool, direct, log, clock }: { pool: Sql; direct: Sql; log: Log; clock: Clock },
  { beatMs = 1_000, graceMs = 1_000, statementMs = statementTimeoutMs }: WatchOptions = {},
): DatabaseWatch {
  const options = { ticks: silentTicks, tickMs };
  const stopping = new AbortController();
  const pools = [...new Set([pool, direct])];
  const availability = openAvailability({ log, clock, graceMs });
  const writes = openWriteProbe(pool, { log, clock });
  const judge = (outcome: Beat): void => {
    if (outcome === "silent") closeSuspect(pools);
    availability.judge(outcome);
  };
  refuseWhile(pool, availability.problem);

  // The heartbeat uses the listening connection; requests through a pooler need one there too.
  const own = pool === direct ? null : openLikewise(pool);
  const loops = [
    beating(async () => {
      const sql = listenerOf(direct);
      if (sql === undefined) return;
      const outcome = await beat(sql, options);
      if (own === null) judge(outcome);
    }),
    beating(async () => {
      closeDead(pools, statementMs, log);
      if (own === null) return;
      cancelOverdue(pool, statementMs);
      judge(await beat(own, options));
    }),
  ];

  async function beating(once: () => Promise<void>): Promise<void> {
    while (!stopping.signal.aborted) {
      await once().catch((error: unknown) => log.error({ err: String(error) }, "the database could not be watched"));
      await pause(beatMs, stopping.signal);
    }
  }

  return {
    problem: () => availability.problem() ?? writes.problem(),
    async ready() {
      const problem = availability.problem();
      if (problem !== null) throw failureAnswer(problem.failure);
      await withinReadyTime(writes.isFresh() ? ping(pool) : writes.probe());
    },
    async stop() {
      stopping.abort();
      await Promise.all([own?.end({ timeout: 0 }), Promise.race([Promise.all(loops), pause(beatMs)])]);
    },
  };
}

/** The client asks before each query, which fails with the reason while the database is away. */
function refuseWhile(pool: Sql, problem: () => DatabaseProblem | null): void {
  refuseWith(pool, () => {
    const present = problem();
    return present === null ? null : Object.assign(new Error(present.reason), { code: "DATABASE_AWAY" });
  });
}

/** Decides from heartbeats whether the database is away, and logs when that begins and ends. */
function openAvailability({ log, clock, graceMs }: { log: Log; clock: Clock; graceMs: number }) {
  let away: DatabaseProblem | null = null;
  let firstMiss: number | null = null;
  return {
    problem: () => away,
    judge(outcome: Beat): void {
      const now = clock.now();
      if (outcome === "answered") {
        if (away !== null) log.info({ away_secs: Math.round((now - away.since) / 1000) }, "the database answers again");
        away = firstMiss = null;
        return;
      }
      firstMiss ??= now;
      if (away !== null || (outcome !== "silent" && now - firstMiss < graceMs)) return;
      const reason = outcome === "silent" ? "the database is silent" : outcome.message;
      away = { failure: (outcome !== "silent" && failureOf(outcome)) || "away", since: firstMiss, reason };
      log.error({ reason }, "the database is away: requests are answered 503 until it is back");
    },
  };
}

/** Throws DEPENDENCY_DOWN when `answer` takes longer than a readiness probe may wait. */
async function withinReadyTime(answer: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(failureAnswer("away")), readyMs);
  });
  await Promise.race([late, answer]).finally(() => clearTimeout(timer));
}

/** When a heartbeat fails, connections that are silent for this long are closed too. */
const suspectMs = 2_000;
/** The server cancels a statement at its time limit. A connection that is silent for this much longer is dead. */
const deadMs = 5_000;

/** After a failed heartbeat: closes silent connections at once, and idle ones because they may be dead too. */
function closeSuspect(pools: readonly Sql[]): void {
  for (const connection of pools.flatMap(connectionsOf)) {
    const { socket, initial } = connection.peek();
    if (silenceOf(connection) >= suspectMs) sever(connection);
    else if (socket !== null && initial === null) void connection.end();
  }
}

/** Sessions of a pooler have no statement timeout. PgBouncer forwards the cancel request to the server. */
function cancelOverdue(pool: Sql, statementMs: number): void {
  for (const connection of connectionsOf(pool))
    if ((connection.patience ?? null) === null && silenceOf(connection) > statementMs) connection.cancelRunning();
}

/** Closes single dead connections. Call it from a timer, after input that arrived during a pause has been read. */
function closeDead(pools: readonly Sql[], statementMs: number, log: Log): void {
  for (const connection of pools.flatMap(connectionsOf)) {
    const patience = connection.patience ?? null;
    const limit = patience === null ? statementMs + deadMs : patience * 1000;
    if (limit > 0 && silenceOf(connection) > limit) {
      log.warn({ silent_secs: Math.round(limit / 1000) }, "a database connection is silent and was closed");
      sever(connection);
    }
  }
}
