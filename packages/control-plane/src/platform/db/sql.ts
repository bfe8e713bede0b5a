import type { Sql, TransactionSql } from "postgres";

/** Where a query runs: the pool, or the one connection of an open transaction. */
export type Db = Sql | TransactionSql;
