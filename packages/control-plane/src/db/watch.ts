import type { Sql } from "postgres";
import type { Clock } from "../context.ts";
import type { Log } from "../log.ts";
import { type Beat, beat, connectionsOf, listenerOf, silent } from "./beats.ts";
import { openLikewise, statementTimeoutMs } from "./connect.ts";
import { type Failure, failureAnswer, failureOf } from "./failures.ts";

/** Why the database cannot be used, and since when (Unix ms). */
export interface Trouble {
  readonly failure: Failure;
  readonly since: number;
  readonly reason: string;
}

/** State of the database, known before a query would wait for its time limit. */
export interface DatabaseWatch {
  /** Null while the database answers and takes writes. */
  trouble(): Trouble | null;
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
/** When a heartbeat fails, connections that are silent for this long are closed too. */
const suspectMs = 2_000;
/** The server cancels a statement at its time limit. A connection that is silent for this much longer is dead. */
const deadMs = 5_000;
const readyMs = 1_500;
const writableFreshMs = 10_000;

/**
 * Starts to watch `pool`. While the database is away the pool refuses queries at once, instead of letting each wait for
 * its time limit. Silent connections are closed: their queries fail, and the pool opens new ones. `direct` has the
 * listening connection; it is the same pool unless `pool` goes through a pooler.
 */
export function watchDatabase(
  { pool, direct, log, clock }: { pool: Sql; direct: Sql; log: Log; clock: Clock },
  { beatMs = 1_000, graceMs = 1_000, statementMs = statementTimeoutMs }: WatchOptions = {},
): DatabaseWatch {
  const options = { everyMs: beatMs, ticks: silentTicks, tickMs };
  const stopping = new AbortController();
  let away: Trouble | null = null;
  let firstMiss: number | null = null;
  let unwritable: Trouble | null = null;

  const refuse = () => (away === null ? null : Object.assign(new Error(away.reason), { code: "DATABASE_AWAY" }));
  // The client calls it before each query.
  (pool.options as unknown as { refusal: typeof refuse }).refusal = refuse;

  function judge(outcome: Beat): void {
    const now = clock.now();
    if (outcome === "answered") {
      if (away !== null) log.info({ away_secs: Math.round((now - away.since) / 1000) }, "the database answers again");
      away = firstMiss = null;
      return;
    }
    firstMiss ??= now;
    if (outcome === "silent") cut();
    if (away === null && (outcome === "silent" || now - firstMiss >= graceMs)) {
      const reason = outcome === "silent" ? "the database is silent" : outcome.message;
      away = { failure: (outcome !== "silent" && failureOf(outcome)) || "away", since: firstMiss, reason };
      log.error({ reason }, "the database is away: requests are answered 503 until it is back");
    }
  }

  const all = () => [...new Set([pool, direct])].flatMap(connectionsOf);

  /** After a failed heartbeat: closes silent connections at once, and idle ones because they may be dead too. */
  function cut(): void {
    for (const connection of all()) {
      if (connection.silence() >= suspectMs) connection.sever(silent());
      else connection.retire();
    }
  }

  /** Sessions of a pooler have no statement timeout. PgBouncer forwards the cancel request to the server. */
  function cancelOverdue(): void {
    for (const connection of connectionsOf(pool))
      if (connection.patience === null && connection.silence() > statementMs) connection.cancelRunning();
  }

  /** Closes single dead connections. It runs from a timer, after input that arrived during a pause has been read. */
  function cutDead(): void {
    for (const connection of all()) {
      const { patience } = connection;
      const limit = patience === null ? statementMs + deadMs : patience * 1000;
      if (limit > 0 && connection.silence() > limit) {
        log.warn({ silent_secs: Math.round(limit / 1000) }, "a database connection is silent and was closed");
        connection.sever(silent());
      }
    }
  }

  // The heartbeat uses the listening connection; requests that go through a pooler need one there too.
  const own = pool === direct ? null : openLikewise(pool);
  const loops = [
    beating(async () => {
      const sql = listenerOf(direct);
      if (sql === undefined) return;
      const outcome = await beat(sql, options);
      if (own === null) judge(outcome);
    }),
    beating(async () => {
      cutDead();
      if (own === null) return;
      cancelOverdue();
      judge(await beat(own, options));
    }),
  ];

  async function beating(once: () => Promise<void>): Promise<void> {
    while (!stopping.signal.aborted) {
      await once().catch((error: unknown) => log.error({ err: String(error) }, "the database could not be watched"));
      await pause(beatMs, stopping.signal);
    }
  }

  let writableAt = Number.NEGATIVE_INFINITY;
  let probing: Promise<void> | null = null;

  /** Single-flight. */
  function probe(): Promise<void> {
    probing ??= writeSomething(pool)
      .then(
        () => {
          if (unwritable !== null) log.info({}, "the database takes writes again");
          unwritable = null;
          writableAt = clock.now();
        },
        (error: unknown) => {
          const failure = failureOf(error);
          if (failure === "full" || failure === "readonly") {
            const reason = error instanceof Error ? error.message : String(error);
            if (unwritable === null) log.error({ reason }, "the database takes no writes");
            unwritable ??= { failure, since: clock.now(), reason };
          }
          writableAt = Number.NEGATIVE_INFINITY;
          throw error;
        },
      )
      .finally(() => (probing = null));
    return probing;
  }

  return {
    trouble: () => away ?? unwritable,
    async ready() {
      if (away !== null) throw failureAnswer(away.failure);
      const answers = async (): Promise<void> => {
        if (clock.now() - writableAt < writableFreshMs) await pool`select 1`;
        else await probe();
      };
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(failureAnswer("away")), readyMs);
      });
      await Promise.race([late, answers()]).finally(() => clearTimeout(timer));
    },
    async stop() {
      stopping.abort();
      await Promise.all([own?.end({ timeout: 0 }), Promise.race([Promise.all(loops), pause(beatMs)])]);
    },
  };
}

/**
 * Throws when the database takes no writes. An update can succeed on a full disk, in allocated space; this allocates a
 * new file of 256 KiB each time. The table is unlogged and never holds more than that.
 */
async function writeSomething(sql: Sql): Promise<void> {
  await sql.begin(async (tx) => {
    await tx`set local lock_timeout = '1s'`;
    await tx`truncate write_probe`;
    await tx`insert into write_probe (filler) select repeat('x', 8000) from generate_series(1, 32)`;
  });
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) return resolve();
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}
