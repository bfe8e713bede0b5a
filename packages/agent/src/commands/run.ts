import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Command } from "commander";
import { isLoopback } from "@statusmesh/shared/net/address";
import type { MetricsPort } from "@statusmesh/shared/net/metrics-port";
import type { Commands } from "../probes/exec/commands.ts";
import { codeOrMessage, messageOf } from "@statusmesh/shared/thrown";
import { type Clock, correctedClock } from "../clock.ts";
import { exits, fail } from "../shell/output.ts";
import { jsonLog, type Log } from "../telemetry/log.ts";
import type { AgentMetrics } from "../telemetry/metrics.ts";
import * as options from "../shell/options.ts";
import type { Spool } from "../spool/spool.ts";
import { FolderError, lockFolder } from "../spool/lock.ts";
import { version } from "../version.ts";

/** Patience for the lock of a predecessor that is just ending, ms. */
const patienceMs = 10_000;

interface RunOptions extends options.OfRun {
  heartbeats?: { host: string; port: number };
}

export function define(command: Command): void {
  for (const option of options.ofRun()) command.addOption(option);
  command
    .description("Run until stopped. The token comes from a file or from SM_AGENT_TOKEN, never from the command line.")
    .addOption(options.heartbeats())
    .action(run);
}

async function run(given: RunOptions, command: Command): Promise<void> {
  const token = options.readToken(command, given.tokenFile);
  const inTheClear = options.tokenInTheClear(given.url);
  if (inTheClear !== null && !given.insecureHttp) fail(command, exits.usage, inTheClear);
  // A closed log is no reason to stop.
  process.stdout.on("error", () => undefined);
  const log = jsonLog((line) => process.stdout.write(line), Date.now);
  const clock = correctedClock();
  await options.trustFile(command, given.caFile);
  const commands = await openCommands(given, command);
  const metrics = await openMetrics(given, command, log);
  const { spool, release } = await openSpool(given, command, clock, log).catch(async (error: unknown) => {
    await metrics?.port.stop();
    throw error;
  });
  const pings = await openPings(given, command, clock, log).catch(async (error: unknown) => {
    await metrics?.port.stop();
    release();
    throw error;
  });
  const url = new URL(given.url);
  if (inTheClear !== null) log("warn", "the token is sent unencrypted: the control plane's URL is not https");
  log("info", "sm-agent starts", {
    version,
    control_plane: url.origin,
    allow_private_targets: given.allowPrivateTargets,
    spool: given.spoolDir ?? "memory",
    pid: process.pid,
  });
  // Dead sockets survive two scavenges and accumulate in the old generation, 3 MB/s at 1,000 checks/s. Collecting at a
  // third instead of fourfold growth keeps the agent at 140 MB instead of 190, for 1 % more CPU.
  setFlagsFromString("--heap-growing-percent=30");
  // Loaded here: --version, --help and usage errors are three times as fast without it.
  const { startAgent } = await import("../agent.ts");
  const agent = startAgent({
    url: given.url,
    token,
    newToken: () => options.tokenNow(given.tokenFile),
    version,
    allowPrivateTargets: given.allowPrivateTargets,
    stateDir: spoolFolderOf(given),
    rdapBootstrapUrl: given.rdapBootstrapUrl,
    canaries: given.canaries,
    statsMs: given.statsSecs * 1000,
    spoolBytes: spoolFolderOf(given) === null ? null : await folderSize(spoolFolderOf(given)!),
    maxConcurrency: given.maxConcurrency,
    memory:
      given.maxMemoryMb === undefined
        ? null
        : {
            limitBytes: given.maxMemoryMb * 1_000_000,
            collect: garbageCollector(),
            hopeless: () => stop("out of memory", exits.again),
          },
    metrics: metrics?.metrics ?? null,
    commands: commands.now,
    docker: given.docker ?? null,
    pings,
    clock,
    spool,
    log,
  });
  const stop = stopOnRequest(log, async () => {
    await pings?.listener.close();
    await agent.stop().finally(release);
    await metrics?.port.stop();
  });
  const { commands: file } = given;
  if (file !== undefined)
    process.on("SIGHUP", () => {
      try {
        commands.read();
        log("info", "read the file of commands", { file });
        agent.commandsChanged();
      } catch (error) {
        // It decides what this account runs: the agent does not go on with a part of it, or with an old one.
        log("error", `the file of commands is refused: ${messageOf(error)}`);
        stop("the file of commands is refused", exits.config);
      }
    });
  // A reload of the service would end it otherwise; a terminal that closes does.
  else if (!process.stdout.isTTY) process.on("SIGHUP", () => log("info", "there is no file of commands to read again"));
}

/** The commands of the configured file, read now and again by `read`; null without one. */
async function openCommands(
  { commands: file }: RunOptions,
  command: Command,
): Promise<{ now: () => Commands | null; read: () => void }> {
  if (file === undefined) return { now: () => null, read: () => undefined };
  let commands = await options.readCommands(command, file);
  const { readCommands } = await import("../probes/exec/commands.ts");
  return { now: () => commands, read: () => void (commands = readCommands(file)) };
}

/** The configured spool and its release function. */
async function openSpool(
  given: RunOptions,
  command: Command,
  clock: Clock,
  log: Log,
): Promise<{ spool: Spool; release: () => void }> {
  const folder = spoolFolderOf(given);
  if (folder === null) {
    log("info", "results wait in memory; with --spool-dir they would survive a restart");
    const { MemorySpool } = await import("../spool/spool.ts");
    return { spool: new MemorySpool(), release: () => undefined };
  }
  try {
    const release = await takeFolder(folder, process.env["SM_AGENT_PARENT"] === "stdin" ? patienceMs : 0);
    const [{ openDiskSpool }, { folderFiles }] = await Promise.all([
      import("../spool/disk.ts"),
      import("../spool/files.ts"),
    ]);
    const files = folderFiles(folder);
    return { spool: await openDiskSpool({ files, clock, log, maxBytes: given.spoolMaxMb * 1_000_000 }), release };
  } catch (error) {
    if (!(error instanceof FolderError)) throw error;
    return fail(command, exits.config, error.message);
  }
}

/** Where jobs report to this agent; null, with nothing loaded, when it takes no pings. */
async function openPings(given: RunOptions, command: Command, clock: Clock, log: Log) {
  const { heartbeats: bind } = given;
  if (bind === undefined) return null;
  const folder = spoolFolderOf(given);
  if (folder === null)
    return fail(command, exits.usage, "--heartbeats needs --spool-dir: a ping is answered once it is on the disk.");
  const [{ PingJournal }, { KnownAddresses }, { openPingListener }, { folderFiles }] = await Promise.all([
    import("../pings/journal.ts"),
    import("../pings/known.ts"),
    import("../pings/listener.ts"),
    import("../spool/files.ts"),
  ]);
  const maxBytes = given.spoolMaxMb * 1_000_000;
  const journal = await PingJournal.open({ files: folderFiles(folder), maxBytes, log });
  const known = new KnownAddresses();
  try {
    const listener = await openPingListener({ bind, journal, known, clock, log });
    log("info", "jobs can report to this agent", { url: `${listener.url}/hb/` });
    if (!isLoopback(bind.host))
      log("warn", "pings are taken on an address that is not loopback, unencrypted: use it in a private network only");
    return { journal, known, listener };
  } catch (error) {
    const reason = codeOrMessage(error);
    return fail(command, exits.config, `--heartbeats ${bind.host}:${bind.port} cannot be listened on (${reason}).`);
  }
}

async function takeFolder(folder: string, patience: number): Promise<() => void> {
  for (const until = performance.now() + patience; ; await sleep(100)) {
    try {
      return lockFolder(folder, Date.now);
    } catch (error) {
      if (performance.now() >= until) throw error;
    }
  }
}

const spoolFolderOf = ({ spoolDir }: RunOptions): string | null =>
  spoolDir === undefined || spoolDir === "" ? null : spoolDir;

/** Size of the spool folder, bytes. */
async function folderSize(folder: string): Promise<() => Promise<number>> {
  const [{ folderFiles }, { isSegmentName }] = await Promise.all([
    import("../spool/files.ts"),
    import("../spool/format.ts"),
  ]);
  const files = folderFiles(folder);
  return async () => {
    // Removed meanwhile.
    const sizes = (await files.list()).filter(isSegmentName).map((name) => files.size(name).catch(() => 0));
    return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
  };
}

/** The metrics port; null, with nothing loaded, when it is off. */
async function openMetrics(
  { metricsBind }: RunOptions,
  command: Command,
  log: Log,
): Promise<{ metrics: AgentMetrics; port: MetricsPort } | null> {
  if (metricsBind === undefined) return null;
  const [{ AgentMetrics }, { expositionType, openMetricsPort }] = await Promise.all([
    import("../telemetry/metrics.ts"),
    import("@statusmesh/shared/net/metrics-port"),
  ]);
  const metrics = new AgentMetrics();
  try {
    const port = await openMetricsPort(metricsBind, {
      "/metrics": async () => ({ type: expositionType, text: await metrics.text() }),
      // Liveness only: an agent without a control plane is useful, and a restart would not help.
      "/healthz": () => ({ type: "application/json; charset=utf-8", text: '{"status":"ok"}\n' }),
    });
    log("info", "metrics can be read", { url: `${port.url}/metrics` });
    if (!isLoopback(metricsBind.host))
      log(
        "warn",
        "the metrics port is not on a loopback address and has no authentication: let only your monitoring reach it",
      );
    return { metrics, port };
  } catch (error) {
    return fail(
      command,
      exits.config,
      `--metrics-bind ${metricsBind.host}:${metricsBind.port} cannot be listened on (${codeOrMessage(error)}).`,
    );
  }
}

/** Equivalent to `--expose-gc`, without the flag. */
function garbageCollector(): () => void {
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc") as () => void;
}

/**
 * Stops on signals of a terminal or supervisor, and, on request of the parent, when stdin closes. Returns a function
 * that stops for another reason.
 */
function stopOnRequest(log: Log, stop: () => Promise<void>): (why: string, code: number) => void {
  let stopping = false;
  const request = (why: string, code = 0): void => {
    if (stopping) return;
    stopping = true;
    log("info", "sm-agent stops", { why });
    void stop().then(() => process.exit(code));
  };
  process.on("SIGTERM", () => request("SIGTERM"));
  process.on("SIGINT", () => request("SIGINT"));
  if (process.env["SM_AGENT_PARENT"] !== "stdin") return request;
  for (const event of ["error", "close", "end"])
    process.stdin.on(event, () => request("the parent process has exited"));
  process.stdin.resume();
  return request;
}
