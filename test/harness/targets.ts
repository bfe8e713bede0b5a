import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Sql, TransactionSql } from "postgres";
import type { CheckSpec } from "@statusmesh/shared/checks";
import { openPool } from "@statusmesh/control-plane/platform/db/client/connect";
import type { Teardown } from "./folder.ts";

/** A pool on the embedded database of a control plane that runs in `folder`. */
export function openEmbedded(t: Teardown, folder: string, max = 4): Sql {
  const sql = openPool(
    {
      path: join(folder, "data", "postgres", ".s.PGSQL.5432"),
      database: "statusmesh",
      username: "statusmesh",
      password: () => readFileSync(join(folder, "data", "postgres.password"), "utf8").trim(),
    },
    // Benchmarks fill and vacuum large tables.
    { max, statementMs: 0 },
  );
  t.teardown(() => sql.end({ timeout: 1 }));
  return sql;
}

/** Inserts many targets of an organisation in one region, as the API does, with few statements. */
export async function insertTargets(sql: Sql, input: NewTargets): Promise<void> {
  await sql.begin((tx) => insertTargetsIn(tx, input));
  await sql`analyze targets, target_states, target_regions`;
}

export interface NewTargets {
  ids: readonly string[];
  orgId: string;
  region: string;
  intervalSecs: number;
  confirmations: number;
  channelId?: string;
  /** Check of the nth target; default: a closed port. Secrets are not supported, because nothing is sealed. */
  spec?: (n: number) => CheckSpec;
}

const nothing: CheckSpec = { type: "tcp", host: "127.0.0.1", port: 9, timeout: 1000 };

/** Like {@link insertTargets}, in the transaction of the caller. */
export async function insertTargetsIn(tx: Sql | TransactionSql, input: NewTargets): Promise<void> {
  const ids = [...input.ids];
  const specs = ids.map((_, n) => JSON.stringify((input.spec ?? (() => nothing))(n)));
  await tx`
    insert into targets
      (id, org_id, name, kind, spec, search_text, interval_secs, enabled, tags, alert_confirmations, notify_recovery,
        renotify_interval_secs, region_policy, write_source, created_at, updated_at)
    select id, ${input.orgId}, 'Target ' || n, spec::jsonb ->> 'type', spec::jsonb,
      coalesce(spec::jsonb ->> 'url', spec::jsonb ->> 'host', ''), ${input.intervalSecs}, true, '{}',
        ${input.confirmations}, true, 3600, '"majority"', 'api', now() - interval '60 days', now()
    from unnest(${ids}::uuid[], ${specs}::text[]) with ordinality as t (id, spec, n)`;
  await tx`
    insert into target_states (target_id, state, status)
    select id, '', 'unknown' from unnest(${ids}::uuid[]) as t (id)`;
  await tx`
    insert into target_regions (target_id, region_id) select id, ${input.region} from unnest(${ids}::uuid[]) as t (id)`;
  if (input.channelId !== undefined)
    await tx`
      insert into target_alerts (target_id, channel_id, position) select id, ${input.channelId}, 0
      from unnest(${ids}::uuid[]) as t (id)`;
}
