import { type AttemptRow, recordAttempts } from "./attempt-queries.ts";
import type { System } from "../../../platform/context.ts";

/** Attempts per statement. */
const batch = 100;

export interface Recorder {
  /**
   * Records an attempt. False when its lease was lost, so that nothing was written. Rejects with the database's error.
   */
  record(attempt: AttemptRow): Promise<boolean>;
}

interface Waiting {
  attempt: AttemptRow;
  done: (written: boolean) => void;
  failed: (error: unknown) => void;
}

/** Attempts that end while a statement runs are written together by the next: a storm takes few commits. */
export function openRecorder({ sql }: Pick<System, "sql">): Recorder {
  let waiting: Waiting[] = [];
  let writing = false;

  async function write(): Promise<void> {
    writing = true;
    while (waiting.length > 0) {
      const some = waiting.slice(0, batch);
      waiting = waiting.slice(batch);
      try {
        const written = await recordAttempts(
          sql,
          some.map(({ attempt }) => attempt),
        );
        for (const { attempt, done } of some) done(written.has(attempt.delivery.id));
      } catch (error) {
        for (const { failed } of some) failed(error);
      }
    }
    writing = false;
  }

  return {
    record: (attempt) =>
      new Promise((done, failed) => {
        waiting.push({ attempt, done, failed });
        if (!writing) void write();
      }),
  };
}
