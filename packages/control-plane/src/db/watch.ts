import type { Sql } from "postgres";
import type { Clock } from "../context.ts";
import type { Log } from "../log.ts";
import { type Beat, beat, connectionsOf, listenerOf, silent } from "./beats.ts";
import { openSession, statementTimeoutMs } from "./connect.ts";
import { type Failure, failureAnswer, failureOf } from "./failures.ts";

/** Why the database cannot be used, and since when (Unix ms). */
export interface Trouble {
  readonly failure: Failure;
  readonly since: number;
  readonly reason: string;
}

/** Watches the database, so that a request learns at once what a connection learns after its time limit. */
export interface DatabaseWatch {
  /** Null while the database answers and takes writes. */
  trouble(): Trouble | null;
  /** Returns when the database answers, and took writes at most 10 s ago. Throws DEPENDENCY_DOWN, within 2 s. */
  ready(): Promise<void>;
  stop(): Promise<void>;
}

export interface WatchOptions {
  /** Time between two signs of life, ms. */
  beatMs?: number;
  /** A server that is gone for less is one that restarts: its requests try for themselves. */
  graceMs?: number;
}

const tickMs = 500;
/** 3 s without an answer: a stall of the disk is shorter, and a request waits 5 s at most. */
const silentTicks = 6;
/** Connections that are silent for this long when a beat fails go the same way. */
const suspectMs = 2_000;
/** The server ends a statement itself; a connection that is silent for longer is dead. */
const deadMs = statementTimeoutMs + 5_000;
const readyMs = 1_500;
const writableFreshMs = 10_000;

/**
 * Starts to watch `pool`. While the database is away the pool refuses queries at once instead of letting each wait for its own time
 * limit, and connections that went silent are closed: their queries fail, and the pool makes new ones. `direct` is where the pool's
 * listening connection is; it is the same pool unless a pooler stands in between.
 */
export function watchDatabase(
  { pool, direct, log, clock }: { pool: Sql; direct: Sql; log: Log; clock: Clock },
  { beatMs = 1_000, graceMs = 1_000 }: WatchOptions = {},
): DatabaseWatch {
  const options = { everyMs: beatMs, ticks: silentTicks, tickMs };
  const stopping = new AbortController();
  let away: Trouble | null = null;
  let firstMiss: number | null = null;
  let unwritable: Trouble | null = null;

  const refuse = () => (away === null ? null : Object.assign(new Error(away.reason), { code: "DATABASE_AWAY" }));
  // The client asks before it takes a query.
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

  /** What is silent together with a beat is lost with it; what is idle is not trusted. */
  function cut(): void {
    for (const connection of connectionsOf(pool)) {
      if (connection.silence() >= suspectMs) connection.sever(silent());
      else connection.retire();
    }
  }

  /** Closes single connections that died while the others live. After a pause of this process what came in is read first. */
  function cutDead(): void {
    for (const connection of connectionsOf(pool)) {
      const { patience } = connection;
      const limit = patience === null ? deadMs : patience * 1000;
      if (limit > 0 && connection.silence() > limit) {
        log.warn({ silent_secs: Math.round(limit / 1000) }, "a connection to the database is silent and given up");
        connection.sever(silent());
      }
    }
  }

  // The listening connection is there anyway. Behind a pooler the way of the requests needs a beat of its own.
  const own = pool === direct ? null : openSession(pool);
  const loops = [
    beating(async () => {
      const sql = listenerOf(direct);
      if (sql === undefined) return;
      const outcome = await beat(sql, options);
      if (own === null) judge(outcome);
    }),
    beating(async () => {
      cutDead();
      if (own !== null) judge(await beat(own, options));
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

  /** Single-flight, and an answer counts for ten seconds. */
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
 * Fails when the database takes no writes. An update would succeed on a full disk, in space that is allocated already, while results
 * cannot be stored: this allocates a new file of 256 KiB each time. The table is unlogged and never holds more than that.
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
