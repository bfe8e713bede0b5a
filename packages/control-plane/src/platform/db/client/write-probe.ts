import type { Sql } from "postgres";
import { messageOf } from "@statusmesh/shared/thrown";
import type { Clock } from "../../process/clock.ts";
import type { Log } from "../../process/log.ts";
import { failureOf, type DatabaseProblem } from "./failures.ts";

const freshMs = 10_000;

export interface WriteProbe {
  /** Null while the last write succeeded, or failed because the database was away. */
  problem(): DatabaseProblem | null;
  /** True when a write succeeded within the last 10 s. */
  isFresh(): boolean;
  /** Writes; concurrent callers share one write (single-flight). Throws the database's error. */
  probe(): Promise<void>;
}

/** Finds out by writing whether the database takes writes, and logs when it stops to and when it does again. */
export function openWriteProbe(pool: Sql, { log, clock }: { log: Log; clock: Clock }): WriteProbe {
  let problem: DatabaseProblem | null = null;
  let writtenAt = Number.NEGATIVE_INFINITY;
  let probing: Promise<void> | null = null;

  async function write(): Promise<void> {
    try {
      await writeSomething(pool);
      if (problem !== null) log.info({}, "the database takes writes again");
      problem = null;
      writtenAt = clock.now();
    } catch (error) {
      const failure = failureOf(error);
      if (failure === "full" || failure === "readonly") {
        const reason = messageOf(error);
        if (problem === null) log.error({ reason }, "the database takes no writes");
        problem ??= { failure, since: clock.now(), reason };
      }
      writtenAt = Number.NEGATIVE_INFINITY;
      throw error;
    }
  }

  return {
    problem: () => problem,
    isFresh: () => clock.now() - writtenAt < freshMs,
    probe() {
      probing ??= write().finally(() => (probing = null));
      return probing;
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
