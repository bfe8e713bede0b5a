import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { type Command, Option } from "commander";
import { type Clock, correctedClock } from "../clock.ts";
import { exits, fail } from "../exit.ts";
import { jsonLog, type Log } from "../log.ts";
import type { Place } from "../network.ts";
import * as options from "../options.ts";
import type { Spool } from "../spool.ts";
import { FolderError, lockFolder } from "../spool/lock.ts";
import { version } from "../version.ts";

/** Who is started again by a parent may meet the one before him, which is just ending. */
const patienceMs = 10_000;

interface RunOptions {
  url: string;
  tokenFile?: string;
  spoolDir?: string;
  spoolMaxMb: number;
  allowPrivateTargets: boolean;
  canaries: readonly Place[];
  statsSecs: number;
  rdapBootstrapUrl?: string;
}

export function define(command: Command): void {
  command
    .description("Run until stopped. The token comes from a file or from SM_AGENT_TOKEN, never from the command line.")
    .addOption(options.controlPlane())
    .addOption(options.tokenFile())
    .addOption(options.spoolDir("folder for results that wait to be reported; without one they wait in memory"))
    .addOption(
      new Option("--spool-max-mb <MB>", "how large that folder may grow; then the oldest results are dropped")
        .env("SM_AGENT_SPOOL_MAX_MB")
        .argParser(options.wholeNumber(1_000_000))
        .default(256),
    )
    .addOption(options.allowPrivateTargets())
    .addOption(options.rdapBootstrapUrl())
    .addOption(
      new Option("--canaries <host:port,...>", "places that always answer, such as the router: when they are silent too, it is the agent's own network that is down")
        .env("SM_AGENT_CANARIES")
        .argParser(options.places)
        .default([], "the control plane and the targets that answer best"),
    )
    .addOption(new Option("--stats-secs <seconds>", "how often to log the agent's own numbers").env("SM_AGENT_STATS_SECS").argParser(options.wholeNumber(86_400)).default(60))
    .action(run);
}

async function run(given: RunOptions, command: Command): Promise<void> {
  const token = options.readToken(command, given.tokenFile);
  // A log that nobody reads any more is no reason to stop.
  process.stdout.on("error", () => undefined);
  const log = jsonLog((line) => process.stdout.write(line), Date.now);
  const clock = correctedClock();
  const { spool, release } = await openSpool(given, command, clock, log);
  const url = new URL(given.url);
  if (url.protocol === "http:" && !/^(localhost|127\..*|\[::1\])$/.test(url.hostname)) log("warn", "the token travels unencrypted: the control plane's URL is not https");
  log("info", "sm-agent starts", { version, control_plane: url.origin, allow_private_targets: given.allowPrivateTargets, spool: given.spoolDir ?? "memory", pid: process.pid });
  // Dead sockets outlive two scavenges and pile up as old garbage, 3 MB a second at 1,000 checks a second. Collected when
  // the heap has grown by a third instead of fourfold, the agent keeps to 140 MB where it took 190, for 1 % more CPU.
  setFlagsFromString("--heap-growing-percent=30");
  // Loaded only here: --version, --help and wrong usage answer three times as fast without it.
  const { startAgent } = await import("../agent.ts");
  const agent = startAgent({
    url: given.url,
    token,
    version,
    allowPrivateTargets: given.allowPrivateTargets,
    stateDir: given.spoolDir === undefined || given.spoolDir === "" ? null : given.spoolDir,
    rdapBootstrapUrl: given.rdapBootstrapUrl,
    canaries: given.canaries,
    statsMs: given.statsSecs * 1000,
    clock,
    spool,
    log,
  });
  stopOnRequest(log, () => agent.stop().finally(release));
}

/** The spool that the options ask for, and what gives its folder back. */
async function openSpool(given: RunOptions, command: Command, clock: Clock, log: Log): Promise<{ spool: Spool; release: () => void }> {
  if (given.spoolDir === undefined || given.spoolDir === "") {
    log("info", "results wait in memory; with --spool-dir they would survive a restart");
    const { MemorySpool } = await import("../spool.ts");
    return { spool: new MemorySpool(), release: () => undefined };
  }
  try {
    const release = await takeFolder(given.spoolDir, process.env["SM_AGENT_PARENT"] === "stdin" ? patienceMs : 0);
    const [{ openDiskSpool }, { folderFiles }] = await Promise.all([import("../spool/disk.ts"), import("../spool/files.ts")]);
    const files = folderFiles(given.spoolDir);
    return { spool: await openDiskSpool({ files, clock, log, maxBytes: given.spoolMaxMb * 1_000_000 }), release };
  } catch (error) {
    if (!(error instanceof FolderError)) throw error;
    return fail(command, exits.config, error.message);
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

/** Stops on the signals of a terminal and a supervisor, and, for a parent that asked for it, when its end of stdin closes. */
function stopOnRequest(log: Log, stop: () => Promise<void>): void {
  let stopping = false;
  const request = (why: string): void => {
    if (stopping) return;
    stopping = true;
    log("info", "sm-agent stops", { why });
    void stop().then(() => process.exit(0));
  };
  process.on("SIGTERM", () => request("SIGTERM"));
  process.on("SIGINT", () => request("SIGINT"));
  if (process.env["SM_AGENT_PARENT"] !== "stdin") return;
  process.stdin.on("error", () => request("the parent is gone"));
  process.stdin.on("close", () => request("the parent is gone"));
  process.stdin.on("end", () => request("the parent is gone"));
  process.stdin.resume();
}
