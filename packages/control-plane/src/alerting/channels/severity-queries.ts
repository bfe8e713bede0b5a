import type { Db } from "../../platform/db/client/sql.ts";

/** SQL: 1 for the most severe, for lists that begin with it; null where the column is null. */
export const severityOrder = (sql: Db, column: ReturnType<Db>) =>
  sql`array_position(array['critical', 'major', 'minor'], ${column})`;
