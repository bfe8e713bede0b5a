import { ensurePartitions } from "../platform/db/distributed/partitions.ts";
import { day, noon } from "./clock.ts";
import { cloneDatabase, type Fixture, type Teardown, type TestDatabase } from "./postgres.ts";

export type { Teardown, TestDatabase } from "./postgres.ts";

/** The regions `eu` and `us`, and partitions for the three days around {@link noon}. */
const regionsAndDays: Fixture = {
  async fill(sql) {
    await ensurePartitions(sql, new Date(noon - day), new Date(noon + day));
    await sql`
      insert into regions (id, name, created_at, updated_at)
      values ('eu', 'Europe', '2026-11-01', '2026-11-01'), ('us', 'America', '2026-11-02', '2026-11-02')`;
  },
  poolSize: 4,
};

/** A fresh migrated database with the regions `eu` and `us` and partitions for the three days around {@link noon}. */
export const openTestDatabase = (t: Teardown): Promise<TestDatabase> => cloneDatabase(t, regionsAndDays);
