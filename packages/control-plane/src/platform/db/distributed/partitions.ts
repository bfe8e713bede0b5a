import type { ISql, Sql } from "postgres";
import { dayMs, utcDay } from "@statusmesh/shared/time";
import { tablesOnWorkers } from "./citus.ts";
import { openSession } from "../client/connect.ts";
import { lockKeys } from "../locks.ts";

const parent = "results";

/** Name of the partition for the UTC day of `at`: `results_20261120`. */
function partitionName(at: Date): string {
  return `${parent}_${utcDay(at.getTime()).replaceAll("-", "")}`;
}

/**
 * Creates the day partitions of `results` from the UTC day of `from` to that of `to`, inclusive. Returns the names of
 * new ones. Inserts and reads continue: unlike `create table … partition of`, attach takes no lock that they wait for.
 */
export async function ensurePartitions(sql: Sql, from: Date, to: Date): Promise<string[]> {
  const days = daysBetween(from, to);
  if (await missing(sql, days).then((list) => list.length === 0)) return [];
  return await sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(${lockKeys.makePartitions})`;
    await tx`set local lock_timeout = '5s'`;
    const made: string[] = [];
    for (const day of await missing(tx, days)) {
      const name = partitionName(day);
      // An interrupted removal may have left a table of that name, with the same columns.
      await tx`create table if not exists ${tx(name)} (like ${tx(parent)} including all)`;
      const end = new Date(day.getTime() + dayMs);
      await tx.unsafe(
        `alter table ${parent} attach partition ${name}
         for values from ('${day.toISOString()}') to ('${end.toISOString()}')`,
      );
      made.push(name);
    }
    return made;
  });
}

/** Returns the names of missing day partitions of `results`, from the UTC day of `from` to that of `to`. */
export async function missingPartitions(sql: Sql, from: Date, to: Date): Promise<string[]> {
  return (await missing(sql, daysBetween(from, to))).map(partitionName);
}

/**
 * Removes the partitions of UTC days before that of `first`, and returns their names. Each is
 * detached concurrently first, so that reads and inserts of `results` continue. Call it from one job at a time. The
 * next call completes one that was killed.
 */
export async function dropPartitionsBefore(sql: Sql, first: Date): Promise<string[]> {
  const oldest = partitionName(first);
  // Detach concurrently is not allowed in a transaction, and waits for transactions that see the partition.
  const connection = openSession(sql);
  const dropped: string[] = [];
  try {
    const [lock] = await connection<
      { held: boolean }[]
    >`select pg_try_advisory_lock(${lockKeys.dropPartitions}) as held`;
    if (lock?.held !== true) return [];
    // Citus cannot detach concurrently; readers and ingest wait for a few milliseconds.
    const plain = (await tablesOnWorkers(connection)).includes(parent);
    if (plain) await connection`set lock_timeout = '5s'`;
    for (const { name, attached, pending } of await dayTables(connection)) {
      if (name >= oldest) continue;
      // These statements take no parameters; dayTables has checked the form of the name.
      if (pending) await connection.unsafe(`alter table ${parent} detach partition ${name} finalize`);
      else if (attached && !plain)
        await connection.unsafe(`alter table ${parent} detach partition ${name} concurrently`);
      await connection.unsafe(`drop table ${name}`);
      dropped.push(name);
    }
    return dropped;
  } finally {
    await connection.end({ timeout: 1 });
  }
}

function daysBetween(from: Date, to: Date): Date[] {
  const first = Math.floor(from.getTime() / dayMs);
  const last = Math.floor(to.getTime() / dayMs);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => new Date((first + index) * dayMs));
}

async function missing(sql: ISql, days: readonly Date[]): Promise<Date[]> {
  const present = new Set((await dayTables(sql)).filter(({ attached }) => attached).map(({ name }) => name));
  return days.filter((day) => !present.has(partitionName(day)));
}

interface DayTable {
  name: string;
  attached: boolean;
  /** True for an interrupted detach, which must be finished before another one can begin. */
  pending: boolean;
}

async function dayTables(sql: ISql): Promise<DayTable[]> {
  return await sql<DayTable[]>`
    select c.relname as name, i.inhrelid is not null as attached, coalesce(i.inhdetachpending, false) as pending
    from pg_class c
    left join pg_inherits i on i.inhrelid = c.oid and i.inhparent = 'results'::regclass
    where c.relkind = 'r' and c.relname ~ '^results_[0-9]{8}$'
      and c.relnamespace = (select relnamespace from pg_class where oid = 'results'::regclass)
    order by pending desc, name`;
}
