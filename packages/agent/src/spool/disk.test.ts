import * as fs from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { type AgentResult, warningLimits } from "@statusmesh/shared/protocol/agent-protocol";
import { boundedSnapshot } from "@statusmesh/shared/protocol/failure-snapshot";
import type { Log } from "../telemetry/log.ts";
import type { Batch, SpoolRecord } from "./spool.ts";
import { FakeClock, mortalFiles } from "../testing.ts";
import { type DiskSpool, openDiskSpool } from "./disk.ts";
import type { Files } from "./files.ts";
import { decodeHeader, decodeResult, encodeHeader, frameAt, maxFrame, segmentName, writeResult } from "./format.ts";
import { FolderError, lockFolder } from "./lock.ts";
import { Queue } from "./queue.ts";
import { Ranges } from "./ranges.ts";

const result = (n: number, error: string | null = null): AgentResult => ({
  target_id: `00000000-0000-7000-8000-${String(n % 1000).padStart(12, "0")}`,
  scheduled_at: n,
  timestamp: n + 3,
  skip: n % 7 === 0,
  status: "up",
  error,
  http_status: 200,
  response_size: 512,
  dns_ms: 0.2,
  connect_ms: 0.413,
  tls_ms: null,
  ttfb_ms: 12.5,
  total_ms: 13.208,
});
const numbersOf = (batch: Batch | null): number[] =>
  (batch?.records ?? []).map((record) => ("result" in record ? record.result.scheduled_at : -1));
const upTo = (n: number, from = 0): number[] => Array.from({ length: n - from }, (_, at) => from + at);

interface Logged {
  level: string;
  msg: string;
  fields: Record<string, unknown> | undefined;
}

/** A folder with spools that are opened in it one after the other. */
function place(
  t: Test,
  options: { maxBytes?: number; window?: number; memoryLimit?: number; wrap?: (files: Files) => Files } = {},
) {
  const folder = t.testdir();
  const logged: Logged[] = [];
  const log: Log = (level, msg, fields) => logged.push({ level, msg, fields });
  const clock = new FakeClock();
  const { maxBytes = 10_000_000, window = 10, memoryLimit = 100_000, wrap = (files: Files) => files } = options;
  let kill = (): Promise<void> => Promise.resolve();
  t.teardown(() => kill());
  /** Ends the process that has the folder, if there is one, and starts another. */
  const open = async (region: string | null = "fra"): Promise<DiskSpool> => {
    await kill();
    const mortal = mortalFiles(folder);
    kill = mortal.kill;
    const spool = await openDiskSpool({ files: wrap(mortal.files), clock, log, maxBytes, window, memoryLimit });
    if (region !== null) spool.serve(region);
    return spool;
  };
  const segments = (): string[] =>
    fs
      .readdirSync(folder)
      .filter((name) => name.endsWith(".spool"))
      .sort();
  return { folder, logged, clock, open, segments, path: (name: string) => join(folder, name) };
}

/** Takes everything there is, backlog first, and gives it back as numbers. */
async function takeAll(spool: DiskSpool, max = 1000): Promise<number[]> {
  const numbers: number[] = [];
  for (const lane of ["backlog", "fresh"] as const) {
    for (let batch = await spool.take(max, lane); batch !== null; batch = await spool.take(max, lane)) {
      numbers.push(...numbersOf(batch));
      await batch.ack();
    }
  }
  return numbers;
}

const append = (spool: DiskSpool, numbers: readonly number[]): void => {
  for (const n of numbers) spool.append({ result: result(n) });
};

t.test("flushed results survive a crash, complete and in order", async (t) => {
  const { open, folder, segments, logged } = place(t);
  const first = await open();
  first.append({ result: result(1, 'wrong: "Ü" \u{1F600} \u2028') });
  append(first, upTo(500, 2));
  await first.flush();
  append(first, [500]);
  t.equal(first.waiting, 500);
  t.equal(first.backlog, 489, "only the newest wait in memory");

  const second = await open();
  t.equal(second.waiting, 499, "what was not flushed went with the process");
  t.equal(second.dropped, 0);
  const batch = await second.take(1000, "backlog");
  t.strictSame(batch?.records[0], { result: result(1, 'wrong: "Ü" \u{1F600} \u2028') }, "every field");
  t.strictSame(numbersOf(batch), upTo(500, 1));
  matchObject(t, logged, [
    { level: "info", msg: "results of an earlier run are in the spool and will be reported", fields: { count: 499 } },
  ]);
  t.equal(fs.statSync(join(folder, segments()[0]!)).mode & 0o777, 0o600);
});

const largestSnapshot = boundedSnapshot({
  status_line: "€".repeat(200),
  headers: Array.from({ length: 40 }, () => ({ name: '"'.repeat(50), value: "€".repeat(52) })),
  headers_omitted: 0,
  body: "€".repeat(1024),
  body_state: "truncated",
});

t.test("optional fields survive a restart", async (t) => {
  const details = {
    days_remaining: 74,
    not_after: "2027-02-04T12:00:00.000Z",
    subject_common_name: "shop.example.org",
    issuer_common_name: null,
  };
  const { open } = place(t);
  const spool = await open();
  const records = [{ result: result(1) }, { result: { ...result(3), details } }];
  for (const record of records) spool.append(record);
  await spool.flush();
  const again = await open();
  t.strictSame((await again.take(10, "backlog"))?.records, records);
  const into = Buffer.alloc(maxFrame);
  const sizeOf = (one: AgentResult): number => writeResult(into, 0, one);
  t.equal(sizeOf({ ...result(1), details: null }), sizeOf(result(1)), "no details take no room");
  const cause = { status: "down" as const, error: "connection refused" };
  for (const one of [
    { ...result(5, "circuit_open"), cause },
    { ...result(6), details, cause },
    { ...result(7), http: { certificate_not_after: 1_795_253_400_000 } },
    { ...result(8), details, http: { certificate_not_after: 1_795_253_400_000 } },
    { ...result(9), snapshot: largestSnapshot },
    { ...result(10), warnings: ["a"] },
    {
      ...result(11, "\u0001".repeat(2000)),
      cause,
      http: {},
      snapshot: largestSnapshot,
      warnings: Array.from({ length: warningLimits.count }, () => "\u2028".repeat(warningLimits.length)),
    },
  ]) {
    const end = sizeOf(one);
    t.strictSame(decodeResult(into.subarray(9, end).toString()), one, "nor does a cause depend on details");
  }
});

t.test("acknowledged results are not sent again", async (t) => {
  const { open, clock, segments } = place(t);
  const first = await open();
  append(first, upTo(100));
  await first.flush();
  await (await first.take(60, "backlog"))?.ack();
  await (await first.take(3, "fresh"))?.ack();
  const held = await first.take(2, "fresh");
  await clock.pass(2000);
  await first.flush();
  const second = await open();
  t.strictSame(
    await takeAll(second),
    [...upTo(90, 60), ...upTo(100, 93)],
    "only what was not acknowledged, what was in somebody's hands included",
  );
  t.strictSame(numbersOf(held), [93, 94]);
  await second.flush();
  const third = await open();
  t.equal(third.waiting, 0);
  append(third, [100]);
  await third.flush();
  t.equal(segments().length, 1, "segments without anything to send are removed");
});

t.test("a released batch is taken again in its order", async (t) => {
  const { open, clock } = place(t);
  const spool = await open();
  append(spool, upTo(30));
  const unwritten = await spool.take(5, "fresh");
  t.strictSame(numbersOf(unwritten), upTo(5), "before they are in a file they are all fresh");
  const more = await spool.take(5, "fresh");
  unwritten?.release();
  more?.release();
  t.equal(spool.waiting, 30);
  await clock.pass(1000);
  await spool.flush();
  const [one, two] = [await spool.take(7, "backlog"), await spool.take(7, "backlog")];
  t.strictSame([numbersOf(one), numbersOf(two)], [upTo(7), upTo(14, 7)]);
  const fresh = await spool.take(4, "fresh");
  t.strictSame(numbersOf(fresh), upTo(24, 20));
  two?.release();
  one?.release();
  fresh?.release();
  t.equal(spool.waiting, 30);
  t.strictSame(await takeAll(spool), [...upTo(24), ...upTo(30, 24)]);
  t.equal(spool.waiting, 0);
  t.equal(spool.backlog, 0);
});

t.test("a full spool drops the oldest results and counts them across restarts", async (t) => {
  const { open, segments, folder, logged } = place(t, { maxBytes: 160_000 });
  const first = await open();
  const held: (Batch | null)[] = [];
  for (let at = 0; at < 5000; at += 100) {
    append(first, upTo(at + 100, at));
    await first.flush();
    if (at === 1000) held.push(await first.take(50, "backlog"), await first.take(10, "backlog"));
  }
  const size = segments().reduce((sum, name) => sum + fs.statSync(join(folder, name)).size, 0);
  t.ok(size <= 180_000 && size > 100_000, `${size} bytes`);
  await held[0]?.ack();
  held[1]?.release();
  await first.flush();
  t.equal(first.dropped + first.waiting, 4950, "each is waiting, dropped or acknowledged");
  const { dropped } = first;
  t.ok(logged.some(({ msg }) => msg === "the spool is full; the oldest results are dropped"));
  const second = await open();
  t.equal(second.dropped, dropped);
  const numbers = await takeAll(second);
  t.strictSame(numbers, upTo(5000, 4950 - numbers.length + 50), "the newest, without a gap");
  t.equal(numbers.length + dropped, 4950);
});

t.test("on-demand replies are not stored", async (t) => {
  const { open } = place(t);
  const spool = await open();
  const run: SpoolRecord = {
    run: {
      run_id: result(1).target_id,
      timestamp: 1,
      matched_expectations: true,
      warnings: [],
      status: "up",
      error: null,
      http_status: null,
      response_size: null,
      dns_ms: null,
      connect_ms: null,
      tls_ms: null,
      ttfb_ms: null,
      total_ms: null,
    },
  };
  spool.append(run);
  spool.append({ result: result(1) });
  t.equal(spool.waiting, 2);
  const batch = await spool.take(10, "fresh");
  t.strictSame(batch?.records, [{ result: result(1) }, run]);
  batch?.release();
  t.equal(spool.waiting, 2);
  for (let i = 0; i < 1500; i++) spool.append(run);
  t.equal(spool.waiting, 1001, "and are bounded");
  t.equal(spool.dropped, 501);
  await spool.close();
  t.equal((await open()).waiting, 1);
});

t.test("results of another region stay in the spool", async (t) => {
  const { open, logged } = place(t);
  const first = await open("fra");
  append(first, [1, 2]);
  await first.close();
  const other = await open("nyc");
  t.equal(other.waiting, 0);
  matchObject(t, logged, [{ msg: /results of another region/, fields: { count: 2, region: "nyc" } }]);
  append(other, [3]);
  await other.flush();
  t.strictSame(await takeAll(other), [3]);
  await other.close();
  const back = await open("fra");
  t.strictSame(await takeAll(back), [1, 2]);
  const unknown = await open(null);
  t.throws(() => unknown.append({ result: result(1) }), /set the region/);
});

t.test("foreign and damaged files in the folder", async (t) => {
  /** A folder with three segments of 100 results, spoilt by `spoil`. */
  const cases: [string, (path: (name: string) => string, names: string[]) => void, number[], number, RegExp | null][] =
    [
      ["nothing wrong", () => undefined, upTo(300), 0, null],
      [
        "the end cut off",
        (path, names) => fs.truncateSync(path(names[2]!), fs.statSync(path(names[2]!)).size - 100),
        upTo(299),
        0,
        /cut off/,
      ],
      [
        "zeros at the end",
        (path, names) => fs.appendFileSync(path(names[2]!), Buffer.alloc(4096)),
        upTo(300),
        0,
        /cut off/,
      ],
      [
        "a flipped bit in a result",
        (path, names) => flip(path(names[1]!), (size) => size - 200),
        [],
        1,
        /a result in the spool is damaged/,
      ],
      [
        "a flipped bit in a length",
        (path, names) => flip(path(names[1]!), () => 20 + headerLength(path(names[1]!))),
        [...upTo(100), ...upTo(300, 200)],
        100,
        /results are missing/,
      ],
      [
        "a flipped bit in a header",
        (path, names) => flip(path(names[1]!), () => 40),
        [...upTo(100), ...upTo(300, 200)],
        100,
        /set aside/,
      ],
      [
        "a segment that is missing",
        (path, names) => fs.rmSync(path(names[1]!)),
        [...upTo(100), ...upTo(300, 200)],
        100,
        /results are missing/,
      ],
      ["the first one missing", (path, names) => fs.rmSync(path(names[0]!)), upTo(300, 100), 0, null],
      ["a segment of no bytes", (path) => fs.writeFileSync(path(segmentName(9000)), ""), upTo(300), 0, /empty segment/],
      [
        "another version",
        (path) => fs.writeFileSync(path(segmentName(9000)), otherVersion()),
        upTo(300),
        0,
        /set aside/,
      ],
      [
        "something else under a segment's name",
        (path) => fs.writeFileSync(path(segmentName(9000)), "not a segment at all, sorry"),
        upTo(300),
        0,
        /set aside/,
      ],
      ["a folder under a segment's name", (path) => fs.mkdirSync(path(segmentName(9000))), upTo(300), 0, /set aside/],
      [
        "a copy under another name",
        (path, names) => fs.copyFileSync(path(names[0]!), path(segmentName(9000))),
        upTo(300),
        0,
        /set aside/,
      ],
      [
        "files of others",
        (path) => (fs.writeFileSync(path("rdap-cache.json"), "{}"), fs.mkdirSync(path("lost+found"))),
        upTo(300),
        0,
        null,
      ],
      [
        "everything cut off",
        (path, names) => {
          for (const name of names) fs.truncateSync(path(name), 7);
        },
        [],
        0,
        /set aside/,
      ],
    ];
  for (const [what, spoil, expected, dropped, words] of cases) {
    await t.test(what, async (t) => {
      const { open, segments, path, logged, folder } = place(t);
      for (const part of [0, 100, 200]) {
        const spool = await open();
        append(spool, upTo(part + 100, part));
        await spool.flush();
      }
      t.equal(segments().length, 3);
      const before = fs.readdirSync(folder);
      logged.length = 0;
      spoil(path, segments());
      const foreign = fs.readdirSync(folder).filter((name) => !name.endsWith(".spool") && !before.includes(name));
      const spool = await open();
      t.equal(spool.dropped, dropped);
      if (words !== null)
        t.ok(
          logged.some(({ msg }) => words.test(msg)),
          `it says so: ${logged.map(({ msg }) => msg).join(", ")}`,
        );
      else
        t.strictSame(
          logged.filter(({ level }) => level !== "info"),
          [],
        );
      append(spool, [777]);
      await spool.flush();
      const again = await open();
      t.equal(again.dropped, dropped, "nothing is counted twice");
      const numbers = await takeAll(again);
      if (expected.length > 0 || dropped === 0) t.strictSame(numbers, [...expected, 777]);
      else t.equal(numbers.length, 301 - dropped);
      await again.flush();
      t.equal((await open()).waiting, 0);
      for (const name of foreign) t.ok(fs.existsSync(path(name)), `${name} is left alone`);
    });
  }
});

function flip(file: string, where: (size: number) => number): void {
  const bytes = fs.readFileSync(file);
  const at = where(bytes.length);
  bytes[at]! ^= 0x10;
  fs.writeFileSync(file, bytes);
}

const headerLength = (file: string): number => fs.readFileSync(file).readUInt32BE(12);

function otherVersion(): Buffer {
  const bytes = encodeHeader({ base: 9000, region: "fra", state: { done: [], dropped: 0 } });
  bytes.writeUInt32BE(2, 8);
  return bytes;
}

/**
 * Files on a disk that has a given room, takes a part of what does not fit without an error, and fails on demand.
 */
function meanDisk(files: Files) {
  const disk = { room: Infinity, fails: null as string | null, written: 0 };
  const check = (): void => {
    if (disk.fails !== null)
      throw Object.assign(new Error(`${disk.fails}: as the test wants it`), { code: disk.fails });
  };
  const wrapped: Files = {
    ...files,
    async create(name) {
      check();
      const file = await files.create(name);
      return {
        ...file,
        async write(bytes, position) {
          check();
          const part = bytes.subarray(0, Math.max(0, Math.min(bytes.length, disk.room)));
          if (part.length === 0 && bytes.length > 0)
            throw Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" });
          disk.room -= part.length;
          disk.written += part.length;
          return await file.write(part, position);
        },
        async sync() {
          check();
          await file.sync();
        },
      };
    },
  };
  return { disk, wrapped };
}

t.test("full or failing disk: results wait in memory until the disk recovers", async (t) => {
  for (const how of ["ENOSPC", "EIO", "EROFS"]) {
    await t.test(how, async (t) => {
      let disk = { room: Infinity, fails: null as string | null, written: 0 };
      const { open, clock, logged } = place(t, {
        memoryLimit: 500,
        wrap: (files) => {
          const mean = meanDisk(files);
          disk = mean.disk;
          return mean.wrapped;
        },
      });
      const spool = await open();
      append(spool, upTo(100));
      await spool.flush();
      if (how === "ENOSPC") disk.room = 777;
      else disk.fails = how;
      append(spool, upTo(300, 100));
      await t.rejects(spool.flush(), new RegExp(how), "and a flush says so");
      await clock.pass(10_000);
      t.equal(logged.filter(({ level }) => level === "error").length, 1, "said once");
      await (await spool.take(20, "backlog"))?.ack();
      await (await spool.take(30, "backlog"))?.ack();
      append(spool, upTo(1000, 300));
      t.equal(spool.waiting + spool.dropped, 950);
      t.ok(spool.dropped > 350 && spool.dropped < 500, `the oldest in memory are dropped: ${spool.dropped}`);

      const fresh = await spool.take(5, "fresh");
      t.equal(numbersOf(fresh)[0], 100 + spool.dropped, "what is dropped is not given out");
      fresh?.release();

      disk.room = Infinity;
      disk.fails = null;
      await clock.pass(3000);
      await spool.flush();
      t.equal(logged.at(-1)?.msg, "the disk accepts results again");
      const { dropped } = spool;
      const reopened = await open();
      t.equal(reopened.dropped, dropped);
      const numbers = await takeAll(reopened);
      t.strictSame(numbers, [...upTo(100, 50), ...upTo(1000, 100 + dropped)], "what is missing is what was dropped");
    });
  }
});

t.test("no fsync while the control plane acknowledges", async (t) => {
  let syncs = 0;
  const { open, clock, segments } = place(t, {
    wrap: (files) => ({
      ...files,
      async create(name) {
        const file = await files.create(name);
        return { ...file, sync: () => (syncs++, file.sync()) };
      },
    }),
  });
  const spool = await open();
  for (let i = 0; i < 40; i++) {
    append(spool, [i]);
    await (await spool.take(10, "fresh"))?.ack();
    await clock.pass(100);
    await new Promise((settle) => setTimeout(settle, 2));
  }
  t.equal(syncs, 0, "nothing that is acknowledged is synced");
  t.equal(segments().length, 1);
  append(spool, [99]);
  for (const deadline = performance.now() + 60_000; syncs === 0 && performance.now() < deadline;) {
    await clock.pass(100);
    await new Promise((settle) => setTimeout(settle, 2));
  }
  t.equal(syncs, 1, "what waits is");
});

t.test("one agent per folder", async (t) => {
  const folder = join(t.testdir(), "deep", "spool");
  const file = join(folder, "sm-agent.lock");
  let now = 1_800_000_000_000;
  const release = lockFolder(folder, () => now);
  t.equal(fs.statSync(folder).mode & 0o777, 0o700);
  t.equal(fs.statSync(file).mode & 0o777, 0o600);
  t.throws(
    () => lockFolder(folder, () => now),
    new RegExp(`is used by another sm-agent \\(pid ${process.pid} on .*Stop it, or give this one a folder of its own`),
  );
  const mine = JSON.parse(fs.readFileSync(file, "utf8")) as { pid: number; host: string; began: string };
  release();
  t.notOk(fs.existsSync(file));

  const left = (change: Partial<typeof mine>): void => fs.writeFileSync(file, JSON.stringify({ ...mine, ...change }));
  left({ began: "1" });
  lockFolder(folder, () => now)();
  t.pass("the process id has been given to another process");
  left({ pid: 4_194_303 });
  lockFolder(folder, () => now)();
  t.pass("the process is gone");
  fs.writeFileSync(file, "");
  lockFolder(folder, () => now)();
  t.pass("a lock that says nothing holds nothing");
  left({ host: "another machine" });
  fs.utimesSync(file, now / 1000, now / 1000);
  now += 5000;
  t.throws(() => lockFolder(folder, () => now), /another machine.*wait 10 s/);
  now += 6000;
  lockFolder(folder, () => now)();
  t.pass("one that is not touched any more is taken over");
  fs.writeFileSync(file, "");
  t.throws(() => lockFolder(join(file, "below a file"), () => now), FolderError);
  fs.rmSync(file);
  t.strictSame(fs.readdirSync(folder), [], "nothing is left behind");
});

t.test("queues, ranges and frames", async (t) => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(60), fc.nat(10), fc.boolean())), (steps) => {
      const ranges = new Ranges();
      const model = new Set<number>();
      for (const [from, length, cut] of steps) {
        if (cut && length < 3) {
          ranges.cut(from);
          for (const n of model) if (n < from) model.delete(n);
        } else {
          ranges.add(from, from + length);
          for (let n = from; n < from + length; n++) model.add(n);
        }
        const runs = ranges.runs();
        for (const [at, run] of runs.entries())
          if (run[0] >= run[1] || (at > 0 && run[0] <= runs[at - 1]![1])) return false;
        for (let n = 0; n < 72; n++) if (ranges.has(n) !== model.has(n)) return false;
        if (ranges.countIn(from, from + 20) !== [...model].filter((n) => n >= from && n < from + 20).length)
          return false;
        if (ranges.end !== Math.max(0, ...[...model].map((n) => n + 1))) return false;
      }
      return new Ranges(ranges.runs()).countIn(0, 100) === model.size;
    }),
  );
  const queue = new Queue<number>();
  for (let n = 0; n < 5000; n++) queue.push(n);
  t.strictSame(queue.take(3000), upTo(3000));
  queue.merge([1, 2], (a, b) => a - b);
  queue.merge([0, 3500], (a, b) => a - b);
  t.strictSame([queue.first, queue.last, queue.at(3), queue.size], [0, 4999, 3000, 2004]);
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 2000 }), fc.nat(1e12), (error, slot) => {
      const into = Buffer.alloc(70_000);
      const end = writeResult(into, 5, result(slot, error.toWellFormed()));
      const found = frameAt(into.subarray(0, end), 5);
      if (found.is !== "frame" || found.end !== end || found.kind !== "r") return false;
      return (
        JSON.stringify(decodeResult(into.toString("utf8", found.start, found.end))) ===
        JSON.stringify(result(slot, error.toWellFormed()))
      );
    }),
  );
  const damaged = Buffer.alloc(70_000);
  const end = writeResult(damaged, 0, result(1));
  for (let bit = 0; bit < end * 8; bit++) {
    damaged[bit >> 3]! ^= 1 << (bit & 7);
    if (frameAt(damaged.subarray(0, end), 0).is === "frame") t.fail(`bit ${bit} may be flipped unseen`);
    damaged[bit >> 3]! ^= 1 << (bit & 7);
  }
  const header = encodeHeader({
    base: 5,
    region: "fra",
    state: { done: Array.from({ length: 3000 }, (_, n): [number, number] => [n * 2, n * 2 + 1]), dropped: 3 },
  });
  const read = decodeHeader(header);
  matchObject(t, read, { header: { base: 5, region: "fra", state: { dropped: 3 } } });
  t.equal("header" in read && read.header.state.done.length, 500, "of very many gaps the highest are written down");
});
