import { accessSync, constants, existsSync, statfsSync, statSync } from "node:fs";
import { getServers } from "node:dns";
import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { dirname, resolve } from "node:path";
import { Compile } from "typebox/compile";
import { protocolVersion, WhoAmIReply } from "@statusmesh/shared/protocol/agent-protocol";
import { kindOf } from "@statusmesh/shared/checks";
import { dial } from "@statusmesh/shared/net/dial";
import { secure } from "@statusmesh/shared/net/tls";
import { within, dayMs } from "@statusmesh/shared/time";
import { messageOf } from "@statusmesh/shared/thrown";
import { ApiError, connectApi } from "../protocol/api.ts";
import { pingCause } from "../probes/ping.ts";
import { bytes, exits, milliseconds } from "../shell/output.ts";
import { type Place, placeOf } from "../run/network.ts";
import { findToken, type OfRun, tokenInTheClear } from "../shell/options.ts";
import { folderHolder, lockFolder } from "../spool/lock.ts";

/** One requirement of `run`. A `warn` does not prevent it from running. */
export interface PreflightResult {
  what: string;
  state: "ok" | "warn" | "fail";
  /** What was found and, unless it is fine, what to do. */
  message: string;
  /** Exit code of the command for this finding. */
  exit?: number;
}

export interface PreflightOptions extends Pick<
  OfRun,
  "url" | "tokenFile" | "spoolDir" | "spoolMaxMb" | "canaries" | "commands" | "docker" | "caFile" | "insecureHttp"
> {
  version: string;
  /** Timeout of each network step, ms. */
  timeoutMs: number;
  env: Readonly<Record<string, string | undefined>>;
}

const ok = (what: string, message: string): PreflightResult => ({ what, state: "ok", message });
const warn = (what: string, message: string): PreflightResult => ({ what, state: "warn", message });
const bad = (what: string, message: string, exit: number): PreflightResult => ({ what, state: "fail", message, exit });

const validReply = Compile(WhoAmIReply);
/** Clocks synchronised over the network differ by some milliseconds. */
const clockWarningMs = 2000;
const certificateWarningDays = 14;

/** Verifies everything that `run` needs. Changes nothing, except that it locks and unlocks the spool folder. */
export async function* preflight(options: PreflightOptions): AsyncGenerator<PreflightResult> {
  const found = findToken(options.tokenFile);
  yield* tokenResults(options, found);
  const inTheClear = tokenInTheClear(options.url);
  const maySend = inTheClear === null || options.insecureHttp;
  if (maySend) yield* connectionResults(options, found);
  else yield bad("url", inTheClear, exits.usage);
  for (const canary of options.canaries) yield await canaryResult(canary, options.timeoutMs);
  yield await pingResult();
  yield* await commandResults(options);
  yield* await dockerResults(options);
  yield* await authoritiesResults(options);
  yield* spoolResults(options);
}

/** Without echo requests all other kinds of checks run. */
async function pingResult(): Promise<PreflightResult> {
  const cause = await pingCause();
  return cause === null
    ? ok("ping", "this machine can send echo requests")
    : warn("ping", `ping checks are not run here: ${kindOf({ type: "ping" }).causes![cause]}.`);
}

async function authoritiesResults({ caFile, env }: PreflightOptions): Promise<PreflightResult[]> {
  if (caFile === undefined) return [];
  const { AuthoritiesError, trustAuthorities } = await import("../run/authorities.ts");
  try {
    return [ok("authorities", `${caFile} has ${trustAuthorities(caFile, env)}`)];
  } catch (error) {
    if (error instanceof AuthoritiesError) return [bad("authorities", error.message, exits.config)];
    throw error;
  }
}

async function commandResults({ commands: file }: PreflightOptions): Promise<PreflightResult[]> {
  if (file === undefined) return [];
  const { readCommands } = await import("../probes/exec/commands.ts");
  try {
    const commands = [...readCommands(file)];
    const absent = commands.flatMap(([key, { argv }]) => (isExecutable(argv[0]) ? [] : [`${argv[0]} ([${key}])`]));
    const keys = commands.map(([key]) => key).join(", ");
    const others = statSync(file).mode & 0o004;
    const hasEnv = commands.some(([, { env }]) => Object.keys(env).length > 0);
    return [
      absent.length === 0
        ? ok("commands", `${file} has ${keys === "" ? "none" : keys}`)
        : warn("commands", `cannot be executed by this account: ${absent.join(", ")}`),
      ...(hasEnv && others !== 0
        ? [warn("commands", `others on this machine may read ${file}, and it has env. Run: chmod o-r ${file}`)]
        : []),
    ];
  } catch (error) {
    return [bad("commands", messageOf(error), exits.config)];
  }
}

async function dockerResults({ docker, timeoutMs }: PreflightOptions): Promise<PreflightResult[]> {
  if (docker === undefined) return [];
  const { engineFault } = await import("../probes/engine.ts");
  const fault = await engineFault(docker, timeoutMs);
  return [
    fault === null ? ok("docker", "the socket answers") : warn("docker", `container checks are not run: ${fault}`),
  ];
}

function isExecutable(program: string): boolean {
  try {
    accessSync(program, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Connects to the control plane and tries the token. */
async function* connectionResults(
  options: PreflightOptions,
  found: ReturnType<typeof findToken>,
): AsyncGenerator<PreflightResult> {
  const place = placeOf(options.url);
  const name = await nameResult(place.host, options.timeoutMs);
  yield name;
  if (name.state === "fail") return;
  const connection = await connectionResult(options.url, place, options.timeoutMs);
  yield connection;
  if (connection.state !== "fail" && "token" in found) yield* await controlPlaneResults(options, found.token);
}

function* tokenResults(
  { tokenFile, env }: PreflightOptions,
  found: ReturnType<typeof findToken>,
): Generator<PreflightResult> {
  if ("problem" in found) return yield bad("token", found.problem, exits.usage);
  yield ok("token", tokenFile === undefined ? "there is one in SM_AGENT_TOKEN" : `there is one in ${tokenFile}`);
  if (tokenFile === undefined) return;
  if ((env["SM_AGENT_TOKEN"] ?? "") !== "")
    yield warn("token", "SM_AGENT_TOKEN is set as well, and is not used. Remove one of the two.");
  const others = statSync(tokenFile).mode & 0o077;
  if (process.platform !== "win32" && others !== 0)
    yield warn("token file", `others on this machine may open ${tokenFile}. Run: chmod 600 ${tokenFile}`);
}

async function nameResult(host: string, timeoutMs: number): Promise<PreflightResult> {
  const servers = getServers().join(", ") || "none";
  if (isIP(host) !== 0)
    return ok("dns", `not needed for the control plane, whose URL has an address; name servers: ${servers}`);
  try {
    const addresses = await within(timeoutMs, lookup(host, { all: true }));
    return ok("dns", `${host} is ${addresses.map(({ address }) => address).join(", ")}`);
  } catch (error) {
    return bad(
      "dns",
      `${host} cannot be resolved (${messageOf(error)}). Look at --url and at this machine's name servers: ${servers}`,
      exits.unavailable,
    );
  }
}

async function connectionResult(url: string, { host, port }: Place, timeoutMs: number): Promise<PreflightResult> {
  const { protocol } = new URL(url);
  const what = protocol === "https:" ? "tls" : "connection";
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    const { socket, address } = await dial({ host, port, allowPrivate: true, signal });
    if (protocol === "http:") {
      socket.destroy();
      if (tokenInTheClear(url) === null) return ok(what, `${address} port ${port} answers`);
      return warn(what, `${address} port ${port} answers, but the token would be sent unencrypted. Use an https URL.`);
    }
    const secured = await secure({ socket, host, verify: true, signal });
    const until = secured.getPeerX509Certificate()?.validTo;
    secured.destroy();
    const days = until === undefined ? Infinity : Math.floor((Date.parse(until) - Date.now()) / dayMs);
    if (days < certificateWarningDays)
      return warn(what, `the certificate of ${host} is valid for ${days} days more. Have it renewed.`);
    return ok(what, `${address} port ${port} answers with a certificate for ${host} that is trusted here`);
  } catch (error) {
    const hint =
      protocol === "https:"
        ? "Look at --url and firewalls; an authority of your own is named in NODE_EXTRA_CA_CERTS."
        : "Look at --url, and whether a firewall is in between.";
    return bad(what, `${host} port ${port}: ${messageOf(error)}. ${hint}`, exits.unavailable);
  }
}

async function controlPlaneResults(
  { url, version, timeoutMs }: PreflightOptions,
  token: string,
): Promise<PreflightResult[]> {
  const api = connectApi(url, token, `StatusMesh/${version}`);
  const asked = Date.now();
  let arrived = asked;
  try {
    const reply = await api.get("/api/agent/whoami", {
      timeoutMs,
      signal: AbortSignal.timeout(timeoutMs),
      onHead: () => (arrived = Date.now()),
    });
    if (!validReply.Check(reply)) throw new ApiError("unexpected", "the answer is not that of a control plane");
    const accepted = ok(
      "control plane",
      `StatusMesh ${reply.version} accepts the token: this is agent "${reply.name}" of region ${reply.region}`,
    );
    return [
      accepted,
      protocolResult(reply.protocol),
      clockResult(reply.server_time - (asked + arrived) / 2, arrived - asked),
    ];
  } catch (error) {
    return [refusal(error, url)];
  } finally {
    await api.close();
  }
}

function protocolResult(theirs: number): PreflightResult {
  if (theirs === protocolVersion) return ok("protocol", `both speak version ${protocolVersion}`);
  return bad(
    "protocol",
    `the control plane speaks version ${theirs}, this agent ${protocolVersion}. Update the older of the two.`,
    exits.config,
  );
}

/** `offsetMs`: difference of the control plane's clock, with the precision of a reply that took `tripMs`. */
function clockResult(offsetMs: number, tripMs: number): PreflightResult {
  const sure = Math.max(0, Math.abs(offsetMs) - tripMs / 2);
  if (sure <= clockWarningMs)
    return ok("clock", `within ${milliseconds(Math.abs(offsetMs) + tripMs / 2)} of the control plane's`);
  const side = offsetMs > 0 ? "behind" : "ahead of";
  return warn(
    "clock",
    `${milliseconds(Math.abs(offsetMs))} ${side} the control plane's. Checks follow that clock anyway; ` +
      "have this machine's clock set by NTP.",
  );
}

function refusal(error: unknown, url: string): PreflightResult {
  const what = "control plane";
  if (!(error instanceof ApiError))
    return bad(what, `${url} does not answer in time (${messageOf(error)}).`, exits.unavailable);
  if (error.kind === "refused")
    return bad(
      what,
      `it refuses the token (${error.message}). Create a new agent: POST /operator/agents`,
      exits.refused,
    );
  if (error.kind === "away") return bad(what, `it does not answer now (${error.message}).`, exits.unavailable);
  return bad(
    what,
    `what answers at ${url} is not a StatusMesh control plane of this release (${error.message}). Look at ` +
      "--url, or update the control plane.",
    exits.unavailable,
  );
}

async function canaryResult({ host, port }: Place, timeoutMs: number): Promise<PreflightResult> {
  const what = `canary ${host}:${port}`;
  try {
    const { socket } = await dial({ host, port, allowPrivate: true, signal: AbortSignal.timeout(timeoutMs) });
    socket.destroy();
    return ok(what, "answers");
  } catch (error) {
    return warn(
      what,
      `${messageOf(error)}. One that never answers makes the agent treat failures as those of its own ` +
        "network: remove it, or name another.",
    );
  }
}

function* spoolResults({ spoolDir, spoolMaxMb }: PreflightOptions): Generator<PreflightResult> {
  if (spoolDir === undefined || spoolDir === "")
    return yield warn(
      "spool",
      "results wait in memory, and are lost when the agent ends while the control plane is away. Set --spool-dir.",
    );
  const there = existsSync(spoolDir);
  try {
    if (there) {
      const holder = folderHolder(spoolDir, Date.now());
      if (holder === null) lockFolder(spoolDir, Date.now)();
      yield holder === null
        ? ok("spool", `${spoolDir} can be used`)
        : warn(
            "spool",
            `${spoolDir} is used by an agent now (pid ${holder.pid}). A second one needs a folder of its own.`,
          );
    } else {
      accessSync(nearest(spoolDir), constants.W_OK);
      yield ok("spool", `${spoolDir} is not there yet, and can be made`);
    }
    const { bavail, bsize } = statfsSync(there ? spoolDir : nearest(spoolDir));
    const free = bavail * bsize;
    const room = `${bytes(free)} free, and the spool may grow to ${spoolMaxMb} MB`;
    yield free < spoolMaxMb * 1_000_000
      ? warn("space", `${room}. Make room, or lower --spool-max-mb.`)
      : ok("space", room);
  } catch (error) {
    yield bad(
      "spool",
      `${spoolDir} cannot be used (${messageOf(error)}). Give the agent's user a folder that it may write.`,
      exits.config,
    );
  }
}

/** The nearest existing parent folder. */
function nearest(folder: string): string {
  let at = resolve(folder);
  while (!existsSync(at)) at = dirname(at);
  return at;
}
