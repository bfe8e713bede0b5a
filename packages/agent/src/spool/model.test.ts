import * as fs from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import t from "tap";
import type { AgentResult } from "@statusmesh/shared/protocol/agent-protocol";
import type { Batch, Lane } from "./spool.ts";
import { FakeClock, mortalFiles } from "../testing.ts";
import { type DiskSpool, openDiskSpool } from "./disk.ts";

/*
 * The spool against a list, over any course of events: results are appended, taken, acknowledged and given back; the
 * process is killed, the machine loses its power (what was not synced is gone, in whole or in part).
 */

const steps = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.record({ do: fc.constant("append" as const), count: fc.integer({ min: 1, max: 60 }) }) },
    {
      weight: 5,
      arbitrary: fc.record({
        do: fc.constant("take" as const),
        lane: fc.constantFrom<Lane>("fresh", "backlog"),
        max: fc.integer({ min: 1, max: 40 }),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constantFrom("ack" as const, "ack" as const, "release" as const),
        which: fc.nat(5),
      }),
    },
    { weight: 3, arbitrary: fc.record({ do: fc.constant("flush" as const) }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant("pass" as const), ms: fc.integer({ min: 10, max: 1500 }) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("kill" as const) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("power" as const), bytes: fc.nat(3000) }) },
  ),
  { maxLength: 80 },
);
type Step = typeof steps extends fc.Arbitrary<(infer T)[]> ? T : never;

const result = (n: number): AgentResult => ({
  target_id: "00000000-0000-7000-8000-000000000001",
  scheduled_at: n,
  timestamp: n,
  skip: false,
  status: "up",
  error: null,
  http_status: 200,
  response_size: 512,
  dns_ms: 0.2,
  connect_ms: 0.4,
  tls_ms: null,
  ttfb_ms: 12.5,
  total_ms: 13.2,
});

class Course {
  readonly folder: string;
  readonly maxBytes: number;
  readonly clock = new FakeClock();
  spool!: DiskSpool;
  kill: () => Promise<void> = () => Promise.resolve();
  next = 0;
  /** Everything below was flushed in its time. */
  confirmed = 0;
  /** Appended but not flushed when the process ended. */
  readonly perhapsLost = new Set<number>();
  readonly acked = new Set<number>();
  /** Acknowledged, and flushed since: what was acknowledged shortly before the end of a process may come again. */
  readonly over = new Set<number>();
  /** Acknowledged in this process. */
  readonly ackedHere = new Set<number>();
  held: { numbers: number[]; batch: Batch }[] = [];
  /** What was in somebody's hands when the process ended: it is not counted if its segment was dropped meanwhile. */
  readonly heldAtEnd = new Set<number>();
  /** Sizes of the files at the last flush: this much survives a power failure. */
  sizes = new Map<string, number>();

  constructor(folder: string, maxBytes: number) {
    this.folder = folder;
    this.maxBytes = maxBytes;
  }

  async open(): Promise<void> {
    const { files, kill } = mortalFiles(this.folder);
    this.kill = kill;
    this.spool = await openDiskSpool({
      files,
      clock: this.clock,
      log: () => undefined,
      maxBytes: this.maxBytes,
      window: 15,
    });
    this.spool.serve("fra");
  }

  segments(): string[] {
    return fs.readdirSync(this.folder).sort();
  }

  async flush(): Promise<void> {
    await this.spool.flush();
    this.confirmed = this.next;
    for (const n of this.ackedHere) this.over.add(n);
    this.sizes = new Map(this.segments().map((name) => [name, fs.statSync(join(this.folder, name)).size]));
  }

  async end(lostBytes: number): Promise<void> {
    await this.kill();
    const last = this.segments().at(-1);
    if (last !== undefined && lostBytes > 0) {
      const file = join(this.folder, last);
      fs.truncateSync(file, Math.max(this.sizes.get(last) ?? 0, fs.statSync(file).size - lostBytes));
    }
    for (let n = this.confirmed; n < this.next; n++) this.perhapsLost.add(n);
    for (const { numbers } of this.held) for (const n of numbers) this.heldAtEnd.add(n);
    this.held = [];
    this.ackedHere.clear();
    this.confirmed = this.next;
    await this.open();
  }

  async do(step: Step): Promise<void> {
    switch (step.do) {
      case "append":
        for (let n = 0; n < step.count; n++) this.spool.append({ result: result(this.next++) });
        return;
      case "take": {
        const batch = await this.spool.take(step.max, step.lane);
        if (batch !== null) this.held.push({ numbers: this.checked(batch, step.max), batch });
        return;
      }
      case "ack":
      case "release": {
        const [one] = this.held.splice(step.which % Math.max(1, this.held.length), 1);
        if (one === undefined) return;
        if (step.do === "release") return one.batch.release();
        await one.batch.ack();
        for (const n of one.numbers) {
          this.acked.add(n);
          this.ackedHere.add(n);
        }
        return;
      }
      case "flush":
        return await this.flush();
      case "pass":
        return await this.clock.pass(step.ms);
      case "kill":
        return await this.end(0);
      case "power":
        return await this.end(step.bytes);
    }
  }

  checked(batch: Batch, max: number): number[] {
    const numbers = batch.records.map((record) => ("result" in record ? record.result.scheduled_at : -1));
    must(numbers.length <= max, "more than asked for");
    must(
      numbers.every((n, at) => at === 0 || n > numbers[at - 1]!),
      `out of order: ${numbers.join()}`,
    );
    const held = new Set(this.held.flatMap((one) => one.numbers));
    for (const n of numbers) {
      must(!held.has(n), `${n} is in somebody's hands`);
      must(!this.over.has(n) && !this.ackedHere.has(n), `${n} was acknowledged`);
    }
    return numbers;
  }

  /** What is there in the end, after one more restart. */
  async rest(): Promise<number[]> {
    for (const one of this.held) one.batch.release();
    this.held = [];
    await this.flush();
    const { waiting, dropped } = this.spool;
    await this.end(0);
    must(this.spool.waiting === waiting, `${waiting} waited, ${this.spool.waiting} after a restart`);
    must(this.spool.dropped === dropped, `${dropped} were dropped, ${this.spool.dropped} after a restart`);
    const left: number[] = [];
    for (const lane of ["backlog", "fresh"] as const) {
      for (let batch = await this.spool.take(37, lane); batch !== null; batch = await this.spool.take(37, lane)) {
        left.push(...this.checked(batch, 37));
        await batch.ack();
      }
    }
    must(left.length === waiting, `${waiting} were said to wait, ${left.length} came`);
    must(new Set(left).size === left.length, "something came twice");
    must(this.spool.waiting === 0 && this.spool.backlog === 0, "something still waits");
    return left;
  }
}

function must(holds: boolean, otherwise: string): void {
  if (!holds) throw new Error(otherwise);
}

async function check(folder: string, list: readonly Step[], maxBytes: number): Promise<void> {
  for (const name of fs.readdirSync(folder)) fs.rmSync(join(folder, name));
  const course = new Course(folder, maxBytes);
  await course.open();
  for (const step of list) await course.do(step);
  const left = new Set(await course.rest());
  const missing: number[] = [];
  let perhaps = 0;
  for (let n = 0; n < course.next; n++) {
    if (left.has(n) || course.acked.has(n)) continue;
    if (course.perhapsLost.has(n) || course.heldAtEnd.has(n)) perhaps++;
    else missing.push(n);
  }
  const { dropped } = course.spool;
  await course.kill();
  must(
    missing.length <= dropped && dropped <= missing.length + perhaps,
    `${missing.length} are missing, ${perhaps} may be, ${dropped} are said to be dropped`,
  );
  must(
    missing.every((n) => [...left].every((other) => n < other)),
    "what was dropped was not the oldest",
  );
}

t.test("no flushed result is lost, no acknowledged result is sent again, every result is counted", async (t) => {
  const folder = t.testdir();
  await fc.assert(
    fc.asyncProperty(steps, (list) => check(folder, list, 64_000_000)),
    { numRuns: 60 },
  );
  t.pass("where there is room");
  await fc.assert(
    fc.asyncProperty(steps, (list) => check(folder, list, 64_000)),
    { numRuns: 60 },
  );
  t.pass("where the oldest are dropped");
});
