import type { Sql } from "postgres";
import { newId } from "@statusmesh/shared/ids";
import type { Teardown } from "./folder.ts";
import { waitFor } from "./wait.ts";

/** A kind of transaction of the control plane, by a row that it writes. */
export interface CommitPoint {
  name: string;
  table: string;
  event: "insert" | "update";
  /** SQL condition on the row (`new`, and `old` of an update). */
  when?: string;
}

/** Stops a control plane at the commits of one kind of transaction. */
export interface CommitFaults {
  /** Holds the next transactions of this kind at their commit. */
  arm(point: CommitPoint): Promise<void>;
  /** Waits until one is held, and returns the database user that it runs as. */
  held(): Promise<string>;
  /** Rolls back the transactions of a killed process, as a crash before the commit does. Other processes continue. */
  abort(user: string): Promise<void>;
  /** Lets the held transactions commit. Resolves when the backends of the killed process have ended. */
  release(user: string): Promise<void>;
}

/** Creates a database user for one replica, so that a held commit and open transactions name their replica. */
export async function createReplicaUser(t: Teardown, sql: Sql): Promise<string> {
  const user = `replica_${newId().slice(-12).replaceAll("-", "")}`;
  await sql.unsafe(`create role ${user} superuser login password '${user}'`);
  t.teardown(() => sql.unsafe(`reassign owned by ${user} to current_user; drop role ${user}`));
  return user;
}

/** Environment of a control plane that connects as this user. */
export const asUser = (user: string): Record<string, string> => ({ PGUSER: user, PGPASSWORD: user });

const lock = 918_273;

/**
 * A deferred constraint trigger fires at the commit and waits for an advisory lock that the test holds. For a process
 * that is killed meanwhile, terminating its backend is a crash before the commit, and releasing the lock is a crash
 * between commit and reply. One connection of `sql` is reserved.
 */
export async function openCommitFaults(sql: Sql, points: readonly CommitPoint[]): Promise<CommitFaults> {
  await sql.unsafe(`
    create table armed_commits (name text primary key);
    create function hold_commit() returns trigger language plpgsql as $$
    begin
      if exists (select from armed_commits where name = tg_argv[0]) then
        perform pg_advisory_xact_lock_shared(${lock});
      end if;
      return null;
    end $$;`);
  for (const { name, table, event, when } of points)
    await sql.unsafe(`
      create constraint trigger "commit ${name}" after ${event} on ${table} deferrable initially deferred
      for each row ${when === undefined ? "" : `when (${when})`} execute function hold_commit('${name}')`);
  const session = await sql.reserve();

  const disarm = async (): Promise<void> => void (await sql`delete from armed_commits`);
  const waiting = async (): Promise<{ pid: number; usename: string }[]> =>
    await sql<{ pid: number; usename: string }[]>`
      select a.pid, a.usename from pg_locks l join pg_stat_activity a on a.pid = l.pid
      where l.locktype = 'advisory' and l.objid = ${lock} and not l.granted and a.datname = current_database()`;
  const unlock = async (): Promise<void> => {
    await session`select pg_advisory_unlock(${lock})`;
  };
  /** The backends of a killed process finish their statement, and perhaps commit, before they end. */
  const gone = async (user: string): Promise<void> =>
    void (await waitFor("the backends of the killed process to end", async () => {
      const rows = await sql`select from pg_stat_activity where usename = ${user}`;
      return rows.length === 0;
    }));
  return {
    async arm({ name }) {
      await session`select pg_advisory_lock(${lock})`;
      await sql`insert into armed_commits (name) values (${name})`;
    },
    held: async () => (await waitFor("a held commit", async () => (await waiting())[0]?.usename)) as string,
    async abort(user) {
      await disarm();
      await sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${user}`;
      await gone(user);
      await unlock();
    },
    async release(user) {
      await disarm();
      await unlock();
      await gone(user);
    },
  };
}
