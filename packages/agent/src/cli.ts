#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { type Clock, correctedClock } from "./clock.ts";
import type { Place } from "./network.ts";
import { jsonLog, type Log } from "./log.ts";
import { mayAsk } from "./rdap/may-ask.ts";
import type { Spool } from "./spool.ts";
import { FolderError, lockFolder } from "./spool/lock.ts";

/** Wrong usage, as `sysexits.h` numbers it. */
const usageExit = 64;
/** Something in the configuration is in the way, as `sysexits.h` numbers it. */
const configExit = 78;
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

const packageJson: unknown = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const version = typeof packageJson === "object" && packageJson !== null && "version" in packageJson ? String(packageJson.version) : "0.0.0";

const program = new Command("sm-agent")
  .description("Runs the checks of one StatusMesh region and reports their results.")
  .version(version)
  .exitOverride()
  .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, "sm-agent: ")) });

program
  .command("run", { isDefault: false })
  .description("Run until stopped. The token comes from a file or from SM_AGENT_TOKEN, never from the command line.")
  .addOption(new Option("--url <url>", "the control plane, for example https://status.example.org").env("SM_AGENT_URL").argParser(controlPlaneUrl).makeOptionMandatory())
  .addOption(new Option("--token-file <file>", "file that holds the agent's token").env("SM_AGENT_TOKEN_FILE"))
  .addOption(new Option("--spool-dir <dir>", "folder for results that wait to be reported; without one they wait in memory").env("SM_AGENT_SPOOL_DIR"))
  .addOption(
    new Option("--spool-max-mb <MB>", "how large that folder may grow; then the oldest results are dropped")
      .env("SM_AGENT_SPOOL_MAX_MB")
      .argParser(wholeNumber(1_000_000))
      .default(256),
  )
  .addOption(
    new Option("--allow-private-targets [yes]", "also check private and local addresses")
      .env("SM_SECURITY__ALLOW_PRIVATE_TARGETS")
      .argParser(yesOrNo)
      .preset("true")
      .default(false),
  )
  .addOption(
    new Option("--rdap-bootstrap-url <url>", "a mirror of IANA's list of RDAP registries, for checks of domains").env("SM_AGENT_RDAP_BOOTSTRAP_URL").argParser(registriesUrl),
  )
  .addOption(
    new Option("--canaries <host:port,...>", "places that always answer, such as the router: when they are silent too, it is the agent's own network that is down")
      .env("SM_AGENT_CANARIES")
      .argParser(places)
      .default([], "the control plane and the targets that answer best"),
  )
  .addOption(new Option("--stats-secs <seconds>", "how often to log the agent's own numbers").env("SM_AGENT_STATS_SECS").argParser(wholeNumber(86_400)).default(60))
  .action(run);

function controlPlaneUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) throw new InvalidArgumentError("It must be an http or https URL.");
  if (url.username !== "" || url.password !== "") throw new InvalidArgumentError("Credentials do not belong in it.");
  return url.href;
}

function registriesUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !mayAsk(url)) throw new InvalidArgumentError("It must be an https URL without credentials, or an http one on this machine.");
  return url.href;
}

function places(text: string): Place[] {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .map((part) => {
      const [, host = "", port = ""] = /^(.+):(\d{1,5})$/.exec(part) ?? [];
      if (!URL.canParse(`tcp://${part}`) || Number(port) < 1 || Number(port) > 65_535)
        throw new InvalidArgumentError(`"${part}" is not host:port, for example 192.0.2.1:443 or [2001:db8::1]:443.`);
      return { host: host.replace(/^\[|\]$/g, ""), port: Number(port) };
    });
}

function yesOrNo(text: string): boolean {
  if (text === "true" || text === "1" || text === "yes") return true;
  if (text === "false" || text === "0" || text === "no" || text === "") return false;
  throw new InvalidArgumentError("It must be true or false.");
}

function wholeNumber(max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < 1 || value > max) throw new InvalidArgumentError(`It must be a whole number from 1 to ${max}.`);
    return value;
  };
}

/** The agent's token. A usage error when there is none, or when it is something else. */
function readToken(command: Command, file: string | undefined): string {
  const fromEnv = process.env["SM_AGENT_TOKEN"] ?? "";
  if (file === undefined && fromEnv === "") return usage(command, "a token is missing. Set --token-file or SM_AGENT_TOKEN.");
  let token = fromEnv;
  if (file !== undefined) {
    try {
      token = readFileSync(file, "utf8");
    } catch (error) {
      return usage(command, `the token file ${file} cannot be read (${error instanceof Error && "code" in error ? String(error.code) : String(error)}).`);
    }
  }
  token = token.trim();
  if (!/^sm_agent_[\x21-\x7e]+$/.test(token))
    return usage(command, `the token ${file === undefined ? "in SM_AGENT_TOKEN" : `in ${file}`} is not an agent's token, which begins with sm_agent_.`);
  return token;
}

function usage(command: Command, message: string): never {
  command.error(`sm-agent: ${message}`, { exitCode: usageExit });
}

async function run(options: RunOptions, command: Command): Promise<void> {
  const token = readToken(command, options.tokenFile);
  // A log that nobody reads any more is no reason to stop.
  process.stdout.on("error", () => undefined);
  const log = jsonLog((line) => process.stdout.write(line), Date.now);
  const clock = correctedClock();
  const { spool, release } = await openSpool(options, command, clock, log);
  const url = new URL(options.url);
  if (url.protocol === "http:" && !/^(localhost|127\..*|\[::1\])$/.test(url.hostname)) log("warn", "the token travels unencrypted: the control plane's URL is not https");
  log("info", "sm-agent starts", { version, control_plane: url.origin, allow_private_targets: options.allowPrivateTargets, spool: options.spoolDir ?? "memory", pid: process.pid });
  // Dead sockets outlive two scavenges and pile up as old garbage, 3 MB a second at 1,000 checks a second. Collected when
  // the heap has grown by a third instead of fourfold, the agent keeps to 140 MB where it took 190, for 1 % more CPU.
  setFlagsFromString("--heap-growing-percent=30");
  // Loaded only here: --version, --help and wrong usage answer three times as fast without it.
  const { startAgent } = await import("./agent.ts");
  const agent = startAgent({
    url: options.url,
    token,
    version,
    allowPrivateTargets: options.allowPrivateTargets,
    stateDir: options.spoolDir === undefined || options.spoolDir === "" ? null : options.spoolDir,
    rdapBootstrapUrl: options.rdapBootstrapUrl,
    canaries: options.canaries,
    statsMs: options.statsSecs * 1000,
    clock,
    spool,
    log,
  });
  stopOnRequest(log, () => agent.stop().finally(release));
}

/** The spool that the options ask for, and what gives its folder back. */
async function openSpool(options: RunOptions, command: Command, clock: Clock, log: Log): Promise<{ spool: Spool; release: () => void }> {
  if (options.spoolDir === undefined || options.spoolDir === "") {
    log("info", "results wait in memory; with --spool-dir they would survive a restart");
    const { MemorySpool } = await import("./spool.ts");
    return { spool: new MemorySpool(), release: () => undefined };
  }
  try {
    const release = await takeFolder(options.spoolDir, process.env["SM_AGENT_PARENT"] === "stdin" ? patienceMs : 0);
    const [{ openDiskSpool }, { folderFiles }] = await Promise.all([import("./spool/disk.ts"), import("./spool/files.ts")]);
    const files = folderFiles(options.spoolDir);
    return { spool: await openDiskSpool({ files, clock, log, maxBytes: options.spoolMaxMb * 1_000_000 }), release };
  } catch (error) {
    if (!(error instanceof FolderError)) throw error;
    return command.error(`sm-agent: ${error.message}`, { exitCode: configExit });
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

try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  process.exitCode = error.exitCode === 0 || error.exitCode === configExit ? error.exitCode : usageExit;
}
