import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { inTransaction, type System } from "../platform/context.ts";
import type { DatabaseProblem } from "../platform/db/client/failures.ts";
import { hour, until } from "../testing/clock.ts";
import { openIncident, webhookTo } from "../testing/scene.ts";
import { startMailbox } from "../testing/mailbox.ts";
import { newOrg, openWorld } from "../testing/world.ts";
import { databaseNotices } from "./database-notices.ts";
import { areRemindersDue, sendReminders } from "../alerting/incidents/escalation/reminders.ts";
import { runAlone, startJobs } from "../platform/jobs/runner.ts";
import { isHeldDue } from "../alerting/deliveries/outbox/held.ts";
import { isMaintenanceDue } from "../alerting/incidents/engine.ts";
import { areEscalationsDue } from "../alerting/incidents/escalation/ladder.ts";
import { isHeartbeatDue } from "../monitoring/heartbeats/intake/reports.ts";
import { areMessagesDue, isNewsDue } from "../publishing/subscribers/engine.ts";
import { isTrue } from "../platform/jobs/queries.ts";

/** As the job does: only what is due is run. */
const remind = async (system: System) => ((await isTrue(system, areRemindersDue)) ? await sendReminders(system) : 0);

t.test("reminders are sent at the interval of the policy, until an acknowledgement", async (t) => {
  const { sql, clock, system } = await openWorld(t);
  const owner = await newOrg(system);
  const { incidentId } = await openIncident(
    owner,
    [await webhookTo(owner, "https://hooks.example.org/"), await webhookTo(owner, "https://hooks.example.org/")],
    { name: "shop" },
  );
  const deliveries = () =>
    sql<
      { seq: number; count: number }[]
    >`select seq, count(*)::integer as count from deliveries where reason = 'reminder' group by seq order by seq`;
  const due = async () =>
    (
      await sql<
        { reminder_due_at: Date | null; reminders_sent: number }[]
      >`select reminder_due_at, reminders_sent from incidents where id = ${incidentId}`
    )[0];

  t.equal(await remind(system), 0);
  clock.advance(hour + 2000);
  t.equal(await remind(system), 1);
  t.equal(await remind(system), 0);
  matchObject(
    t,
    await due(),
    { reminder_due_at: new Date(clock.now() - 2000 + hour), reminders_sent: 1 },
    "two seconds late, and still in step",
  );
  const [sent] = await sql`select notice from deliveries limit 1`;
  matchObject(t, sent?.["notice"], {
    reason: "reminder",
    monitor_name: "shop",
    urgency: "high",
    ended_at: null,
    url: `https://status.example.org/incidents/${incidentId}`,
  });

  clock.advance(5 * hour);
  t.equal(await remind(system), 1, "hours that were missed are not made up for");
  matchObject(t, await due(), { reminder_due_at: new Date(clock.now() + hour), reminders_sent: 2 });
  t.strictSame(
    [...(await deliveries())],
    [
      { seq: 0, count: 2 },
      { seq: 1, count: 2 },
    ],
    "for both channels",
  );

  clock.advance(hour);
  const race = await Promise.all(Array.from({ length: 6 }, () => remind(system)));
  t.equal(
    race.reduce((sum, sent) => sum + sent, 0),
    1,
    "six at once, one reminds",
  );
  t.equal((await deliveries()).length, 3);

  await sql`update targets set renotify_interval_secs = 0`;
  clock.advance(hour);
  t.equal(await remind(system), 0);
  matchObject(t, await due(), { reminder_due_at: null, reminders_sent: 3 }, "the policy was changed to none");
});

t.test("no reminder of what is acknowledged, over or retracted", async (t) => {
  const { sql, clock, system } = await openWorld(t);
  const owner = await newOrg(system);
  const channel = await webhookTo(owner, "https://hooks.example.org/");
  const [acknowledged, over, retracted, live] = [
    await openIncident(owner, [channel]),
    await openIncident(owner, [channel]),
    await openIncident(owner, [channel]),
    await openIncident(owner, [channel]),
  ];
  const at = new Date(clock.now());
  await sql`update incidents set acknowledged_at = ${at} where id = ${acknowledged.incidentId}`;
  await sql`update incidents set ended_at = ${at}, outage_since = null where id = ${over.incidentId}`;
  await sql`update incidents set retracted = true where id = ${retracted.incidentId}`;
  clock.advance(hour);
  t.equal(await remind(system), 1);
  matchObject(t, await sql`select incident_id from deliveries`, [{ incident_id: live.incidentId }]);
});

t.test("more incidents than one transaction takes are all reminded of", async (t) => {
  const { clock, system } = await openWorld(t);
  const owner = await newOrg(system);
  const channel = await webhookTo(owner, "https://hooks.example.org/");
  await Promise.all(Array.from({ length: 205 }, () => openIncident(owner, [channel])));
  clock.advance(hour);
  t.equal(await remind(system), 205);
});

t.test("a job runs on one replica at a time, periodically, also after failures", async (t) => {
  const { pool, log, system: one } = await openWorld(t);
  const replicas = [one, { ...one, sql: pool() }];
  let running = 0;
  let most = 0;
  let runs = 0;
  const slow = {
    name: "slow",
    everyMs: 5,
    async run() {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve, 20));
      running--;
      if (++runs % 2 === 0) throw new Error("every other time");
    },
  };
  let others = 0;
  const other = { name: "other", everyMs: 5, run: async () => void others++ };
  const jobs = replicas.map((system) => startJobs(system, [slow, other]));
  await until(() => runs >= 6 && others >= 6, "six runs");
  await Promise.all(jobs.map((one) => one.stop()));
  const atStop = runs;
  t.equal(most, 1);
  t.equal(running, 0, "stopping waits for a run that has begun");
  matchObject(t, log.lines[0], {
    level: "error",
    message: "a job failed",
    fields: { job: "slow", err: /every other time/ },
  });
  await new Promise((resolve) => setTimeout(resolve, 60));
  t.equal(runs, atStop);

  const [system, elsewhere] = replicas as [(typeof replicas)[0], (typeof replicas)[0]];
  let inner: boolean | undefined;
  t.equal(
    await runAlone(system, {
      name: "held",
      everyMs: 1,
      run: async () =>
        void (inner = await runAlone(elsewhere, { name: "held", everyMs: 1, run: async () => t.fail("it ran twice") })),
    }),
    true,
  );
  t.equal(inner, false, "another replica passes it over");
});

t.test("a job runs only when it is due, and asks again at its interval", async (t) => {
  const { system } = await openWorld(t);
  const outcomes: string[] = [];
  let asked = 0;
  const runsAfter: number[] = [];
  const job = {
    name: "seldom",
    everyMs: 5,
    isDue: ({ sql }: System) => sql`${++asked % 3 === 0}::boolean`,
    run: async () => void runsAfter.push(asked),
  };
  const never = { ...job, name: "never", isDue: ({ sql }: System) => sql`false`, run: async () => t.fail("not due") };
  const jobs = startJobs(system, [job, never], (_job, outcome) => void outcomes.push(outcome), 5);
  await until(() => runsAfter.length >= 2, "two runs");
  await jobs.stop();
  t.strictSame(runsAfter.slice(0, 2), [3, 6]);
  t.strictSame([...new Set(outcomes)], ["ok"], "a run that is not due is no failure");
});

t.test("what is asked every second or more often reads no history", async (t) => {
  const { sql, clock, system } = await openWorld(t);
  const owner = await newOrg(system);
  const channelId = await webhookTo(owner, "https://hooks.example.org/");
  const { incidentId } = await openIncident(owner, [channelId]);
  await sql`
    update incidents set ended_at = started_at, outage_since = null, reminder_due_at = null where id = ${incidentId}`;
  await sql`
    insert into incidents (id, org_id, target_id, started_at, opened_at, ended_at, severity, impact, peak_impact,
      regions_down, regions_up, created_at, updated_at)
    select gen_random_uuid(), org_id, target_id, started_at, opened_at, ended_at, severity, impact, peak_impact,
      regions_down, regions_up, created_at, updated_at
    from incidents, generate_series(1, 5000)`;
  const at = new Date(clock.now());
  await sql`
    insert into incident_events (id, org_id, incident_id, at, kind, actor_type, detail)
    select gen_random_uuid(), org_id, id, ${at}, 'opened', 'engine', '{}' from incidents`;
  await sql`
    insert into deliveries (id, org_id, incident_id, channel_id, channel_name, channel_kind, reason, seq, notice, state,
      created_at)
    select gen_random_uuid(), org_id, id, ${channelId}, 'hook', 'webhook', 'opened', 0, '{}', 'delivered', ${at}
    from incidents`;
  await sql`analyze incidents, incident_events, deliveries`;
  clock.advance(3 * hour);
  const questions = {
    isHeartbeatDue,
    areRemindersDue,
    areEscalationsDue,
    isHeldDue,
    isMaintenanceDue,
    isNewsDue,
    areMessagesDue,
  };
  for (const [name, isDue] of Object.entries(questions))
    await inTransaction(system, async (tx) => {
      // What the connection has read before may count too, until PostgreSQL collects it.
      const rowsRead = async () =>
        (
          await tx.sql<{ read: number }[]>`
          select sum(seq_tup_read)::integer as read from pg_stat_xact_user_tables`
        )[0]!.read;
      const before = await rowsRead();
      await isTrue(tx, isDue);
      const read = (await rowsRead()) - before;
      t.ok(read < 1000, `${name}: ${read} rows`);
    });
});

t.test("more jobs than connections do not block each other", async (t) => {
  const warnings: string[] = [];
  const onWarning = ({ message }: Error): void => void warnings.push(message);
  process.on("warning", onWarning);
  t.teardown(() => process.off("warning", onWarning));
  const { system, pool } = await openWorld(t);
  const own = { ...system, sql: pool(10) };
  const done = new Set<string>();
  const list = Array.from({ length: 12 }, (_, n) => ({
    name: `job ${n}`,
    everyMs: 60_000,
    run: async () => {
      await own.sql`select pg_sleep(0.05)`;
      done.add(`job ${n}`);
    },
  }));
  const jobs = startJobs(own, list);
  await until(() => done.size === list.length, "every job has run");
  await jobs.stop();
  t.strictSame(warnings, [], "without a warning of the runtime");
});

t.test("a job that the database cannot serve waits for it without a line each", async (t) => {
  const { log, system } = await openWorld(t);
  let runs = 0;
  const failing = {
    name: "failing",
    everyMs: 5,
    async run() {
      runs++;
      throw Object.assign(new Error("write CONNECTION_CLOSED"), { code: "CONNECTION_CLOSED" });
    },
  };
  const jobs = startJobs(system, [failing]);
  await until(() => runs >= 3, "three runs");
  await jobs.stop();
  t.strictSame(
    log.lines.filter(({ level }) => level !== "debug"),
    [],
  );
});

t.test("the operator gets one mail when the database cannot be used, and one when that is over", async (t) => {
  const mailbox = await startMailbox(t);
  const { system, clock } = await openWorld(t, {
    env: { SM_EMAIL__SMTP_URL: mailbox.url, SM_EMAIL__FROM: "statusmesh@example.org" },
  });
  let problem: DatabaseProblem | null = { failure: "full", since: clock.now(), reason: "No space left on device" };
  const notices = databaseNotices(system, { problem: () => problem, ready: () => Promise.reject(new Error("full")) });
  await notices.look();
  clock.advance(119_000);
  await notices.look();
  t.equal(mailbox.mails.length, 0, "a failover is shorter");
  clock.advance(2_000);
  await notices.look();
  await notices.look();
  problem = null;
  await notices.look();
  await notices.look();
  matchObject(
    t,
    mailbox.mails.map(({ text }) => /^Subject: (.*)$/m.exec(text)?.[1]?.trim()),
    ["StatusMesh: the disk of the database is full", "StatusMesh: Over: the disk of the database is full"],
  );
  t.match(mailbox.mails[0]?.text, /No space left on device/);
});
