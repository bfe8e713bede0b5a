// Started by tap.mjs: runs bundled test files one after the other in this process, so that libraries and the product
// are loaded and compiled once.
import asyncHooks from "node:async_hooks";
import * as fs from "node:fs";
import { createRequire, syncBuiltinESMExports } from "node:module";
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

/*
 * tap builds and formats a tree of objects to compare two values: 13 % of the CPU time of the tests with the largest.
 * It is asked only where this finds a difference.
 */
const { Assertions } = await import(besideTap("@tapjs/asserts"));
for (const [name, holds] of [
  ["same", areSame],
  ["strictSame", areSame],
  ["match", fits],
]) {
  const { [name]: compare } = Assertions.prototype;
  Assertions.prototype[name] = function (found, wanted, ...rest) {
    return holds(found, wanted) ? compare.call(this, true, true, ...rest) : compare.call(this, found, wanted, ...rest);
  };
}

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
  root.setTimeout(0);
  return { ok, text, counts: root.counts, cpuSecs: cpuSecs() - before, rss: process.memoryUsage.rss() };
}

/** The module that tap itself imports by this name. */
function besideTap(name) {
  return createRequire(import.meta.resolve("tap"))
    .resolve(name)
    .replace("/dist/commonjs/", "/dist/esm/");
}

/** True for the same plain data, down to -0 and the prototypes; tap decides about everything else. */
function areSame(a, b) {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  const kind = Object.getPrototypeOf(a);
  if (kind !== Object.getPrototypeOf(b)) return false;
  if (kind === Date.prototype) return a.getTime() === b.getTime();
  if (kind !== Object.prototype && kind !== Array.prototype && kind !== null) return false;
  const keys = Object.keys(a);
  return (
    a.length === b.length &&
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && areSame(a[key], b[key]))
  );
}

/** True for plain data that has what the pattern has, and for texts in which it occurs; tap decides about the rest. */
function fits(found, pattern) {
  if (Object.is(found, pattern)) return true;
  if (typeof found === "string") {
    if (typeof pattern === "string") return pattern !== "" && found.includes(pattern);
    // With one of these flags a test changes the pattern.
    return pattern instanceof RegExp && !pattern.global && !pattern.sticky && pattern.test(found);
  }
  if (typeof found !== "object" || typeof pattern !== "object" || found === null || pattern === null) return false;
  const kind = Object.getPrototypeOf(pattern);
  if (kind !== Object.getPrototypeOf(found) || (kind !== Object.prototype && kind !== Array.prototype)) return false;
  return Object.keys(pattern).every((key) => Object.hasOwn(found, key) && fits(found[key], pattern[key]));
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
