// Started by tap.mjs: runs bundled test files one after the other in this process, so that libraries and the product
// are loaded and compiled once.
import asyncHooks from "node:async_hooks";
import * as fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setRoot } from "./test-root.mjs";

/*
 * tap follows every promise with hooks to find the test of an exception that nobody catches, at a third of the CPU
 * time. Files run one after the other here, and so do tests, so the exception belongs to the innermost running test.
 */
asyncHooks.createHook = () => ({ enable() {}, disable() {} });
syncBuiltinESMExports();
// The root test of tap itself, which no file uses here, would end the process at its time limit.
process.env["TAP_TIMEOUT"] = "0";
const { Test } = await import("tap");

let root;

process.on("uncaughtException", (error) => {
  let test = root;
  for (let inner = test; inner !== undefined; inner = [...inner.activeSubtests].at(-1)) test = inner;
  test.threw(error);
});

const [cwd, env] = [process.cwd(), { ...process.env }];
const control = new Socket({ fd: 3 });
for await (const line of createInterface({ input: control })) {
  control.write(`${JSON.stringify(await run(JSON.parse(line)))}\n`);
  process.chdir(cwd);
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
  Object.assign(process.env, env);
}
process.exit();

/** Runs a file. Returns its output as TAP, its counts and the CPU seconds of this process and of ended children. */
async function run({ file, program, timeoutMs }) {
  const before = cpuSecs();
  root = new Test({
    name: file,
    timeout: timeoutMs,
    testdir: join(cwd, ".tap/fixtures", file.replaceAll(/[^\w.-]+/g, "-")),
  });
  setRoot(root);
  let text = "";
  root.on("data", (chunk) => (text += chunk));
  const complete = new Promise((resolve) => root.on("complete", resolve));
  root.runMain(() => {});
  try {
    await import(program);
  } catch (error) {
    root.threw(error);
  }
  root.end();
  const { ok } = await complete;
  return { ok, text, counts: root.counts, cpuSecs: cpuSecs() - before, rss: process.memoryUsage.rss() };
}

/** Of this process and, on Linux, of its ended children, with theirs: cutime and cstime of proc(5), ticks of 10 ms. */
function cpuSecs() {
  const { user, system } = process.cpuUsage();
  let children = 0;
  try {
    const stat = fs.readFileSync("/proc/self/stat", "utf8");
    const [own, kernel] = stat
      .slice(stat.lastIndexOf(")") + 2)
      .split(" ")
      .slice(13, 15);
    children = (Number(own) + Number(kernel)) / 100;
  } catch {}
  return (user + system) / 1e6 + children;
}
