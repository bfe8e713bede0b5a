import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Sql } from "postgres";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { listAudit } from "../access/audit/service.ts";
import { listChannels } from "../alerting/channels/service.ts";
import { listIncidents } from "../alerting/incidents/service.ts";
import { listWindows } from "../alerting/maintenance/service.ts";
import { getTarget, listTargets } from "../monitoring/targets/service.ts";
import { type Ctx, scopes } from "../platform/context.ts";
import { migrate, migrationsFolder, readMigrations } from "../platform/db/migrate.ts";
import { ensurePartitions } from "../platform/db/distributed/partitions.ts";
import { listPages } from "../publishing/status-pages/service.ts";
import { fillEveryTable, losses, storedRows } from "../testing/every-table.ts";
import { schemaText } from "../testing/schema-text.ts";
import { openWorld } from "../testing/world.ts";

/* A database of the first release, with data in every table, is upgraded to this version. */

const first = "0001_initial";

/** Columns of 0001_initial whose values have rules beyond their type: SQL text. */
const given = {
  "counters.ends_at": "now() + interval '1 hour'",
  "mcp_audit.actor_type": "'mcp'",
  "mcp_audit.detail": "'not_found'",
  "users.email": "'owner@example.org'",
  "invitations.email": "'guest@example.org'",
  "memberships.role": "'owner'",
  "regions.id": "'eu'",
  "plans.id": "'custom'",
  "orgs.plan_overrides": `'{"max_targets": 50}'`,
  "targets.kind": "'tcp'",
  "targets.spec": `'{"type": "tcp", "host": "example.org", "port": 443, "timeout": 1000}'`,
  "targets.region_policy": `'"any"'`,
  "targets.past_intervals": `'{"30": "2026-11-22T09:30:00Z"}'`,
  "targets.interval_secs": "60",
  "target_states.state": "''",
  "target_states.details": "null",
  "incidents.ended_at": "null",
  "incidents.closed_by": "null",
  "incidents.retracted": "false",
  "audit_log.org_id": "(select id from orgs)",
  "maintenance_windows.recurrence_rule": "'FREQ=DAILY'",
  "maintenance_windows.recurrence_time_zone": "'UTC'",
  "maintenance_occurrences.cancelled": "false",
  "channels.kind": "'webhook'",
  "channels.config": `'{"type": "webhook", "url": "plain:https://hooks.example.org/", "headers": {}, "secret": null}'`,
  // A device belongs to a member.
  "channels.owner_id": "null",
  // A component has a monitor or a state of its own.
  "status_page_components.target_id": "null",
  // A report is about a status page or a tag.
  "report_recipients.page_id": "null",
  "status_pages.branding": `'{"style": "auto"}'`,
  "orgs.deleted_at": "null",
};

/** A world whose database has the schema and data of the first release. */
async function firstRelease(t: Test) {
  const { sql, system } = await openWorld(t);
  await sql.unsafe("drop schema public cascade; create schema public");
  t.strictSame(await migrate(sql, migrationsFolder, first), [first]);
  await ensurePartitions(sql, new Date(Date.now() - 86_400_000), new Date(Date.now() + 86_400_000));
  await fillEveryTable(sql, given);
  return { sql, system, before: await storedRows(sql) };
}

const folder = t.testdir(
  Object.fromEntries(readMigrations(migrationsFolder).map(({ name, text }) => [`${name}.sql`, text])),
);

/** Migrates with one more migration, made up of `text`. */
async function migrateWith(sql: Sql, name: string, text: string): Promise<void> {
  writeFileSync(join(folder, `${name}.sql`), text);
  await migrate(sql, folder);
}

t.test(
  "every table of the first release has a row, and none is lost by the upgrade; the service reads it",
  async (t) => {
    const { sql, system, before } = await firstRelease(t);
    for (const [table, rows] of Object.entries(before)) t.ok(rows.length > 0, `${table} has a row`);
    await migrate(sql);
    t.strictSame(losses(before, await storedRows(sql)), []);

    const [owner] = await sql<{ org_id: string; user_id: string }[]>`select org_id, user_id from memberships`;
    const ctx: Ctx = {
      ...system,
      clock: { ...system.clock, now: () => Date.now() },
      orgId: owner!.org_id,
      userId: owner!.user_id,
      role: "owner",
      scopes: new Set<string>(scopes),
      actor: { type: "session", id: null },
      writeSource: "api",
      traceId: null,
    };
    const page = { limit: 10, offset: 0 };
    const { items } = await listTargets(ctx, page);
    matchObject(t, items, [{ name: "targets-name" }]);
    matchObject(t, await getTarget(ctx, items[0]!.id), { check: { type: "tcp", host: "example.org" }, interval: 60 });
    matchObject(t, await listChannels(ctx, page), {
      total: 1,
      items: [{ name: "channels-device-name", config: { type: "webhook" } }],
    });
    matchObject(t, await listIncidents(ctx, { ...page, state: "all" }), {
      total: 1,
      items: [{ target_id: items[0]!.id }],
    });
    matchObject(t, await listPages(ctx, page), { total: 1, items: [{ branding: { style: "auto", language: "en" } }] });
    matchObject(t, await listWindows(ctx, page), { total: 1, items: [{ title: "maintenance-windows-title" }] });
    matchObject(t, await listAudit(ctx, page), { total: 1 });
  },
);

t.test("a migration that loses or changes data is found", async (t) => {
  const { sql, before } = await firstRelease(t);
  await migrateWith(sql, "9998_made_up", "alter table orgs add column note text not null default '';");
  t.strictSame(losses(before, await storedRows(sql)), [], "a new column loses nothing");
  const undo = new Error("undo");
  for (const [text, lost] of [
    ["update targets set name = upper(name)", /^targets: .*targets-name/],
    ["alter table shares drop column label", /^shares: .*shares-label/],
    ["truncate results", /^results: /],
    ["drop table hook_events", /^hook_events: /],
    ["alter table incidents alter column past_outage_ms type text", /^incidents: /],
  ] as const)
    await t.rejects(
      sql.begin(async (tx) => {
        await tx.unsafe(text);
        matchObject(t, losses(before, await storedRows(tx)), [lost], text);
        throw undo;
      }),
      undo,
    );
  await t.rejects(
    migrateWith(sql, "9999_later", "alter table orgs add column other text not null;"),
    /9999_later failed and was undone: column "other" of relation "orgs" contains null values/,
    "fails on data, not on an empty database",
  );
});

t.test("schema.sql is the schema after all migrations", async (t) => {
  const { sql } = await openWorld(t);
  const root = join(migrationsFolder, "../../..");
  const { folders } = (await import(pathToFileURL(join(root, "infra/table-owners.mjs")).href)) as {
    folders: Record<string, { owns: string[] }>;
  };
  const owners = new Map(Object.entries(folders).flatMap(([folder, { owns }]) => owns.map((table) => [table, folder])));
  const text = await schemaText(sql, (table) => owners.get(table)?.split("/")[0] ?? "other");
  const file = join(migrationsFolder, "../schema.sql");
  if (process.env["SM_TEST_SNAPSHOT"] === "write") writeFileSync(file, text);
  t.equal(text, existsSync(file) ? readFileSync(file, "utf8") : "", "SM_TEST_SNAPSHOT=write writes it");
});
