import * as fs from "node:fs";
import { join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { Ctx, System } from "../../../platform/context.ts";
import { listAudit } from "../../../access/audit/service.ts";
import { updateTarget } from "../../../monitoring/targets/write/service.ts";
import { newOrg, openWorld } from "../../../testing/world.ts";
import { replyJson } from "../changes.ts";
import type { PlanReply } from "../schema.ts";
import { filesInWords, listProjects, planConfig } from "../service.ts";
import { followFiles } from "./files.ts";

const world = await openWorld(t);
const { sql, log, clock } = world;

const monitor = (name: string, more = "") =>
  `  ${name}: { name: "${name}", check: { type: tcp, host: db.example.org, port: 5432 }${more} }\n`;
const file = (...monitors: string[]): string => `version: 1\nproject: shop\nmonitors:\n${monitors.join("")}`;

async function until(what: string, is: () => unknown): Promise<void> {
  for (let tries = 0; tries < 600; tries++) {
    if (await is()) return;
    await sleep(25);
  }
  throw new Error(`${what} did not happen: ${JSON.stringify(log.lines.slice(-5))}`);
}

const namesOf = async (ctx: Ctx): Promise<string[]> =>
  (await sql<{ name: string }[]>`select name from targets where org_id = ${ctx.orgId} order by name`).map(
    ({ name }) => name,
  );

/** An organisation whose configuration is a folder of the server. */
async function declaring(t: Test, settings: Partial<System["config"]["declared"]> = {}) {
  const base = t.testdir({ declared: {}, data: {} });
  const folder = join(base, "declared");
  const owner = await newOrg(world.system);
  const [org] = await sql<{ slug: string }[]>`select slug from orgs where id = ${owner.orgId}`;
  const declared = { path: folder, project: "", org: org!.slug, prune: false, max_delete: -1, ...settings };
  const system: System = {
    ...world.system,
    config: { ...world.system.config, declared, data: { dir: join(base, "data") } },
  };
  const ctx: Ctx = { ...owner, config: system.config };
  const put = (name: string, text: string) => fs.writeFileSync(join(folder, name), text);
  const follow = (env: Record<string, string> = {}) => {
    const files = followFiles(system, env, 20);
    t.teardown(() => files.stop());
    return files;
  };
  const state = async () => (await listProjects(ctx)).file;
  return { folder, system, ctx, put, follow, state };
}

t.test("files are applied at start and on change, by one replica, as themselves", async (t) => {
  const { system, ctx, put, follow, state } = await declaring(t);
  put("a.yaml", file(monitor("one")));
  put("b.yaml", `project: shop\nversion: 1\nmonitors:\n${monitor("two")}`);
  t.equal(await state(), null, "nothing is known before the first look");
  t.match(await filesInWords(system), /has not read it yet/);
  const replicas = [follow(), follow()];
  await until("both are ok", () => replicas.every((one) => one.isOk() === true));
  t.strictSame(await namesOf(ctx), ["one", "two"]);
  const applies = async () =>
    (await listAudit(ctx, { limit: 100, offset: 0 })).items.filter(
      ({ action, resource_id: id }) => action === "declared files" && id === null,
    );
  matchObject(t, await applies(), [
    { actor_type: "system", user_id: null, user_email: null, after: { project: "shop", summary: { create: 2 } } },
  ]);
  t.equal((await applies()).length, 1, "the second replica had nothing left to do");
  matchObject(t, (await listProjects(ctx)).projects, [
    { applied_by: { type: "system", id: null, name: "declared files" } },
  ]);
  matchObject(t, await state(), { ok: true, error: null, applied_at: new Date(clock.at).toISOString() });
  t.match(await filesInWords(system), /is applied, last at/);

  put("b.yaml", `project: shop\nversion: 1\nmonitors:\n${monitor("two", ", interval: 5m")}`);
  await until("the change is applied", async () => (await applies()).length === 2);
  const [two] = await sql<{ id: string; interval_secs: number }[]>`
    select id, interval_secs from targets where org_id = ${ctx.orgId} and name = 'two'`;
  t.equal(two!.interval_secs, 300);

  // What the files wrote is no drift; what a person wrote since is, and the next start puts it back.
  for (const one of replicas) await one.stop();
  clock.at += 1000;
  await updateTarget(ctx, two!.id, { interval: 60 });
  const again = follow();
  await until("the start is applied", () => again.isOk());
  matchObject(t, await applies(), [{ after: { summary: { update: 1, drift: 1 } } }, {}, {}]);
  const document = { version: 1, monitors: { two: { name: "2", check: { type: "tcp", host: "a", port: 1 } } } };
  const plan = replyJson(await planConfig(ctx, { project: "shop", document }));
  const { changes } = JSON.parse(String(plan)) as PlanReply;
  matchObject(t, changes[0], { key: "two", drift: null });
});

t.test("an invalid, empty, vanished or refused file keeps what was applied, and says what is wrong", async (t) => {
  const { folder, system, ctx, put, follow, state } = await declaring(t, { prune: true });
  put("a.yaml", file(monitor("one"), monitor("two")));
  const files = follow({ TOKEN: "SECRET-TOKEN", SM_SECURITY__CREDENTIALS_KEK_BASE64: "SECRET-KEK" });
  await until("it is applied", () => files.isOk());
  const lines = log.lines.length;
  const cases: [string, string, RegExp, object][] = [
    ["syntax", "version: 1\nmonitors: [", /must end|expected|Flow/i, { line: 2 }],
    ["empty", "", /has no configuration/, {}],
    ["nothing declared", "version: 1\nproject: shop\n", /No object is declared/, {}],
    ["a field", file(monitor("one", ", nam: x")), /There is no field "nam"/, { line: 4, file: join(folder, "a.yaml") }],
    ["a rule of the server", file(monitor("one", ", regions: [nowhere]")), /region/i, { line: 4 }],
    ["an unset variable", file(monitor("x", ', tags: ["${UNSET}"]')), /UNSET is not set/, { line: 4 }],
    [
      "a setting",
      file(monitor("x", ', tags: ["${SM_SECURITY__CREDENTIALS_KEK_BASE64}"]')),
      /setting of the server/,
      {},
    ],
    [
      "a file elsewhere",
      file(monitor("x", ', tags: ["${file:/etc/hostname}"]')),
      /It is not below .* or \/run\/secrets\/declared/,
      {},
    ],
    ["a file above", file(monitor("x", ', tags: ["${file:../../../../../../etc/passwd}"]')), /It is not below/, {}],
    ["a link that leads out", file(monitor("x", ', tags: ["${file:out}"]')), /It is not below/, {}],
    ["another version", "version: 2\nproject: shop\nmonitors:\n" + monitor("one"), /version must be 1/, { line: 1 }],
  ];
  fs.symlinkSync("/etc/hostname", join(folder, "out"));
  for (const [name, text, message, place] of cases) {
    put("a.yaml", text);
    await until(name, async () => message.test((await state())?.error?.message ?? ""));
    matchObject(t, await state(), { ok: false, error: place }, name);
    t.strictSame(await namesOf(ctx), ["one", "two"], name);
  }
  await t.rejects(filesInWords(system), /a\.yaml:1:10: version must be 1/, "the doctor says so");
  fs.rmSync(folder, { recursive: true });
  await until("it is gone", async () => /nothing at/.test((await state())?.error?.message ?? ""));
  t.strictSame(await namesOf(ctx), ["one", "two"]);
  t.notMatch(JSON.stringify(log.lines.slice(lines)), /SECRET/);
});

t.test("the server's own files are read under no name", async (t) => {
  const { folder, system, ctx, put, follow, state } = await declaring(t);
  const data = system.config.data.dir;
  const elsewhere = join(folder, "../elsewhere");
  fs.mkdirSync(elsewhere);
  const secret = (at: string, name: string): string => {
    fs.writeFileSync(join(at, name), `SECRET-${name}\n`);
    return join(at, name);
  };
  secret(data, "postgres.password");
  secret(data, "agent-token");
  // One of each in the folder itself, where only the setting tells it apart.
  const env = {
    SM_SECURITY__CREDENTIALS_KEK_BASE64_FILE: secret(folder, "kek"),
    SM_SECURITY__CREDENTIALS_KEK_PREVIOUS_BASE64_FILE: relative(process.cwd(), secret(folder, "previous")),
    SM_OPERATOR__ADMIN_TOKEN_FILE: secret(elsewhere, "operator"),
    SM_BOOTSTRAP__TOKEN_FILE: secret(elsewhere, "first"),
    SM_DATABASE__URL_FILE: secret(elsewhere, "database"),
  };
  fs.linkSync(join(elsewhere, "operator"), join(folder, "hard"));
  fs.symlinkSync(join(elsewhere, "first"), join(folder, "soft"));
  fs.linkSync(join(data, "postgres.password"), join(folder, "password"));
  fs.linkSync(join(elsewhere, "database"), join(folder, "z.yaml"));
  put("a.yaml", file(monitor("one")));
  const files = follow(env);
  await until("it is refused", async () => /SM_DATABASE__URL_FILE/.test((await state())?.error?.message ?? ""));
  fs.rmSync(join(folder, "z.yaml"));
  fs.symlinkSync(join(elsewhere, "database"), join(folder, "z.yaml"));
  await until("the link is refused", async () => /link that leads out/.test((await state())?.error?.message ?? ""));
  fs.rmSync(join(folder, "z.yaml"));
  await until("it is applied", () => files.isOk());
  for (const [name, message] of [
    ["kek", /SM_SECURITY__CREDENTIALS_KEK_BASE64_FILE names it/],
    ["previous", /KEK_PREVIOUS_BASE64_FILE names it/],
    ["./hard", /SM_OPERATOR__ADMIN_TOKEN_FILE names it/],
    ["soft", /It is not below .* or \/run\/secrets\/declared\./],
    ["password", /It is in data\.dir/],
    ["/run/secrets/kek", /It is not below .* or \/run\/secrets\/declared\./],
    [join(data, "agent-token"), /It is not below/],
  ] as const) {
    put("a.yaml", file(monitor("one", `, tags: ["\${file:${name}}"]`)));
    await until(name, async () => message.test((await state())?.error?.message ?? ""));
  }
  const stored = await sql`select spec, tags from targets where org_id = ${ctx.orgId}`;
  t.notMatch(JSON.stringify([stored, await state(), log.lines]), /SECRET-/);
});

t.test("values of variables are in no message, whole or in part", async (t) => {
  const { put, follow, state } = await declaring(t);
  const long = `not a url ${"SECRET".repeat(50)}`;
  put("a.yaml", file('  one: { name: "One", check: { type: http, url: "${URL}" } }\n'));
  follow({ URL: long });
  await until("it is refused", async () => (await state())?.ok === false);
  matchObject(t, await state(), {
    error: { line: 4, message: /^The value is refused \(\w+\)\..* may quote \$\{URL\}/ },
  });
  t.notMatch(JSON.stringify([await state(), log.lines]), /SECRETSEC/);
});

t.test("links that Kubernetes swaps are followed, with variables of environment and files", async (t) => {
  const { folder, ctx, follow } = await declaring(t, { project: "shop" });
  const publish = (version: string, text: string, secret: string): void => {
    fs.mkdirSync(join(folder, version));
    fs.writeFileSync(join(folder, version, "monitors.yaml"), text);
    fs.writeFileSync(join(folder, version, "token"), `${secret}\n`);
    fs.symlinkSync(version, join(folder, "..data_tmp"));
    fs.renameSync(join(folder, "..data_tmp"), join(folder, "..data"));
  };
  const text = (host: string) =>
    `version: 1\nmonitors:\n  web:\n    name: "\${NAME}"\n` +
    `    check: { type: http, url: "https://${host}/", bearer_token: "\${file:token}" }\n`;
  publish("..2026_1", text("a.example.org"), "SECRET-1");
  for (const name of ["monitors.yaml", "token"]) fs.symlinkSync(join("..data", name), join(folder, name));
  const files = follow({ NAME: "Web" });
  await until("it is applied", () => files.isOk());
  t.strictSame(await namesOf(ctx), ["Web"]);
  publish("..2026_2", text("b.example.org"), "SECRET-2");
  const url = async () =>
    (await sql<{ url: string }[]>`select spec ->> 'url' as url from targets where org_id = ${ctx.orgId}`)[0]!.url;
  await until("the swap is seen", async () => (await url()) === "https://b.example.org/");
  // Only the secret differs.
  const before = await sql`select spec from targets where org_id = ${ctx.orgId}`;
  fs.rmSync(join(folder, "..2026_1"), { recursive: true });
  publish("..2026_3", text("b.example.org"), "SECRET-3");
  await until(
    "a changed secret is seen",
    async () =>
      JSON.stringify(before) !== JSON.stringify(await sql`select spec from targets where org_id = ${ctx.orgId}`),
  );
  t.notMatch(JSON.stringify(await listAudit(ctx, { limit: 100, offset: 0 })), /SECRET/);
});

t.test("prune has a limit; other projects, organisations and people's objects are safe", async (t) => {
  const { ctx, put, follow, state } = await declaring(t, { prune: true, max_delete: 1 });
  const stranger = await newOrg(world.system);
  put("a.yaml", file(monitor("one"), monitor("two"), monitor("three")));
  const files = follow();
  await until("it is applied", () => files.isOk());
  put("a.yaml", file(monitor("one")));
  await until("it is refused", () => files.isOk() === false);
  await until("it is stored", async () => (await state())?.ok === false);
  matchObject(t, await state(), { error: { message: /would delete 2 objects/, file: null } });
  t.strictSame(await namesOf(ctx), ["one", "three", "two"]);
  put("a.yaml", file(monitor("one"), monitor("two")));
  await until("it is allowed", () => files.isOk());
  t.strictSame(await namesOf(ctx), ["one", "two"]);
  t.strictSame(await namesOf(stranger), []);
  t.equal((await listProjects({ ...stranger, config: ctx.config })).file, null, "the path is nobody else's business");
});

t.test("a project, an organisation that is absent", async (t) => {
  const named = await declaring(t, { project: "other" });
  named.put("a.yaml", file(monitor("one")));
  const files = named.follow();
  await until("it is refused", async () => files.isOk() === false && (await named.state())?.ok === false);
  matchObject(t, await named.state(), { error: { message: /project other only/ } });
  const lost = await declaring(t, { org: "nobody" });
  lost.put("a.yaml", file(monitor("one")));
  const following = lost.follow();
  await until("it is refused", () => following.isOk() === false);
  matchObject(t, log.lines.at(-1), { level: "warn", fields: { errors: [/no organisation nobody/] } });
});
