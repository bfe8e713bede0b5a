import { newId } from "@statusmesh/shared/ids";
import { request } from "undici";
import { castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import type { Loop } from "../harness/event-loop.ts";
import { freePort, startControlPlane } from "../harness/processes.ts";
import { insertTargets } from "../harness/targets.ts";
import { cpuSeconds, type Measured, rounded, rssMb, sleep } from "./measure.ts";
import { addHistory, publishPage } from "./public/page.ts";
import { withTeardown } from "./scope.ts";

/** The most that a page may have. */
const componentCount = 1000;
const windowCount = 20;
const historyDays = 90;
const upcomingDays = 7;
/** A page is computed again 10 s after the last time. */
const freshMs = 10_200;
const warmups = 2;
const rounds = 3;
const readers = 24;
const paths = ["/status", "/status?fragment=1", "/api/public/v1/status", "/api/public/v1/incidents?limit=500"];
/** The longest time that a request may hold the event loop. */
const maxHoldMs = 50;
/** What the windows may add to a computation. */
const maxWindowsMs = 100;
/** What the readers may add to memory: they share one buffer. */
const maxReadersMb = 64;

/**
 * The largest status page: 1,000 components with 90 days of history under 20 daily maintenance windows. Holds the
 * longest time for which the event loop is blocked while it is computed and answered, the CPU time that the windows add
 * to a computation with its replies, and the growth of memory while 24 readers fetch its data at once.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const database = await cloneDatabase(t);
    const loopPort = await freePort();
    const longestHold = async () =>
      ((await (await request(`http://127.0.0.1:${loopPort}/`)).body.json()) as Loop).holdMs;
    const controlPlane = await startControlPlane(t, {
      env: {
        ...database.env,
        SM_TEST_LOOP_PORT: String(loopPort),
        SM_LOG__LEVEL: "error",
        SM_SCHEDULER__BUILTIN_AGENT: "false",
        SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: "1000000",
      },
      nodeArgs: [`--import=${new URL("../harness/event-loop.js", import.meta.url).href}`],
    });
    const { sql } = database;
    const { orgId } = (await castIn(sql)).olga;
    await sql`update orgs set created_at = '2000-01-01' where id = ${orgId}`;
    const ids = Array.from({ length: componentCount }, newId);
    await insertTargets(sql, { ids, orgId, region: "default", intervalSecs: 60, confirmations: 2 });
    await publishPage(sql, { orgId, slug: "big", components: componentCount });
    await addHistory(sql, historyDays);
    const read = async (path: string) => {
      const { statusCode, body } = await request(`${controlPlane.url}${path}`);
      const { byteLength } = await body.arrayBuffer();
      if (statusCode !== 200) throw new Error(`${path} answered ${statusCode}`);
      return byteLength;
    };
    /** CPU milliseconds and the longest hold of one computation with all its replies. */
    const computation = async () => {
      await sleep(freshMs);
      await longestHold();
      const before = cpuSeconds(controlPlane.pid);
      for (const path of paths) await read(path);
      return { cpuMs: 1000 * (cpuSeconds(controlPlane.pid) - before), holdMs: await longestHold() };
    };

    // The code is compiled in the first computations.
    for (let n = 0; n < warmups; n++) await computation();
    const plain = [];
    for (let n = 0; n < rounds; n++) plain.push(await computation());
    for (let n = 0; n < windowCount; n++) {
      const window = newId();
      await sql`
        insert into maintenance_windows
          (id, org_id, title, starts_at, ends_at, recurrence_rule, recurrence_time_zone, generated_until,
            write_source, created_at, updated_at)
        values (${window}, ${orgId}, ${`Window ${n}`}, now(), now() + interval '30 minutes', 'FREQ=DAILY', 'UTC',
          now() + interval '60 days', 'api', now(), now())`;
      await sql`
        insert into maintenance_window_targets (window_id, target_id, position)
        select ${window}, u.id, u.at from unnest(${ids}::uuid[]) with ordinality as u (id, at)`;
      await sql`
        insert into maintenance_occurrences (id, window_id, org_id, starts_at, ends_at)
        select gen_random_uuid(), ${window}, ${orgId}, at, at + interval '30 minutes'
        from generate_series(now() - ${historyDays} * interval '1 day' + ${n} * interval '1 hour',
          now() + ${upcomingDays} * interval '1 day', interval '1 day') at`;
    }
    const planned = [];
    for (let n = 0; n < rounds; n++) planned.push(await computation());
    const rss = rssMb(controlPlane.pid);
    const [bytes] = await Promise.all(Array.from({ length: readers }, () => read("/api/public/v1/status")));
    const grown = rssMb(controlPlane.pid) - rss;
    const holdMs = Math.min(...planned.map((one) => one.holdMs));
    const least = (computed: readonly { cpuMs: number }[]) => Math.min(...computed.map((one) => one.cpuMs));
    const windowsMs = least(planned) - least(plain);
    return {
      name: "big-page",
      value: rounded(holdMs, 1),
      unit: "ms of the event loop at a time",
      limit: maxHoldMs,
      better: "lower",
      ratio: rounded(Math.max(holdMs / maxHoldMs, windowsMs / maxWindowsMs, grown / maxReadersMb), 3),
      components: componentCount,
      windows: windowCount,
      json_bytes: bytes,
      windows_cpu_ms: rounded(windowsMs, 0),
      cpu_ms: planned.map((one) => rounded(one.cpuMs, 0)),
      cpu_ms_without_windows: plain.map((one) => rounded(one.cpuMs, 0)),
      hold_ms: planned.map((one) => rounded(one.holdMs, 1)),
      hold_ms_without_windows: plain.map((one) => rounded(one.holdMs, 1)),
      readers_mb: rounded(grown, 1),
    };
  });
}
