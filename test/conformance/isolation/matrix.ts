import type { Sql } from "postgres";
import type { Test } from "tap";
import { type Cast, castIn } from "../../harness/cast.ts";
import { cloneDatabase } from "../../harness/database.ts";
import { serveHere } from "../../harness/in-process.ts";
import { type Callers, callersOf, type Homes, homesOf } from "./callers.ts";
import { Planted } from "./requests.ts";

export const operatorSecret = "a-secret-of-the-operator";

/** One service and one database for a whole test file, without rate limits. */
export interface Matrix {
  readonly sql: Sql;
  readonly url: string;
  readonly cast: Cast;
  readonly homes: Homes;
  readonly callers: Callers;
  readonly planted: Planted;
}

/** `env` has further settings. */
export async function openMatrix(t: Test, env: Record<string, string> = {}): Promise<Matrix> {
  const database = await cloneDatabase(t);
  const { sql } = database;
  const cast = await castIn(sql);
  const url = await serveHere(t, database, {
    SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
    SM_OPERATOR__ADMIN_TOKEN: operatorSecret,
    SM_TENANCY__FREE_TIER_OWNER_ORG_LIMIT: "10000",
    SM_AUTH__API_TOKENS__MAX_PER_USER: "10000",
    SM_AUTH__INVITATIONS__MAX_PENDING_PER_ORG: "10000",
    SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: "0",
    ...env,
  });
  await sql`
    update plans
    set api_writes_per_min = null, api_reads_per_min = null, bulk_ops_per_min = null, test_now_per_min = null,
      check_now_per_min = null`;
  const homes = await homesOf(sql, cast);
  return { sql, url, cast, homes, callers: await callersOf(t, url, sql, cast, homes), planted: new Planted(sql) };
}
