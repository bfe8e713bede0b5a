import { setTimeout as sleep } from "node:timers/promises";
import { connectApi } from "sm-agent/protocol/api";
import { correctedClock } from "sm-agent/clock";
import { Reporter } from "sm-agent/protocol/report";
import { openDiskSpool } from "sm-agent/spool/disk";
import { folderFiles } from "sm-agent/spool/files";
import { lockFolder } from "sm-agent/spool/lock";
import { Stats } from "sm-agent/telemetry/stats";
import { runOf, slotIn } from "./results.ts";

/*
 * The part of an agent after the probe, as a process to be killed: it appends results to a spool and reports them. It
 * prints the last slot that a flush has confirmed ("confirmed 1234"). Slots are numbered in intervals of 10 s since the
 * epoch. Arguments: folder, URL, token, target ids with commas, first slot, number of slots. At the end it reports
 * until nothing waits, and prints the count ("reported 123 dropped 0").
 */
const [folder = "", url = "", token = "", targets = "", from = "", count = ""] = process.argv.slice(2);
const clock = correctedClock();
const log = (level: string, msg: string, fields?: object): void =>
  void process.stdout.write(`${JSON.stringify({ level, msg, ...fields })}\n`);
const stats = new Stats();
const release = lockFolder(folder, Date.now);
const spool = await openDiskSpool({ files: folderFiles(folder), clock, log, maxBytes: 64_000_000, window: 100 });
const api = connectApi(url, token, "StatusMesh/0");
const reporter = new Reporter({ api, spool, clock, log, stats });
reporter.serve("default");

const end = Number(from) + Number(count);
for (let slot = Number(from); slot < end; slot++) {
  for (const id of targets.split(","))
    reporter.add({ result: runOf(id, slotIn(id, "default", 10_000, slot * 10_000)) });
  if (slot % 5 !== 0) continue;
  await spool.flush();
  process.stdout.write(`confirmed ${slot}\n`);
  await sleep(5);
}
await reporter.drain(60_000);
await spool.close();
release();
process.stdout.write(`reported ${stats.reported} dropped ${spool.dropped} waiting ${spool.waiting}\n`);
process.exit(0);
