// Runs compiled test files, several at a time, and shows one line per file and the whole output of failed files.
import { spawn } from "node:child_process";
import * as fs from "node:fs";
import { createInterface } from "node:readline";
import { availableParallelism, tmpdir, totalmem } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { root } from "./prepare.mjs";

/** Tests that start whole installations: browsers, agents, killed processes. `npm test` leaves them out. */
const slowTiers = ["test/dist/journeys/", "test/dist/faults/"];

/** Short files that make a case of each route. */
const derivedTier = "test/dist/conformance/";

/** Tests that need more than this machine, the npm registry: run where they are named. */
const namedTiers = ["test/dist/release/"];

/** Files at a time: most of them wait for timers, sockets and the database for most of their time. */
const concurrency = Number(process.env.SM_TEST_JOBS) || 4 * availableParallelism();

/** For files that hang: the longest takes six minutes beside four others on two cores. */
const fileTimeoutSecs = 600;

/** Has a process to itself, because it bounds the CPU time of its main thread. */
const isAlone = (file) => file.endsWith("http-expectations.test.js");

/** From this number of files on, bundling them takes less CPU time than it saves. */
const bundledFrom = 12;

/** What a process for bundled files may have in memory after a file, bytes; the next file gets a new process. */
const workerRss = 1024 ** 3;

const workerFlags = ["--max-semi-space-size=32"];

/**
 * V8 optimizes a function after six times the work of its default: most functions of a test run for too short a time to
 * gain what that takes. 13 files of services and routes: 103 s of CPU time, 86 with it.
 */
const lateOptimization = "--interrupt-budget=800000";

/** Native code of the control plane is found from here. */
const bundleFolder = "packages/control-plane/dist/bundle-of-tests";

/** Programs that tests start (test/harness). */
const harnessPrograms = ["packer", "spool-writer"];

/** Room for the files of a run of all tests, bytes: 2 GB at most at a time, and as much again. */
const enough = 4 * 1024 ** 3;

/** Maximum number of failed files that are run again: more have a common reason. */
const mostRepeated = 3;

const cpuTime = new URL("cpu-time.mjs", import.meta.url).href;

const workerProgram = fileURLToPath(new URL("test-worker.mjs", import.meta.url));

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
 * run again, alone, after the others, and its output is that of the second run, whose stacks have the lines of the
 * sources. When it passes then, its first failure does not count, and a line FLAKY names it. `cwd` is the folder that
 * the files are named from. With `name` only tests whose name matches this expression run.
 */
export async function runTests(files, cwd = root, { name } = {}) {
  const programOf = cwd === root && files.length >= bundledFrom ? await bundleTests(files) : null;
  const browser = await sharedBrowser(files);
  const env = {
    ...process.env,
    TAP: "1",
    TAP_TIMEOUT: String(fileTimeoutSecs),
    TMPDIR: temporaryFolder(),
    ...(name === undefined ? {} : { TAP_GREP: name }),
    ...(programOf === null ? {} : { SM_TEST_BUNDLES: join(root, bundleFolder) }),
    ...browser?.env,
  };
  const databaseFailure = await failureOfServer(env.TMPDIR);
  const queue = longestFirst(files, cwd);
  const alone = { run: (file) => runAlone(file, { cwd, env }), end() {} };
  const openRunner = () => (programOf === null ? alone : openWorker(programOf, env));
  const runAll = async (from) => {
    const [done, runner] = [[], openRunner()];
    for (let file = from.shift(); file !== undefined; file = from.shift()) {
      done.push(await shown(file, runner, databaseFailure));
      if (databaseFailure.reason !== null) from.length = 0;
    }
    runner.end();
    return done;
  };
  const results = (await Promise.all(Array.from({ length: concurrency }, () => runAll(queue)))).flat();
  const broken = results.filter(({ ok }) => !ok);
  const repeats = broken.length <= mostRepeated && databaseFailure.reason === null;
  for (const first of broken) {
    if (repeats) {
      console.log(`again  ${first.file}`);
      const again = await shown(first.file, alone, databaseFailure);
      if (again.ok) console.log(`FLAKY  ${first.file}: failed once, passed when repeated`);
      const { ok, failed, text } = again;
      Object.assign(first, { ok, failed, passed: first.passed + again.passed, text: ok ? first.text : text });
    }
    // Without the passed assertions.
    console.log(first.text.replaceAll(/^\s*(?:(?:ok \d.*|# Subtest: .*)?\n)/gm, ""));
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

/** Resolves to the function from a test file to its bundle, which imports `t` from the process that runs it. */
async function bundleTests(files) {
  const nameOf = (file) => file.replace(/\.js$/, "").replaceAll("/", "_");
  const { bundle } = await import("./bundle.mjs");
  const path = relative(join(root, bundleFolder), fileURLToPath(new URL("test-root.mjs", import.meta.url)));
  const programs = harnessPrograms.map((name) => [name, `test/dist/harness/${name}.js`]);
  const entries = Object.fromEntries([...files.map((file) => [nameOf(file), file]), ...programs]);
  await bundle(entries, bundleFolder, { keptMs: 3_600_000, sourcemap: false, instead: { tap: path } });
  return (file) => join(root, bundleFolder, `${nameOf(file)}.js`);
}

/** Watches for a PostgreSQL of the test run that does not start. Its `reason` is shown once, and ends the run. */
async function failureOfServer(parent) {
  const [{ failureFile, testFolderIn }, { recentFailure }] = await Promise.all(
    ["place", "join"].map((name) => import(`../../packages/control-plane/dist/testing/postgres-${name}.js`)),
  );
  const folder = testFolderIn(parent);
  fs.rmSync(failureFile(folder), { force: true });
  return {
    reason: null,
    /** Whether a failed file failed because of it. */
    explains() {
      const first = this.reason === null;
      this.reason ??= recentFailure(folder);
      if (first && this.reason !== null)
        console.log(`FAILED  the PostgreSQL of the test run does not start: ${this.reason}`);
      return this.reason !== null;
    },
  };
}

/** Runs one file by `runner` and shows how it went. A file that ends without an assertion, or early, has failed. */
async function shown(file, runner, databaseFailure) {
  const started = performance.now();
  const { ok: ended, text, counts, cpuSecs } = await runner.run(file);
  const ms = performance.now() - started;
  const { pass = 0, fail = 0, skip = 0 } = counts;
  const ok = ended && fail === 0 && pass + skip > 0;
  if (!ok && databaseFailure.explains()) return { file, ms, ok, passed: pass, failed: 1, skipped: skip, text: "" };
  console.log(`${ok ? "ok" : "FAILED"}  ${file}  ${(ms / 1000).toFixed(1)} s, cpu ${cpuSecs.toFixed(1)} s`);
  return { file, ms, ok, passed: pass, failed: ok ? 0 : fail || 1, skipped: skip, text };
}

/** Runs one file in a process of its own; source maps give its stacks the lines of the sources. */
async function runAlone(file, { cwd, env }) {
  const args = ["--enable-source-maps", "--import", cpuTime, file];
  const child = spawn(process.execPath, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  const killer = setTimeout(() => child.kill("SIGKILL"), (fileTimeoutSecs + 20) * 1000);
  const output = outputOf(child);
  const exitCode = await new Promise((resolve) => child.on("close", (code) => resolve(code ?? 1)));
  clearTimeout(killer);
  const text = output();
  return { ok: exitCode === 0, text, counts: countsOf(text), cpuSecs: Number(/^# cpu (.*)$/m.exec(text)?.[1] ?? 0) };
}

/**
 * Runs bundled files one after the other in one process (test-worker.mjs), and in a new one after a failure.
 */
function openWorker(programOf, env) {
  let child = null;
  const end = () => {
    child?.control.end();
    child = null;
  };
  const start = (file) => {
    const flags = isAlone(file) ? workerFlags : [...workerFlags, lateOptimization];
    const args = [...flags, workerProgram];
    const started = spawn(process.execPath, args, { cwd: root, env, stdio: ["ignore", "pipe", "pipe", "pipe"] });
    const closed = new Promise((resolve) => started.on("close", () => resolve(null)));
    const control = started.stdio[3];
    control.on("error", () => {});
    const lines = createInterface({ input: control })[Symbol.asyncIterator]();
    return { process: started, control, closed, lines, output: outputOf(started) };
  };
  return {
    end,
    async run(file) {
      if (isAlone(file)) end();
      child ??= start(file);
      const { process: running, control, closed, lines, output } = child;
      const killer = setTimeout(() => running.kill("SIGKILL"), (fileTimeoutSecs + 20) * 1000);
      control.write(`${JSON.stringify({ file, program: programOf(file), timeoutMs: fileTimeoutSecs * 1000 })}\n`);
      const { value: line } = (await Promise.race([lines.next(), closed])) ?? {};
      clearTimeout(killer);
      const result = line === undefined ? { ok: false, text: "", counts: {}, cpuSecs: 0 } : JSON.parse(line);
      if (!result.ok || isAlone(file) || result.rss > workerRss) end();
      return { ...result, text: `${result.text}\n${output()}` };
    },
  };
}

/** Returns what the process has written since the last call. */
function outputOf(child) {
  const chunks = [];
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => chunks.push(chunk));
  return () => Buffer.concat(chunks.splice(0)).toString();
}

/** tap's own count of a file's assertions, its last comment: `# { total: 8, pass: 7, skip: 1 }`. */
function countsOf(output) {
  const [, counts = ""] = [...output.matchAll(/^# \{ (total: .*) \}$/gm)].at(-1) ?? [];
  return Object.fromEntries([...counts.matchAll(/(\w+): (\d+)/g)].map(([, key, value]) => [key, Number(value)]));
}

/** The slowest files start first, as measured by the last run on this machine, else by tier and size. */
function longestFirst(files, cwd) {
  const times = fs.existsSync(timesFile) ? JSON.parse(fs.readFileSync(timesFile, "utf8")) : {};
  const guess = (file) => {
    const tier = slowTiers.some((slow) => file.startsWith(slow)) ? 30_000 : file.startsWith(derivedTier) ? 15_000 : 0;
    return tier + fs.statSync(join(cwd, file)).size / 10;
  };
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
  const { chromium } = await import("playwright-core");
  const { findChromium } = await import("../../test/dist/harness/requires.js");
  const executablePath = findChromium();
  if (executablePath === null) return null;
  const args = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"];
  const server = await chromium.launchServer({ executablePath, headless: true, args });
  return { server, env: { SM_TEST_BROWSER: server.wsEndpoint() } };
}
