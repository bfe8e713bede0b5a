import { anyOf, type Db } from "../platform/db/client/sql.ts";

/** True when the work of this name is done for the day, YYYY-MM-DD. */
export async function isDoneForDay(sql: Db, name: string, day: string): Promise<boolean> {
  return await anyOf(sql, sql`from nightly_runs where name = ${name} and day >= ${day}::date`);
}

export async function markDoneForDay(sql: Db, name: string, day: string): Promise<void> {
  await sql`
    insert into nightly_runs (name, day) values (${name}, ${day}::date)
    on conflict (name) do update set day = excluded.day`;
}

/**
 * Records that a problem of the service is seen now. One that was not seen since `gapFrom` counts as new, unless the
 * operator has had its mail.
 */
export async function noteProblem(
  sql: Db,
  { key, about }: { key: string; about: string },
  now: Date,
  gapFrom: Date,
): Promise<void> {
  await sql`
    insert into operator_notices (key, about, noticed_at, seen_at) values (${key}, ${about}, ${now}, ${now})
    on conflict (key) do update
    set seen_at = excluded.seen_at,
        noticed_at = case when operator_notices.mailed_at is null and operator_notices.seen_at < ${gapFrom}
                          then excluded.noticed_at else operator_notices.noticed_at end`;
}

/** Removes the problems that are over. `mailed` is true for those that the operator has had a mail about. */
export async function takePastProblems(sql: Db, current: readonly string[]) {
  return await sql<{ about: string; mailed: boolean }[]>`
    delete from operator_notices where not (key = any(${[...current]}::text[]))
    returning about, mailed_at is not null as mailed`;
}

/** Keys of problems that have lasted since `from` and that the operator has had no mail about. */
export async function problemsToMail(sql: Db, from: Date): Promise<Set<string>> {
  const rows = await sql<{ key: string }[]>`
    select key from operator_notices where mailed_at is null and noticed_at <= ${from}`;
  return new Set(rows.map(({ key }) => key));
}

export async function markMailed(sql: Db, key: string, now: Date): Promise<void> {
  await sql`update operator_notices set mailed_at = ${now} where key = ${key}`;
}
