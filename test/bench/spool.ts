import { closeSync, fdatasyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { newId } from "@statusmesh/shared/ids";
import { correctedClock } from "sm-agent/clock";
import { openDiskSpool } from "sm-agent/spool/disk";
import { folderFiles } from "sm-agent/spool/files";
import { maxFrame, writeResult } from "sm-agent/spool/format";
import { tempFolder } from "../harness/folder.ts";
import { chunked, runOf } from "../harness/results.ts";
import { type Measured, rounded } from "./measure.ts";
import { percentile, withTeardown } from "./scope.ts";

const records = 50_000;
const batchSize = 500;
/** Turns of each: one to warm up, then the measured ones. */
const warmUpTurns = 2;
const turns = 7;
const maxTimes = 2;

/**
 * CPU time of a result in the spool on disk (append, flush, take, acknowledge) as a multiple of writing the same
 * results as lines of JSON with as many fsyncs, in turns. Elapsed times are printed only: they depend on the disk.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const batches = chunked(
      Array.from({ length: records }, (_, n) => runOf(newId(), Date.now() + n)),
      batchSize,
    );
    const frames = batches.map(framed);
    const spool = await openDiskSpool({
      files: folderFiles(tempFolder(t, "spool")),
      clock: correctedClock(),
      log: () => undefined,
      maxBytes: 256_000_000,
    });
    t.teardown(() => spool.close());
    spool.serve("bench");
    const bareFolder = tempFolder(t, "bare");

    const through = async (): Promise<void> => {
      for (const batch of batches) {
        for (const result of batch) spool.append({ result });
        await spool.flush();
        const taken = await spool.take(batchSize, "fresh");
        if (taken?.records.length !== batchSize) throw new Error(`took ${taken?.records.length ?? 0} of ${batchSize}`);
        await taken.ack();
      }
    };
    const bare = (turn: number): void => {
      const file = openSync(join(bareFolder, String(turn)), "wx");
      for (const bytes of frames) {
        writeSync(file, bytes);
        fdatasyncSync(file);
      }
      closeSync(file);
    };
    const lines = (turn: number): void => {
      const file = openSync(join(bareFolder, `${turn}.json`), "wx");
      for (const batch of batches) {
        writeSync(file, batch.map((result) => `${JSON.stringify(result)}\n`).join(""));
        fdatasyncSync(file);
      }
      closeSync(file);
    };
    const own: Cost[] = [];
    const asLines: Cost[] = [];
    const least: Cost[] = [];
    for (let turn = -warmUpTurns; turn < turns; turn++) {
      const one = await costOf(() => bare(turn));
      const another = await costOf(() => lines(turn));
      const other = await costOf(through);
      if (turn < 0) continue;
      least.push(one);
      asLines.push(another);
      own.push(other);
    }
    const middle = (costs: Cost[], of: keyof Cost): number =>
      percentile(
        costs.map((cost) => cost[of]),
        0.5,
      );
    const value = middle(own, "cpu") / middle(asLines, "cpu");
    return {
      name: "spool",
      value: rounded(value),
      unit: "x CPU of lines of JSON",
      limit: maxTimes,
      ratio: rounded(value / maxTimes, 3),
      us_per_record: rounded(middle(own, "wall")),
      bare_us_per_record: rounded(middle(least, "wall")),
      cpu_us_per_record: rounded(middle(own, "cpu")),
      lines_cpu_us_per_record: rounded(middle(asLines, "cpu")),
      bare_cpu_us_per_record: rounded(middle(least, "cpu")),
      bytes_per_record: rounded(frames.reduce((sum, bytes) => sum + bytes.length, 0) / records, 0),
      records_per_sync: batchSize,
      dropped: spool.dropped,
    };
  });
}

/** Microseconds for each record. */
interface Cost {
  cpu: number;
  wall: number;
}

async function costOf(work: () => void | Promise<void>): Promise<Cost> {
  const before = process.cpuUsage();
  const began = performance.now();
  await work();
  const wall = ((performance.now() - began) * 1000) / records;
  const { user, system } = process.cpuUsage(before);
  return { cpu: (user + system) / records, wall };
}

/** The bytes that the spool writes for the results. */
function framed(results: Parameters<typeof writeResult>[2][]): Buffer {
  const into = Buffer.allocUnsafe(results.length * 1000 + maxFrame);
  let end = 0;
  for (const result of results) end = writeResult(into, end, result);
  return Buffer.from(into.subarray(0, end));
}
