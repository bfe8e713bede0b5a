// Runs compiled test files, several at a time, and shows one line per file and the whole output of failed files.
import { spawn } from "node:child_process";
import * as fs from "node:fs";
import { availableParallelism, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { bundle } from "./bundle.mjs";
import { root } from "./prepare.mjs";

/** Tests that start whole installations: browsers, agents, killed processes. `npm test` leaves them out. */
const slowTiers = ["test/dist/journeys/", "test/dist/faults/"];

/** Tests that need more than this machine, the npm registry: run where they are named. */
const namedTiers = ["test/dist/release/"];

/** Files at a time: most of them wait for timers, sockets and the database for most of their time. */
const concurrency = Number(process.env.SM_TEST_JOBS) || 4 * availableParallelism();

/** For files that hang: the longest takes six minutes beside four others on two cores. */
const fileTimeoutSecs = 600;

/** Bounds how long the event loop is blocked, so it runs at the end, beside short files, one at a time. */
const needsCore = (file) => file.endsWith("conformance/hostile.test.js");

/** Files beside one that needs a core of its own: together they take as long. */
const shortFiles = availableParallelism() > 1 ? 40 : 0;

/** From this number of files on, bundling them takes less CPU time than it saves: one second per file. */
const bundledFrom = 12;

/** Native code of the control plane is found from here. */
const bundleFolder = "packages/control-plane/dist/bundle-of-tests";

/** Room for the files of a run of all tests, bytes: 2 GB at most at a time, and as much again. */
const enough = 4 * 1024 ** 3;

/** Maximum number of failed files that are run again: more have a common reason. */
const mostRepeated = 3;

const cpuTime = new URL("cpu-time.mjs", import.meta.url).href;

const timesFile = join(root, ".build/test-times.json");

/**
 * Every compiled test file, relative to the root; without `all` those of the packages and of the contracts. `named`
 * adds those that only run by name.
 */
export function testFiles({ all, named = false }) {
  const folders = [...fs.readdirSync(join(root, "packages")).map((name) => `packages/${name}/dist`), "test/dist"];
  return folders
    .filter((folder) => fs.existsSync(join(root, folder)))
    .flatMap((folder) => fs.readdirSync(join(root, folder), { recursive: true }).map((file) => `${folder}/${file}`))
    .filter((file) => file.endsWith(".test.js") && !file.startsWith(bundleFolder))
    .filter((file) => all || !slowTiers.some((tier) => file.startsWith(tier)))
    .filter((file) => named || !namedTiers.some((tier) => file.startsWith(tier)));
}

/**
 * Resolves to the exit code and to the numbers of assertions that passed, failed and were skipped. A file that fails is
 * run again, alone, after the others; when it passes then, its first failure does not count, and a line FLAKY names it.
 * `cwd` is the folder that the files are named from.
 */
export async function runTests(files, cwd = root) {
  const programOf = cwd === root && files.length >= bundledFrom ? await bundleTests(files) : (file) => file;
  const browser = await sharedBrowser(files);
  const run = (file) => runFile(file, { program: programOf(file), cwd, env });
  const env = {
    ...process.env,
    TAP: "1",
    TAP_TIMEOUT: String(fileTimeoutSecs),
    TMPDIR: temporaryFolder(),
    ...browser?.env,
  };
  const queue = longestFirst(
    files.filter((file) => !needsCore(file)),
    cwd,
  );
  const last = files.filter(needsCore);
  const short = last.length === 0 ? [] : queue.splice(-shortFiles, shortFiles);
  const results = [];
  const worker = async (from) => {
    for (let file = from.shift(); file !== undefined; file = from.shift()) results.push(await run(file));
  };
  await Promise.all(Array.from({ length: concurrency }, () => worker(queue)));
  await Promise.all([worker(last), worker(short)]);
  const broken = results.filter(({ ok }) => !ok);
  const repeated = broken.length > mostRepeated ? [] : broken;
  for (const first of repeated) {
    console.log(`again  ${first.file}`);
    const again = await run(first.file);
    if (again.ok) console.log(`FLAKY  ${first.file}: failed once, passed when repeated`);
    Object.assign(first, { ok: again.ok, passed: first.passed + again.passed, failed: again.failed });
  }
  await browser?.server.close();
  if (cwd === root) keepTimes(results);
  const sum = (key) => results.reduce((total, result) => total + result[key], 0);
  const code = results.every(({ ok }) => ok) ? 0 : 1;
  return { code, passed: sum("passed"), failed: sum("failed"), skipped: sum("skipped") };
}

/**
 * Where test files put databases and other files, which live for seconds: in memory where Linux has enough of it,
 * because the kernel would write each of them to the disk, on the cores that the tests need.
 */
function temporaryFolder() {
  const memory = "/dev/shm";
  if (process.env.TMPDIR !== undefined || !fs.existsSync(memory)) return tmpdir();
  const { bavail, bsize } = fs.statfsSync(memory);
  return totalmem() > 2 * enough && bavail * bsize > enough ? memory : tmpdir();
}

/** Last line of a test run. */
export const verdict = ({ passed, failed }) => `${passed} passed, ${failed} failed`;

/** Resolves to the function from a test file to its bundle, which starts with a third of the CPU time. */
async function bundleTests(files) {
  const nameOf = (file) => file.replace(/\.js$/, "").replaceAll("/", "_");
  await bundle(Object.fromEntries(files.map((file) => [nameOf(file), file])), bundleFolder, { keptMs: 3_600_000 });
  return (file) => `${bundleFolder}/${nameOf(file)}.js`;
}

/** Runs one file in a process of its own. A file that ends without an assertion, or with a signal, has failed. */
async function runFile(file, { program, cwd, env }) {
  const started = performance.now();
  const child = spawn(process.execPath, ["--import", cpuTime, program], {
    cwd,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const killer = setTimeout(() => child.kill("SIGKILL"), (fileTimeoutSecs + 20) * 1000);
  const output = [];
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => output.push(chunk));
  const exitCode = await new Promise((resolve) => child.on("close", (code) => resolve(code ?? 1)));
  clearTimeout(killer);
  const ms = performance.now() - started;
  const text = Buffer.concat(output).toString();
  const { pass = 0, fail = 0, skip = 0 } = countsOf(text);
  const ok = exitCode === 0 && fail === 0 && pass + skip > 0;
  // Without the passed assertions.
  if (!ok) for (const line of text.split("\n")) if (line.trim() !== "" && !/^\s*ok \d+/.test(line)) console.log(line);
  const cpuSecs = Number(/^# cpu (.*)$/m.exec(text)?.[1] ?? 0);
  console.log(`${ok ? "ok" : "FAILED"}  ${file}  ${(ms / 1000).toFixed(1)} s, cpu ${cpuSecs.toFixed(1)} s`);
  return { file, ms, ok, passed: pass, failed: ok ? 0 : fail || 1, skipped: skip };
}

/** tap's own count of a file's assertions, its last comment: `# { total: 8, pass: 7, skip: 1 }`. */
function countsOf(output) {
  const [, counts = ""] = [...output.matchAll(/^# \{ (total: .*) \}$/gm)].at(-1) ?? [];
  return Object.fromEntries([...counts.matchAll(/(\w+): (\d+)/g)].map(([, key, value]) => [key, Number(value)]));
}

/** The slowest files start first, as measured by the last run on this machine, else by tier and size. */
function longestFirst(files, cwd) {
  const times = fs.existsSync(timesFile) ? JSON.parse(fs.readFileSync(timesFile, "utf8")) : {};
  const guess = (file) =>
    (slowTiers.some((tier) => file.startsWith(tier)) ? 30_000 : 0) + fs.statSync(join(cwd, file)).size / 10;
  const weights = new Map(files.map((file) => [file, times[file] ?? guess(file)]));
  return [...files].sort((a, b) => weights.get(b) - weights.get(a));
}

function keepTimes(results) {
  const times = fs.existsSync(timesFile) ? JSON.parse(fs.readFileSync(timesFile, "utf8")) : {};
  for (const { file, ms, ok } of results) if (ok) times[file] = Math.round(ms);
  fs.writeFileSync(timesFile, JSON.stringify(times));
}

/** One Chromium for all journeys of a run; each opens contexts of its own (test/harness/browser.ts). */
async function sharedBrowser(files) {
  if (files.filter((file) => file.startsWith(slowTiers[0])).length < 2) return null;
  const { findChromium } = await import("../../test/dist/harness/requires.js");
  const executablePath = findChromium();
  if (executablePath === null) return null;
  const args = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"];
  const server = await chromium.launchServer({ executablePath, headless: true, args });
  return { server, env: { SM_TEST_BROWSER: server.wsEndpoint() } };
}
