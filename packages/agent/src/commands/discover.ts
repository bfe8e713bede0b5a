import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { extname } from "node:path";
import { setFlagsFromString } from "node:v8";
import { type Command, InvalidArgumentError } from "commander";
import { parse } from "smol-toml";
import { parseYaml } from "@statusmesh/shared/declared/yaml";
import { autoKumaConfig } from "@statusmesh/shared/foreign/autokuma";
import { duration, isRow } from "@statusmesh/shared/foreign/values";
import { tame } from "@statusmesh/shared/shell/terminal";
import { codeOrMessage, messageOf } from "@statusmesh/shared/thrown";
import { ApiRefusal, ControlPlane } from "../discovery/control-plane.ts";
import { clusterOf, ownCluster } from "../discovery/cluster.ts";
import {
  type CycleMemory,
  type CycleOptions,
  type Outcome,
  release,
  reportFailure,
  runCycle,
} from "../discovery/cycle.ts";
import { Docker } from "../discovery/docker.ts";
import { dockerPlace, usualSocket } from "../http/docker-socket.ts";
import { type Cluster, Kubernetes } from "../discovery/kubernetes.ts";
import { discoverUntil, usualPace } from "../discovery/loop.ts";
import { type Source, SourceError } from "../discovery/source.ts";
import { tokenInTheClear } from "../shell/options.ts";
import { exits, fail } from "../shell/output.ts";

interface Options {
  docker?: string | true;
  kubernetes?: boolean;
  kubeconfig?: string;
  kubernetesUrl?: string;
  caFile?: string;
  kubernetesTokenFile?: string;
  namespace: string[];
  url?: string;
  tokenFile?: string;
  insecureHttp?: boolean;
  name: string;
  auto?: boolean;
  autokumaConfig?: string;
  grace: number;
  maxDelete?: number;
  once?: boolean;
  dryRun?: boolean;
  json?: boolean;
}

export function define(command: Command): void {
  command
    .description(
      "Declare monitors by labels of containers or annotations in Kubernetes.\n" +
        "What is gone is paused after a minute and deleted after the grace.\n" +
        "Exit code: 0 done, 2 differences of --dry-run, 1 the source or the control plane failed.",
    )
    .option("--docker [socket]", "socket of Docker or podman, or tcp://host:port of a proxy of it")
    .option("--kubernetes", "Ingress, Service, HTTPRoute and IngressRoute of a cluster; default: that of this pod")
    .option("--kubeconfig <file>", "the cluster of its current context")
    .option("--kubernetes-url <url>", "https URL of the API of the cluster")
    .option("--ca-file <file>", "certificates of authorities (PEM) for --kubernetes-url")
    .option("--kubernetes-token-file <file>", "token for --kubernetes-url; read for each connection")
    .option("--namespace <name>", "this namespace only; repeatable", (one: string, all: string[]) => [...all, one], [])
    .option("--url <url>", "URL of the control plane (env: SM_URL)")
    .option("--token-file <file>", "file with an API token of the scope targets:write (env: SM_TOKEN_FILE, SM_TOKEN)")
    .option("--insecure-http", "send the token over plain http to another machine")
    .requiredOption("--name <name>", "name of this source: its project is docker-<name> or k8s-<name>", sourceName)
    .option("--auto", "also one http monitor for each exposed host without labels")
    .option("--autokuma-config <file>", "configuration of AutoKuma (TOML, YAML, JSON) with snippets and defaults")
    .option("--grace <duration>", "absence after which a monitor is deleted", graceSecs, 600)
    .option("--max-delete <count>", "most deletions at once; default: 20 %, at least 10", wholeCount)
    .option("--once", "run once and end")
    .option("--dry-run", "show what would change, and change nothing")
    .option("--json", "print each run as one line of JSON")
    .action(async (options: Options) => await discover(command, options));
}

async function discover(command: Command, options: Options): Promise<void> {
  // What a cycle has read is garbage a moment later: the heap grows by a third before it is collected, not fourfold.
  setFlagsFromString("--heap-growing-percent=30");
  const { env } = process;
  const url = options.url ?? env["SM_URL"];
  if (url === undefined || !URL.canParse(url)) return fail(command, exits.usage, "--url or SM_URL is missing.");
  const problem = options.insecureHttp === true || env["SM_INSECURE_HTTP"] === "true" ? null : tokenInTheClear(url);
  if (problem !== null) return fail(command, exits.usage, problem);
  const source = sourceOf(command, options);
  const cycleOptions: CycleOptions = {
    isKubernetes: options.kubernetes === true,
    isAuto: options.auto === true,
    autoKuma: readAutoKuma(command, options.autokumaConfig),
    writer: writerOf(source, options),
    graceSecs: options.grace,
    maxDelete: options.maxDelete ?? null,
    isDryRun: options.dryRun === true,
  };
  const api = new ControlPlane(url, () => readToken(options.tokenFile ?? env["SM_TOKEN_FILE"]));
  const stop = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => stop.abort());
  const memory: CycleMemory = { last: null };
  const cycle = async (): Promise<Outcome | null> => {
    try {
      const outcome = await runCycle(source, api, cycleOptions, stop.signal, memory);
      print(outcome, source, options);
      return outcome;
    } catch (error) {
      if (stop.signal.aborted) return null;
      const message = messageOf(error);
      warn(message);
      const isTold = error instanceof SourceError || (error instanceof ApiRefusal && !passing.has(error.code));
      if (isTold && !cycleOptions.isDryRun)
        await reportFailure(source, api, { writer: cycleOptions.writer, error: message }, stop.signal).catch(
          (failure: unknown) => warn(messageOf(failure)),
        );
      return null;
    }
  };
  if (options.once === true || cycleOptions.isDryRun) {
    const outcome = await cycle();
    process.exitCode = outcome === null ? 1 : cycleOptions.isDryRun && hasDifferences(outcome) ? 2 : 0;
  } else await discoverUntil(source, cycle, { signal: stop.signal, pace: usualPace, warn });
  // The signal has aborted: a time of its own.
  if (!cycleOptions.isDryRun)
    await release(source, api, cycleOptions.writer, AbortSignal.timeout(5000)).catch(() => undefined);
}

/** Refusals of which the next run is free. */
const passing = new Set(["SOURCE_IN_USE", "RATE_LIMITED", "PLAN_STALE"]);

const warn = (text: string): void => void process.stderr.write(`sm-agent discover: ${tame(text)}\n`);

function sourceOf(command: Command, options: Options): Source {
  const { docker, kubernetes, name } = options;
  if ((docker === undefined) === (kubernetes !== true))
    return fail(command, exits.usage, "one source is needed: --docker or --kubernetes.");
  if (docker === undefined) {
    try {
      return new Kubernetes(clusterIn(options), name, options.namespace);
    } catch (error) {
      return fail(command, exits.config, `${messageOf(error)}.`);
    }
  }
  const place = dockerPlace(docker === true ? usualSocket : docker);
  if (place === null) return fail(command, exits.usage, `${String(docker)} is neither a socket nor tcp://host:port.`);
  return new Docker(place, name);
}

function clusterIn({ kubeconfig, kubernetesUrl, caFile, kubernetesTokenFile: tokenFile }: Options): Cluster {
  if (kubeconfig !== undefined) return clusterOf(kubeconfig);
  if (kubernetesUrl === undefined) return ownCluster(process.env);
  if (!URL.canParse(kubernetesUrl)) throw new Error("--kubernetes-url is no URL");
  const problem = tokenInTheClear(kubernetesUrl);
  if (problem !== null) throw new Error("--kubernetes-url must be an https URL");
  return {
    url: new URL(kubernetesUrl),
    ...(caFile === undefined ? {} : { caFile }),
    ...(tokenFile === undefined ? {} : { tokenFile }),
  };
}

/** The same for each run on this machine, so that a process that was killed goes on with its lease. */
const writerOf = ({ project }: Source, { docker }: Options): string =>
  createHash("sha256")
    .update(`${hostname()}\0${project}\0${String(docker)}`)
    .digest("hex")
    .slice(0, 24);

function readToken(file: string | undefined): string {
  let token = process.env["SM_TOKEN"] ?? "";
  if (file !== undefined) {
    try {
      token = readFileSync(file, "utf8");
    } catch (error) {
      throw new Error(`the token file ${file} cannot be read (${codeOrMessage(error)})`, { cause: error });
    }
  }
  token = token.trim();
  // A header with a line break would be another one.
  if (!/^[\x21-\x7e]{1,500}$/.test(token)) throw new Error("a token is missing: set --token-file or SM_TOKEN_FILE");
  return token;
}

function readAutoKuma(command: Command, file: string | undefined): CycleOptions["autoKuma"] {
  if (file === undefined) return autoKumaConfig({});
  try {
    const content = readFileSync(file, "utf8");
    if (/^\.ya?ml$/.test(extname(file))) {
      const { value, mistakes } = parseYaml(content, file);
      if (mistakes.length > 0) throw new Error(mistakes[0]!.message);
      return autoKumaConfig(isRow(value) ? value : {});
    }
    const value: unknown = extname(file) === ".toml" ? parse(content) : JSON.parse(content);
    return autoKumaConfig(isRow(value) ? value : {});
  } catch (error) {
    return fail(command, exits.config, `${file} cannot be read: ${codeOrMessage(error).split("\n")[0]}`);
  }
}

const done = ["create", "update", "delete", "pause"] as const;

const hasDifferences = ({ summary }: Outcome): boolean => done.some((action) => (summary[action] ?? 0) > 0);

function print(outcome: Outcome, { project }: Source, { json, dryRun }: Options): void {
  const { objects, monitors, summary, changes, warnings, wrong, ignored } = outcome;
  if (json === true) {
    process.stdout.write(`${JSON.stringify({ project, ...outcome })}\n`);
    return;
  }
  const signs: Readonly<Record<string, string>> = { create: "+", update: "~", delete: "-", pause: "#", orphaned: "?" };
  if (dryRun === true)
    for (const { action, key } of changes)
      process.stdout.write(`${signs[String(action)] ?? "?"} ${tame(String(key))}\n`);
  for (const { object, reason } of wrong) warn(`${object}: ${reason}`);
  for (const { object, reason } of ignored) if (dryRun === true) warn(`ignored: ${object}: ${reason}`);
  for (const warning of warnings) warn(warning);
  if (dryRun === true || hasDifferences(outcome)) {
    const counts = [...done, "orphaned"].map((action) => `${summary[action] ?? 0} ${action}`).join(", ");
    const found = `${objects} objects, ${monitors} monitors, ${wrong.length} wrong, ${ignored.length} ignored`;
    process.stdout.write(`${project}: ${found}; ${counts}\n`);
  }
}

function sourceName(text: string): string {
  if (!/^[a-z0-9-]{1,33}$/.test(text)) throw new InvalidArgumentError("It has 1 to 33 of a-z, 0-9 and hyphens.");
  return text;
}

function graceSecs(text: string): number {
  const secs = duration(text, 0) / 1000;
  if (secs < 60 || secs > 31 * 86_400)
    throw new InvalidArgumentError("It must be a duration of 1m to 31d, such as 10m.");
  return Math.round(secs);
}

function wholeCount(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError("It must be a whole number from 0 to 999999.");
  return Number(text);
}
