import { type ChildProcess, spawn } from "node:child_process";
import * as fs from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { freePort } from "@statusmesh/control-plane/testing/ports";
import { cloneDatabase } from "./database.ts";
import { type Teardown, tempFolder } from "./folder.ts";
import { reap, spare } from "./reaper.ts";
import { Hopeless, waitFor } from "./wait.ts";

export { freePort };

const require = createRequire(import.meta.url);
const controlPlaneProgram = require.resolve("@statusmesh/control-plane/main");
const agentProgram = require.resolve("sm-agent/cli");

/** A program beside this file; its bundle, which starts with less CPU time, where the run has made bundles. */
export function harnessProgram(name: string): string {
  const bundles = process.env["SM_TEST_BUNDLES"];
  return bundles === undefined ? fileURLToPath(new URL(`${name}.js`, import.meta.url)) : join(bundles, `${name}.js`);
}

/** Generous, because a loaded machine is slow. */
const stopMs = 90_000;

/** How a process ended: its exit code, or the signal. */
export type Ending = number | NodeJS.Signals;

/** A running program and its output. */
export interface Program {
  readonly pid: number;
  /** Lines of its log (standard output) so far. */
  readonly log: readonly string[];
  /** Standard error so far. */
  readonly complaints: () => string;
  readonly ended: Promise<Ending>;
  /** Sends a signal and waits for the end. */
  stop(signal?: NodeJS.Signals): Promise<Ending>;
}

/** Starts a compiled program. It is killed when the test ends, however the test ends. */
export function startProgram(
  t: Teardown,
  program: string,
  args: readonly string[],
  options: { cwd: string; env: Record<string, string | undefined>; nodeArgs?: readonly string[] },
): Program {
  const child: ChildProcess = spawn(process.execPath, [...(options.nodeArgs ?? []), program, ...args], {
    cwd: options.cwd,
    env: { PATH: process.env["PATH"], TMPDIR: process.env["TMPDIR"], ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const { pid } = child;
  if (pid === undefined) throw new Error(`${program} cannot be started`);
  reap(pid);
  const log: string[] = [];
  let complaints = "";
  createInterface({ input: child.stdout! }).on("line", (line) => log.push(line));
  child.stderr!.setEncoding("utf8").on("data", (text: string) => (complaints += text));
  const ended = new Promise<Ending>((settle) => {
    child.once("close", (code, signal) => {
      spare(pid);
      settle(code ?? signal ?? -1);
    });
  });
  const stop = async (signal: NodeJS.Signals = "SIGTERM"): Promise<Ending> => {
    child.kill(signal);
    const late = new AbortController();
    const ending = await Promise.race([ended, sleep(stopMs, null, { signal: late.signal }).catch(() => null)]);
    late.abort();
    if (ending !== null) return ending;
    child.kill("SIGKILL");
    throw new Error(
      `${program} did not end within ${stopMs / 1000} s of ${signal}:\n${log.slice(-20).join("\n")}\n${complaints}`,
    );
  };
  t.teardown(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
    await ended;
  });
  return { pid, log, complaints: () => complaints, ended, stop };
}

export interface ControlPlaneOptions {
  /**
   * Working and data folder, with the embedded database in it. By default a new folder and, unless `env` names one, a
   * new database of the test run: an embedded one takes seconds of CPU time to make.
   */
  folder?: string;
  port?: number;
  /**
   * Additional environment. By default private targets are allowed, and the environment of the caller is not
   * inherited.
   */
  env?: Record<string, string | undefined>;
  /** File with a certificate to trust, for sinks. */
  caFile?: string;
  args?: readonly string[];
  /** Options of Node itself, to profile. */
  nodeArgs?: readonly string[];
}

export interface ControlPlane extends Program {
  readonly url: string;
  readonly folder: string;
  /** The one-time link that it printed, at {@link url} in place of localhost; null when it printed none. */
  readonly signInLink: string | null;
}

/** Starts a control plane without waiting for it, for starts that are meant to fail. */
export async function spawnControlPlane(
  t: Teardown,
  options: ControlPlaneOptions = {},
): Promise<Program & { port: number; folder: string }> {
  const folder = options.folder ?? tempFolder(t, "cp");
  const isOnItsOwn = options.folder !== undefined || options.env?.["SM_DATABASE__URL"] !== undefined;
  const database = isOnItsOwn ? {} : (await cloneDatabase(t)).env;
  const port = options.port ?? (await freePort());
  // Before the program, so that it is undone after it: the program would start its database again.
  t.teardown(() => endPostmaster(folder));
  const env = {
    SM_SERVER__BIND: `127.0.0.1:${port}`,
    SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
    // A test that waits for the status page requests it more often than the limit for visitors.
    SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: "0",
    NODE_EXTRA_CA_CERTS: options.caFile,
    ...database,
    ...options.env,
  };
  return {
    ...startProgram(t, controlPlaneProgram, options.args ?? [], { cwd: folder, env, nodeArgs: options.nodeArgs ?? [] }),
    port,
    folder,
  };
}

/** Starts a control plane and waits until it answers. */
export async function startControlPlane(t: Teardown, options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const started = await spawnControlPlane(t, options);
  const url = `http://127.0.0.1:${started.port}`;
  let ended: Ending | null = null;
  void started.ended.then((ending) => (ended = ending));
  await waitFor("the control plane to be ready", async () => {
    if (ended !== null) throw new Hopeless(`the control plane ended with ${ended}: ${started.complaints()}`);
    // The welcome text, with the sign-in link, is printed after the port answers.
    return /is ready:/.test(started.complaints()) && (await fetch(`${url}/readyz`)).ok;
  });
  const printed = /http:\/\/\S+\/sign-in\/\S+/.exec(started.complaints())?.[0] ?? null;
  // Passkeys work at localhost, and most tests open the address.
  const signInLink = printed?.replace(`http://localhost:${started.port}`, url) ?? null;
  const embedded = postmasterOf(started.folder);
  if (embedded !== null) reap(embedded);
  return { ...started, url, signInLink };
}

/** The process id of the embedded PostgreSQL in a data folder; null when none has written its file. */
export function postmasterOf(folder: string): number | null {
  try {
    const file = fs.readFileSync(join(folder, "data", "postgres", "postmaster.pid"), "utf8");
    // A server that starts creates the file empty. A signal to process 0 would end this process and the test runner.
    return Number(file.split("\n", 1)[0]) || null;
  } catch {
    return null;
  }
}

/** True while a process with this id exists and is no zombie. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return process.platform !== "linux" || !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

/** A killed control plane leaves its database running for the next one; after the test there is none. */
async function endPostmaster(folder: string): Promise<void> {
  const pid = postmasterOf(folder);
  if (pid === null) return;
  if (isAlive(pid)) process.kill(pid, "SIGQUIT");
  await waitFor("the embedded PostgreSQL to end", () => !isAlive(pid));
  spare(pid);
}

/** Environment of a program with a wrong clock or without a network; see `reality.ts`. */
export function inReality(reality: {
  SM_TEST_CLOCK_MS?: string;
  SM_TEST_STEP_MS?: string;
  SM_TEST_UNPLUGGED?: string;
}): Record<string, string> {
  return { NODE_OPTIONS: `--import=${new URL("reality.js", import.meta.url).href}`, ...reality };
}

/** Starts a real `sm-agent` that serves `token`'s region. */
export function startAgent(
  t: Teardown,
  options: { url: string; token: string; folder: string; env?: Record<string, string> },
): Program {
  const file = join(options.folder, "agent-token.txt");
  fs.writeFileSync(file, `${options.token}\n`, { mode: 0o600 });
  return startProgram(t, agentProgram, ["run", "--url", options.url, "--token-file", file, "--allow-private-targets"], {
    cwd: options.folder,
    env: options.env ?? {},
  });
}
