import { readFileSync } from "node:fs";
import { type Command, InvalidArgumentError, Option } from "commander";
import { exits, fail } from "./output.ts";
import { bindPattern, isLoopback, parseBind } from "@statusmesh/shared/net/address";
import { codeOrMessage } from "@statusmesh/shared/thrown";
import { dockerPlace, type Place as DockerPlace, usualSocket } from "../http/docker-socket.ts";
import type { Commands } from "../probes/exec/commands.ts";
import type { Place } from "../run/network.ts";
import { isAllowedUrl } from "../rdap/allowed-url.ts";

/** Switches that accept a boolean value and mean true without one. Their environment variables always have a value. */
const switches = new Set(["--allow-private-targets", "--insecure-http"]);
const yesAndNo: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["1", true],
  ["yes", true],
  ["false", false],
  ["0", false],
  ["no", false],
]);

/** Adds `=true` to each switch without a boolean: commander would take the next argument as its value. */
export function completeSwitches(args: readonly string[]): string[] {
  const end = args.indexOf("--");
  return args.map((arg, at) => {
    const bare = switches.has(arg) && (end < 0 || at < end) && !yesAndNo.has(args[at + 1] ?? "");
    return bare ? `${arg}=true` : arg;
  });
}

/** Options shared by several commands. Each call creates a new one. */
export const spoolDir = (words: string): Option => new Option("--spool-dir <dir>", words).env("SM_AGENT_SPOOL_DIR");

const yesOrNoOption = (flags: string, words: string): Option =>
  new Option(flags, words).argParser(yesOrNo).preset("true").default(false);

export const allowPrivateTargets = (): Option =>
  yesOrNoOption("--allow-private-targets [yes]", "allow checks of private and local addresses").env(
    "SM_SECURITY__ALLOW_PRIVATE_TARGETS",
  );

export const rdapBootstrapUrl = (): Option =>
  new Option("--rdap-bootstrap-url <url>", "mirror of the IANA list of RDAP registries, for domain checks")
    .env("SM_AGENT_RDAP_BOOTSTRAP_URL")
    .argParser(registriesUrl);

export const commands = (): Option =>
  new Option("--commands <file>", "TOML file of the commands that exec checks may run; default: none").env(
    "SM_AGENT_COMMANDS",
  );

export const docker = (): Option =>
  new Option(
    "--docker [socket]",
    `socket of Docker or podman for container checks, or tcp://host:port of a proxy (${usualSocket}); default: none`,
  )
    .env("SM_AGENT_DOCKER")
    .preset(usualSocket)
    .argParser(dockerEngine);

export const caFile = (): Option =>
  new Option(
    "--ca-file <file>",
    "certificates (PEM) of authorities that all checks trust in addition to the usual ones",
  ).env("SM_AGENT_CA_FILE");

/** Trusts the authorities of --ca-file. Ends the program where the file has none, or one that cannot be read. */
export async function trustFile(command: Command, file: string | undefined): Promise<void> {
  if (file === undefined) return;
  // Loaded here: most commands need no TLS.
  const { AuthoritiesError, trustAuthorities } = await import("../run/authorities.ts");
  try {
    trustAuthorities(file, process.env);
  } catch (error) {
    if (error instanceof AuthoritiesError) return fail(command, exits.config, error.message);
    throw error;
  }
}

export const heartbeats = (): Option =>
  new Option(
    "--heartbeats <[host:]port>",
    "address where jobs can report as to the control plane; without a host on loopback; needs --spool-dir",
  )
    .env("SM_AGENT_HEARTBEATS")
    .argParser(bindOrPort);

/**
 * The commands of a file. Ends the program for a mistake in it, and for a file that somebody else could change.
 */
export async function readCommands(command: Command, file: string): Promise<Commands> {
  // Loaded here: it needs the parser of TOML.
  const { CommandsError, readCommands: read } = await import("../probes/exec/commands.ts");
  try {
    return read(file);
  } catch (error) {
    if (error instanceof CommandsError) return fail(command, exits.config, error.message);
    throw error;
  }
}

/** The values of {@link ofRun}. */
export interface OfRun {
  url: string;
  tokenFile?: string;
  spoolDir?: string;
  spoolMaxMb: number;
  /** True: the token may travel unencrypted. */
  insecureHttp: boolean;
  allowPrivateTargets: boolean;
  rdapBootstrapUrl?: string;
  canaries: readonly Place[];
  statsSecs: number;
  metricsBind?: { host: string; port: number };
  maxConcurrency: number;
  maxMemoryMb?: number;
  /** File of the commands of exec checks. */
  commands?: string;
  /** The engine of container checks. */
  docker?: DockerPlace;
  /** File of authorities to trust in addition. */
  caFile?: string;
}

/** What `run` takes and `test-config` tests, apart from --heartbeats. */
export const ofRun = (): Option[] => [
  new Option("--url <url>", "URL of the control plane, for example https://status.example.org")
    .env("SM_AGENT_URL")
    .argParser(controlPlaneUrl)
    .makeOptionMandatory(),
  new Option("--token-file <file>", "file with the agent token").env("SM_AGENT_TOKEN_FILE"),
  spoolDir("folder for results waiting to be reported; default: memory"),
  new Option("--spool-max-mb <MB>", "maximum size of the spool folder; beyond it the oldest results are dropped")
    .env("SM_AGENT_SPOOL_MAX_MB")
    .argParser(wholeNumber(1_000_000))
    .default(256),
  yesOrNoOption(
    "--insecure-http [yes]",
    "send the token over plain http to another machine; by default only https and loopback are allowed",
  ).env("SM_AGENT_INSECURE_HTTP"),
  allowPrivateTargets(),
  rdapBootstrapUrl(),
  new Option(
    "--canaries <host:port,...>",
    "addresses that always answer, such as the router; when they fail too, the network of the agent is down",
  )
    .env("SM_AGENT_CANARIES")
    .argParser(places)
    .default([], "the control plane and the targets that answer best"),
  new Option("--stats-secs <seconds>", "interval of the agent's statistics in the log")
    .env("SM_AGENT_STATS_SECS")
    .argParser(wholeNumber(86_400))
    .default(60),
  new Option("--metrics-bind <host:port>", "address for GET /metrics (Prometheus) and /healthz; default: none")
    .env("SM_AGENT_METRICS_BIND")
    .argParser(bind),
  new Option("--max-concurrency <runs>", "maximum of concurrent runs; runs due beyond it are skipped")
    .env("SM_AGENT_MAX_CONCURRENCY")
    .argParser(wholeNumber(100_000))
    .default(4000),
  new Option("--max-memory-mb <MB>", "resident memory above which no run starts; default: no limit")
    .env("SM_AGENT_MAX_MEMORY_MB")
    .argParser(wholeNumber(1_000_000, 100)),
  commands(),
  docker(),
  caFile(),
];

function controlPlaneUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:"))
    throw new InvalidArgumentError("It must be an http or https URL.");
  if (url.username !== "" || url.password !== "") throw new InvalidArgumentError("Credentials do not belong in it.");
  return url.href;
}

function registriesUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !isAllowedUrl(url))
    throw new InvalidArgumentError("It must be an https URL without credentials, or an http one on this machine.");
  return url.href;
}

function dockerEngine(text: string): DockerPlace {
  const place = dockerPlace(text);
  if (place === null) throw new InvalidArgumentError(`It must be a path such as ${usualSocket}, or tcp://host:port.`);
  return place;
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

/** `host:port` to listen on. */
function bind(text: string): { host: string; port: number } {
  const address = parseBind(text);
  if (!new RegExp(`^${bindPattern}$`).test(text) || address.port > 65_535)
    throw new InvalidArgumentError("It must be host:port, for example 127.0.0.1:9464.");
  return address;
}

/** `host:port` or `port` to listen on, which is on loopback without a host. */
function bindOrPort(text: string): { host: string; port: number } {
  const [, port] = /^:?(\d{1,5})$/.exec(text) ?? [];
  return bind(port === undefined ? text : `127.0.0.1:${port}`);
}

function yesOrNo(text: string): boolean {
  const value = text === "" ? false : yesAndNo.get(text);
  if (value === undefined) throw new InvalidArgumentError("It must be true or false.");
  return value;
}

function wholeNumber(max: number, min = 1): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < min || value > max)
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    return value;
  };
}

/** What is wrong with sending the token to this URL, as a lower-case sentence; null when nothing is. */
export function tokenInTheClear(url: string): string | null {
  const { protocol, hostname, host } = new URL(url);
  if (protocol === "https:" || isLoopback(hostname)) return null;
  return (
    `the token would be sent unencrypted to ${host}. Use an https URL, or --insecure-http ` +
    "(SM_AGENT_INSECURE_HTTP=true) on a network that you trust."
  );
}

/** The agent's token, or what is wrong with the given one, as a lower-case sentence. */
export function findToken(file: string | undefined): { token: string } | { problem: string } {
  const fromEnv = process.env["SM_AGENT_TOKEN"] ?? "";
  if (file === undefined && fromEnv === "")
    return { problem: "a token is missing. Set --token-file or SM_AGENT_TOKEN." };
  let token = fromEnv;
  if (file !== undefined) {
    try {
      token = readFileSync(file, "utf8");
    } catch (error) {
      return { problem: `the token file ${file} cannot be read (${codeOrMessage(error)}).` };
    }
  }
  token = token.trim();
  if (/^sm_agent_[\x21-\x7e]+$/.test(token)) return { token };
  return {
    problem:
      `the token ${file === undefined ? "in SM_AGENT_TOKEN" : `in ${file}`} is not an agent's token, ` +
      "which begins with sm_agent_.",
  };
}

/** The token in its file; null when the file or the token is missing. */
export function tokenNow(file: string | undefined): string | null {
  const found = findToken(file);
  return "token" in found ? found.token : null;
}

/** The agent's token. A usage error when it is missing or malformed. */
export function readToken(command: Command, file: string | undefined): string {
  const found = findToken(file);
  return "token" in found ? found.token : fail(command, exits.usage, found.problem);
}
