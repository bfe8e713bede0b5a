import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { type Api, ApiError, connectApi } from "sm-agent/protocol/api";
import { correctedClock } from "sm-agent/clock";
import { Reporter } from "sm-agent/protocol/report";
import { openDiskSpool } from "sm-agent/spool/disk";
import { folderFiles } from "sm-agent/spool/files";
import { Stats } from "sm-agent/telemetry/stats";
import { connect } from "../harness/api.ts";
import { agentIn, castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { tempFolder } from "../harness/folder.ts";
import { serveHere } from "../harness/in-process.ts";
import { harnessProgram, startProgram } from "../harness/processes.ts";
import { mountSmall, requires } from "../harness/requires.ts";
import { admit, runOf, storedSlots } from "../harness/results.ts";
import { insertTargets } from "../harness/targets.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * From the spool into the table: agents that are killed, and an hour without a control plane. Every confirmed result is
 * stored once, the history has no gap, and an incident that is long over causes no notification.
 */

const writer = harnessProgram("spool-writer");

t.test("an agent that is killed eight times loses no confirmed result and stores none twice", async (t) => {
  const database = await cloneDatabase(t);
  const { sql } = database;
  const { olga } = await castIn(sql);
  const agent = await agentIn(sql, "default");
  const ids = Array.from({ length: 10 }, newId);
  await insertTargets(sql, { ids, orgId: olga.orgId, region: "default", intervalSecs: 10, confirmations: 2 });
  const url = await serveHere(t, database);
  const folder = tempFolder(t, "spool");

  // Slots are counted in intervals since the epoch; a round puts at most 10,000 of each target into the spool.
  const start = Math.floor(Date.now() / 10_000) - 9 * 10_000;
  const confirmed: { from: number; to: number }[] = [];
  const run = (round: number, to: string, count: number) =>
    startProgram(t, writer, [folder, to, agent.token, ids.join(), String(start + round * 10_000), String(count)], {
      cwd: folder,
      env: {},
    });
  for (let round = 0; round < 8; round++) {
    // Every other one finds no control plane.
    const program = run(round, round % 2 === 0 ? "http://127.0.0.1:1" : url, 10_000);
    // 1,500 results: what is in flight at a kill is less than half of them.
    await waitFor("confirmations", () => program.log.filter((line) => line.startsWith("confirmed")).length >= 30);
    await sleep(Math.random() * 250);
    await program.stop("SIGKILL");
    const last = program.log.findLast((line) => line.startsWith("confirmed"))!;
    confirmed.push({ from: start + round * 10_000, to: Number(last.split(" ")[1]) });
    t.notOk(
      program.log.some((line) => line.includes('"level":"error"')),
      `round ${round} starts without an error after a kill`,
    );
  }
  const before = (await storedSlots(sql)).length;
  const last = run(8, url, 1);
  t.equal(await last.ended, 0);
  t.match(last.log.at(-1), /^reported \d+ dropped 0 waiting 0$/);

  const rows = await storedSlots(sql);
  const slotOf = (at: Date) => Math.floor(at.getTime() / 10_000);
  const stored = new Set(rows.map(({ target_id, scheduled_at }) => `${target_id} ${slotOf(scheduled_at)}`));
  t.equal(stored.size, rows.length, "no key is stored twice");
  let missing = 0;
  let expected = 0;
  for (const { from, to } of confirmed) {
    for (let slot = from; slot <= to; slot++) {
      for (const id of ids) {
        expected++;
        if (!stored.has(`${id} ${slot}`)) missing++;
      }
    }
  }
  t.equal(missing, 0, "every confirmed result is stored");
  const reported = Number(last.log.at(-1)!.split(" ")[1]);
  const twice = reported - (rows.length - before);
  t.comment(
    `${expected} results confirmed, ${rows.length} stored; ${twice} of the last ${reported} sent were duplicates`,
  );
  t.ok(twice < expected / 2, "a restart does not send everything again");
});

t.test("on a full disk, results that do not fit wait in memory and are written when there is room", async (t) => {
  if (!(await requires(t, "mount"))) return;
  const folder = tempFolder(t, "full");
  t.teardown(mountSmall(folder, 1_048_576));
  const logged: string[] = [];
  const clock = correctedClock();
  const open = async () => {
    const spool = await openDiskSpool({
      files: folderFiles(folder),
      clock,
      log: (_level, msg) => logged.push(msg),
      maxBytes: 64_000_000,
    });
    spool.serve("default");
    return spool;
  };
  const spool = await open();
  const id = newId();
  writeFileSync(join(folder, "of somebody else"), Buffer.alloc(700_000));
  for (let slot = 0; slot < 20_000; slot++) spool.append({ result: runOf(id, slot) });
  await t.rejects(spool.flush(), /the spool cannot be written: .*(ENOSPC|the disk accepts no more writes)/);
  t.equal(spool.waiting, 20_000);
  matchObject(t, logged, [/^the spool cannot be written, results wait in memory/], "logged once");
  rmSync(join(folder, "of somebody else"));
  // The disk is still too small for all results; each acknowledged batch makes room.
  for (let batch = await spool.take(1000, "fresh"); batch !== null; batch = await spool.take(1000, "fresh")) {
    await batch.ack();
    if (spool.waiting <= 3000) break;
  }
  await waitFor("the disk to take results again", () => spool.flush().then(() => true));
  t.equal(spool.dropped, 0);
  const { waiting } = spool;
  await spool.close();
  const next = await open();
  t.equal(next.waiting, waiting, "and a restart finds them");
  t.equal(logged.filter((msg) => msg === "the disk accepts results again").length, 1);
  await next.close();
});

t.test("after an hour without a control plane the history has no gap, and only ongoing incidents notify", async (t) => {
  const database = await cloneDatabase(t);
  const { sql } = database;
  const { olga } = await castIn(sql);
  const agent = await agentIn(sql, "default");
  const url = await serveHere(t, database);
  const api = connect(t, url, olga.token);
  const { body: channel } = await api.post("/api/v1/notification-channels", {
    name: "Duty",
    config: { type: "webhook", url: "https://hooks.example.org/", secret: "not-used-here-at-all" },
  });
  const ids = Array.from({ length: 30 }, newId);
  const [over, ongoing] = ids as [string, string];
  await insertTargets(sql, {
    ids,
    orgId: olga.orgId,
    region: "default",
    intervalSecs: 10,
    confirmations: 2,
    channelId: channel.id,
  });

  let away = true;
  const order: { slot: number; live: boolean }[] = [];
  const began = Date.now();
  const real = connectApi(url, agent.token, "StatusMesh/0");
  const flaky: Api = {
    get: (path, options) => real.get(path, options),
    async post(path, body, options) {
      if (away) throw new ApiError("away", "not reachable in this test", 100);
      const reply = await real.post(path, body, options);
      for (const { scheduled_at } of (body as { results: { scheduled_at: number }[] }).results)
        order.push({ slot: scheduled_at, live: scheduled_at > began });
      return reply;
    },
    useToken: (token) => real.useToken(token),
    close: () => real.close(),
  };
  const clock = correctedClock();
  const stats = new Stats();
  const folder = tempFolder(t, "spool");
  const spool = await openDiskSpool({
    files: folderFiles(folder),
    clock,
    log: () => undefined,
    maxBytes: 64_000_000,
  });
  const reporter = new Reporter({ api: flaky, spool, clock, log: () => undefined, stats });
  reporter.serve("default");
  const slots = Array.from({ length: 360 }, (_, n) => began - 3_600_000 + n * 10_000);
  const statusOf = (id: string, slot: number) => {
    const age = (began - slot) / 60_000;
    if (id === over) return age > 30 && age < 40 ? "down" : "up";
    return id === ongoing && age < 20 ? "down" : "up";
  };
  const missed = slots.flatMap((slot) => ids.map((id) => runOf(id, slot, statusOf(id, slot))));
  await admit(sql, "default", missed);
  for (const result of missed) reporter.add({ result });
  await waitFor("some attempts", () => stats.reportFailures > 3);
  t.equal(spool.waiting, 10_800);
  await waitFor("the backlog on disk, not in memory", () => spool.backlog > 8000);

  const live = Array.from({ length: 20 }, (_, n) => Date.now() + n);
  const news = live.map((slot) => ids.slice(0, 5).map((id) => runOf(id, slot, id === ongoing ? "down" : "up")));
  await admit(sql, "default", news.flat());
  away = false;
  for (const results of news) {
    for (const result of results) reporter.add({ result });
    await sleep(20);
  }
  await waitFor("every result to arrive", () => spool.waiting === 0 && stats.reported >= 10_900);
  const firstLive = order.findIndex(({ live: isLive }) => isLive);
  const oldAfter = order.slice(firstLive).filter(({ live: isLive }) => !isLive).length;
  t.comment(`${oldAfter} of 10,800 old results arrived after the first new one`);
  t.ok(oldAfter > 2000, "new results do not wait for the backlog");

  const all = await storedSlots(sql);
  const stored = new Set(all.map(({ scheduled_at }) => scheduled_at.getTime()));
  t.strictSame({ n: all.length, slots: stored.size }, { n: 10_900, slots: 380 });
  const span = `from=${new Date(began - 3_600_000).toISOString()}&to=${new Date(began).toISOString()}`;
  const latency = await api.get(`/api/v1/targets/${ids[9]}/latency?${span}`);
  t.equal(latency.status, 200);
  const buckets = latency.body.buckets as { samples: number }[];
  t.ok(buckets.length >= 55, "a bucket for every minute");
  t.strictSame(
    buckets.slice(1, -1).filter(({ samples }) => samples === 0),
    [],
    "and none is empty",
  );

  const about = async (id: string) =>
    (await api.get(`/api/v1/incidents?target_id=${id}`)).body.items as {
      id: string;
      state: string;
      started_at: string;
    }[];
  const { body: periods } = await api.get(`/api/v1/targets/${over}/incidents?${span}`);
  matchObject(t, periods.items, [{}], "the incident that is over is in the history");
  t.equal(periods.total, 1);
  t.strictSame(
    (await about(over)).filter(({ state }) => state === "open"),
    [],
  );
  matchObject(t, await about(ongoing), [{ state: "open" }]);
  const notices = await sql<{ target_id: string; reason: string }[]>`
    select i.target_id, d.reason from deliveries d join incidents i on i.id = d.incident_id order by d.id`;
  t.strictSame(
    notices.map((notice) => ({ ...notice })),
    [{ target_id: ongoing, reason: "opened" }],
    "only the ongoing incident notifies",
  );
  await reporter.drain(1000);
  await spool.close();
  await real.close();
});
