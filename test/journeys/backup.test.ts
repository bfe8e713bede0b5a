import { createServer, type IncomingHttpHeaders } from "node:http";
import * as fs from "node:fs";
import type { AddressInfo } from "node:net";
import { createRequire } from "node:module";
import { join } from "node:path";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { filesInWords, sourcesInWords } from "@statusmesh/control-plane/interfaces/declared/service";
import { mirrorInWords } from "@statusmesh/control-plane/publishing/public/mirror/service";
import { backup, restore } from "@statusmesh/control-plane/operator/commands/backup";
import { doctor } from "@statusmesh/control-plane/operator/commands/doctor";
import { connect } from "../harness/api.ts";
import { cloneDatabase } from "../harness/database.ts";
import { tempFolder } from "../harness/folder.ts";
import { freePort, startControlPlane, startProgram } from "../harness/processes.ts";
import { commandHere } from "../harness/in-process.ts";
import { openEmbedded } from "../harness/targets.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * Backup and restore through the real program: from the embedded database of a service that runs to a PostgreSQL of
 * one's own, where the service goes on; and into another embedded one.
 */

const program = createRequire(import.meta.url).resolve("@statusmesh/control-plane/main");
const token = `sm_live_${"backups!".repeat(5).replaceAll("!", "0")}`;
const env = {
  SM_BOOTSTRAP__TOKEN: token,
  SM_SECURITY__CREDENTIALS_KEK_BASE64: Buffer.alloc(32, 1).toString("base64"),
};
const folder = tempFolder(t, "bak");
const file = join(folder, "statusmesh.backup");
const port = await freePort();
const api = connect(t, `http://127.0.0.1:${port}`, token);

/** Runs a command to its end. */
async function run(args: readonly string[], more: Record<string, string> = {}, cwd = folder) {
  const { ended, log, complaints } = startProgram(t, program, args, { cwd, env: { ...env, ...more } });
  return { code: await ended, out: log.join("\n"), complaints: complaints() };
}

const clock = { now: () => Date.now() };
const restoredHere = (from: string, more: Record<string, string>) =>
  commandHere(folder, { ...env, ...more }, (config, say) => restore(config, clock, from, say));

const seen: IncomingHttpHeaders[] = [];
const site = createServer((request, response) => (seen.push(request.headers), response.end("ok"))).listen(
  0,
  "127.0.0.1",
);
await new Promise((resolve) => site.once("listening", resolve));
t.teardown(() => site.close());

const check = {
  type: "http",
  url: `http://127.0.0.1:${(site.address() as AddressInfo).port}/`,
  bearer_token: "the-secret",
};
const isUp = (id: string) =>
  waitFor("an agent to run it", async () => {
    const { status, body } = await api.post(`/api/v1/targets/${id}/check-now`);
    return status === 200 && body.status === "up" ? body : null;
  });

t.test("from the embedded database to a PostgreSQL of one's own", async (t) => {
  const service = await startControlPlane(t, { folder, port, env });
  const target = (await api.post("/api/v1/targets", { name: "Söhne \\N", check, interval: 3600 })).body;
  await isUp(target.id);
  const sql = openEmbedded(t, folder, 1);
  // A monitor has its first scheduled run unless one on demand came before it. A request that timed out on a busy
  // machine has left a run that is stored within the minute, or never began.
  await waitFor("every run that has begun", async () => {
    const [row] = await sql`
      select count(r.target_id) > 0
        and bool_and(r.target_id is not null or i.scheduled_at < now() - interval '1 minute') as stored
      from issued_slots i left join results r using (target_id, region, scheduled_at)`;
    return row!["stored"] as boolean;
  });
  // Several parts, and rows of many days.
  await sql.unsafe(`
    insert into audit_log (id, org_id, at, action, actor_type, write_source, after)
    select gen_random_uuid(), o.id, now(), 'test', 'system', 'api',
      jsonb_build_object('n', n, 'text', repeat(md5(n::text), 30))
    from orgs o, generate_series(1, 8000) as n`);
  const before = await counts(sql);

  const written = await run(["backup", file]);
  matchObject(t, written, {
    code: 0,
    out: /^Wrote .*statusmesh\.backup: \d+ tables, \d+ rows, [\d.]+ MB\.\n.*needs the key too/,
  });
  t.equal(fs.statSync(file).mode & 0o777, 0o600);
  t.strictSame(
    fs.readdirSync(folder).filter((name) => name.endsWith(".part")),
    [],
  );
  matchObject(
    t,
    await commandHere(folder, env, (config, say) => backup(config, clock, file, say)),
    { code: 78, complaints: /exists already/ },
    "an older backup is not overwritten",
  );
  matchObject(
    t,
    await restoredHere(file, {}),
    { code: 75, complaints: /Another StatusMesh .* already uses/ },
    "not beside a service",
  );

  const own = await cloneDatabase(t);
  await own.sql.unsafe("drop schema public cascade; create schema public");
  const content = fs.readFileSync(file);
  const damaged: [string, Buffer, RegExp][] = [
    ["cut off", content.subarray(0, content.length - 4000), /cut off|damaged/],
    ["another file", Buffer.from("PGDMP"), /no backup of StatusMesh/],
    ["empty", Buffer.alloc(0), /cut off|no backup/],
  ];
  for (const [title, bytes, complaint] of damaged) {
    const bad = join(folder, "bad");
    fs.writeFileSync(bad, bytes);
    const refused = await restoredHere(bad, own.env);
    matchObject(t, refused, { code: 78, complaints: complaint }, title);
    t.notMatch(refused.complaints, "\n", "in one line");
  }
  t.equal(await service.stop(), 0);

  const restored = await run(["restore", file], own.env);
  matchObject(t, restored, { code: 0, out: /^Restored \d+ tables with \d+ rows, as of 2\d{3}-/ }, restored.complaints);
  t.strictSame(await counts(own.sql), { ...before, deleted: 0 }, "every row is there");
  matchObject(t, await restoredHere(file, own.env), {
    code: 78,
    complaints: /The database is not empty: it has 1 org/,
  });

  const again = await startControlPlane(t, { folder, port, env: { ...env, ...own.env } });
  const { body } = await api.get("/api/v1/targets");
  matchObject(t, body, { total: 1, items: [{ id: target.id, name: target.name }] });
  seen.length = 0;
  await isUp(target.id);
  t.equal(seen.at(-1)?.authorization, "Bearer the-secret", "what was sealed opens with the key");
  t.equal(await again.stop(), 0);
});

t.test("into another embedded database, where the key is missing", async (t) => {
  const elsewhere = tempFolder(t, "bak");
  const restored = await run(["restore", file], { SM_SECURITY__CREDENTIALS_KEK_BASE64: "" }, elsewhere);
  matchObject(t, restored, { code: 1, out: /The stored credentials of 1 monitor cannot be opened/ });
  matchObject(
    t,
    await commandHere(elsewhere, env, (config, say) =>
      doctor(() => config, clock, say, false, { files: filesInWords, sources: sourcesInWords, mirror: mirrorInWords }),
    ),
    {
      out: /secrets +those of 1 monitor, .*, 0 channels, 0 push keys and 0 webhook subscribers can be opened/,
    },
  );
});

async function counts(sql: Awaited<ReturnType<typeof cloneDatabase>>["sql"]) {
  const [row] = await sql<Record<string, number>[]>`
    select (select count(*)::int from audit_log where action = 'test') as audit, (select count(*)::int
      from targets) as targets,
      (select count(*)::int from results) as results, (select count(*)::int from plans) as plans,
      (select count(*)::int from api_tokens) as tokens, (select count(*)::int from deleted_targets) as deleted`;
  return { ...row };
}
