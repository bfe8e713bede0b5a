import { existsSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { join } from "node:path";
import type { Sql } from "postgres";
import { dayMs } from "@statusmesh/shared/time";
import { codeOf, messageOf } from "@statusmesh/shared/thrown";
import { openAbuseLists } from "../../access/abuse/service.ts";
import { regionCover } from "../../monitoring/agents/service.ts";
import { packState } from "../../monitoring/results/packing/service.ts";
import type { Config } from "../../config/config.ts";
import type { System } from "../../platform/context.ts";
import type { Clock } from "../../platform/process/clock.ts";
import { askWorkers, spreadTables, tablesOnWorkers } from "../../platform/db/distributed/citus.ts";
import { clusterOf, hasCluster } from "../../platform/db/embedded/reach.ts";
import { pendingMigrations } from "../../platform/db/migrate.ts";
import { missingPartitions } from "../../platform/db/distributed/partitions.ts";
import { pingRedis } from "../../platform/db/redis.ts";
import { serverTime, serverVersion } from "../../platform/db/client/sql.ts";
import { anyoneCanSignIn } from "../../access/auth/second-factor/service.ts";
import { firstOwner } from "../../access/auth/service.ts";
import { passkeysOfOtherHosts } from "../../access/auth/passkeys/service.ts";
import { checkMailServer } from "../../platform/email/mail.ts";
import { checkHeartbeat } from "../heartbeat.ts";
import { unfit } from "./distribute.ts";
import { clientCertificates, timeZoneData } from "./doctor-expiry.ts";
import { silentLog } from "../../platform/process/log.ts";
import { ownCommand, ownCommandHere } from "../../platform/program.ts";
import { requireDefaultPlan } from "../../access/plans/service.ts";
import { trustedAuthorities } from "../../platform/outbound/authorities.ts";
import { type Database, makeSystem, openConfiguredDatabase } from "../open-system.ts";
import { checkProviders } from "../../access/sign-in/service.ts";
import { unableTargets } from "../../monitoring/targets/write/service.ts";
import { listed, secrets, count } from "./doctor-secrets.ts";

/** Result of one check. */
export interface DoctorResult {
  readonly check: string;
  readonly state: "ok" | "warning" | "wrong" | "skipped";
  readonly detail: string;
}

/** States that the lines of the command write in another way. */
const shownStates: Partial<Record<DoctorResult["state"], string>> = { wrong: "FAIL", warning: "WARN" };

/** Agents schedule on the control plane's clock; replicas share only the database. */
const clockToleranceMs = 2_000;
const leastFreeBytes = 1024 ** 3;
const leastFreeShare = 0.05;

/** What became of the server's own files of configuration as code. */
interface Declared {
  /** The server's own files. */
  files(system: Pick<System, "sql" | "config">): Promise<string>;
  /** Projects of discovery; null without one. */
  sources(system: Pick<System, "sql" | "clock">): Promise<string | null>;
  /** Copies of status pages. */
  mirror(system: Pick<System, "sql" | "clock" | "config">): Promise<string>;
}

/** A check returns its detail, or throws what is wrong. */
type Look = () => Promise<string> | string;

/**
 * `statusmesh doctor`: checks everything that the service needs, also beside a running one, and changes nothing. It
 * starts a stopped embedded database for the checks. Prints one line per check, or JSON. Returns the exit code: 1 when
 * a check fails. `declared` checks the server's own configuration as code.
 */
export async function doctor(
  load: () => Config,
  clock: Clock,
  say: (line: string) => void,
  json: boolean,
  declared: Declared,
): Promise<number> {
  const results = await examine(load, clock, declared);
  if (json) say(JSON.stringify(results, null, 2));
  else
    for (const { check, state, detail } of results)
      say(
        `${(shownStates[state] ?? state).padEnd(5)} ` +
          `${state === "skipped" ? "" : "  "}${check.padEnd(14)} ${detail}`,
      );
  return results.some(({ state }) => state === "wrong") ? 1 : 0;
}

/** All results, dependencies first. */
async function examine(load: () => Config, clock: Clock, declared: Declared): Promise<DoctorResult[]> {
  const results: DoctorResult[] = [];
  const look = async (check: string, what: Look): Promise<void> => {
    try {
      results.push({ check, state: "ok", detail: await what() });
    } catch (error) {
      results.push({ check, state: "wrong", detail: lineOf(error) });
    }
  };
  const skip = (check: string, detail: string): void => void results.push({ check, state: "skipped", detail });

  let config: Config;
  try {
    config = load();
    openAbuseLists(config.abuse, silentLog);
    trustedAuthorities(config.channels.ca_file);
  } catch (error) {
    return [{ check: "configuration", state: "wrong", detail: lineOf(error) }];
  }
  results.push({
    check: "configuration",
    state: "ok",
    detail: `every setting is known and valid; the public address is ${config.server.public_url}`,
  });
  await examineDatabase(config, clock, look, skip, declared, results);
  if (config.redis.url === "") skip("redis", "redis.url is not set");
  else await look("redis", async () => (await pingRedis(config.redis.url), "it answers"));
  if (config.email.smtp_url === "") skip("mail", "email.smtp_url is not set: mail is written to the log");
  else
    await look("mail", async () => {
      await checkMailServer(config.email.smtp_url);
      return "the server answers and accepts the credentials";
    });
  if (config.alerts.heartbeat_url === "") skip("heartbeat", "alerts.heartbeat_url is not set");
  const providers = checkProviders(config, clock);
  if (providers.length === 0) skip("sign-in", "none of google, github and oidc is in auth.enabled_methods");
  for (const { title, answers } of providers) await look(title.toLowerCase(), answers);
  results.push({ check: "time zones", ...timeZoneData(process.versions["tz"], clock.now()) });
  if (existsSync(config.data.dir)) await look("disk", () => freeSpaceOf(config));
  else skip("disk", `${config.data.dir} is not there yet`);
  return results;
}

async function examineDatabase(
  config: Config,
  clock: Clock,
  look: (check: string, what: Look) => Promise<void>,
  skip: (check: string, detail: string) => void,
  declared: Declared,
  results: DoctorResult[],
): Promise<void> {
  const follows = config.declared.path !== "";
  if (!follows) skip("declared files", "declared.path is not set");
  const mirrors = config.mirror.targets.length > 0;
  if (!mirrors) skip("mirror", "mirror.targets is not set");
  const own = [...(follows ? ["declared files"] : []), ...(mirrors ? ["mirror"] : [])];
  const rest = [
    "migrations",
    "plan",
    "owner",
    "ways to sign in",
    "passkeys",
    "client certificates",
    "partitions",
    "packing",
    "agents",
    "secrets",
    ...own,
    "discovery",
    "clock",
  ];
  const opened = await openExisting(config).catch((error: unknown) => new Error(lineOf(error)));
  if (opened === null) {
    for (const check of ["database", ...rest])
      skip(check, `there is none in ${config.data.dir} yet: the first start makes it`);
    return;
  }
  if (opened instanceof Error) {
    await look("database", () => Promise.reject(opened));
    for (const check of rest) skip(check, "needs the database");
    return;
  }
  const { sql } = opened;
  try {
    await look("database", async () => `PostgreSQL ${await serverVersion(sql)}, ${kindOf(config)}`);
    let current = false;
    await look("migrations", async () => {
      const pending = await pendingMigrations(sql);
      if (pending.length > 0)
        throw new Error(`${pending.join(", ")} did not run yet: start the service, or run ${ownCommand("migrate")}`);
      current = true;
      return "the database is up to date";
    });
    if (!current)
      for (const check of rest.filter((one) => one !== "migrations" && one !== "clock"))
        skip(check, "needs the migrations");
    else {
      await look("plan", async () => {
        await requireDefaultPlan({ sql, config });
        return `new organisations are on the plan ${config.tenancy.default_plan}`;
      });
      await look("owner", () => owner(sql, config));
      results.push({ check: "ways to sign in", ...(await waysToSignIn({ sql, config })) });
      results.push({ check: "passkeys", ...(await passkeys({ sql, config })) });
      results.push({ check: "client certificates", ...(await clientCertificates({ sql, clock })) });
      await look("partitions", () => partitions(sql, clock));
      await look("packing", () => packing(sql, clock));
      if ((await tablesOnWorkers(sql)).length > 0) await look("workers", () => workers(sql));
      await look("agents", () => agents(sql, clock));
      await look("secrets", () => secrets(makeSystem(config, sql, clock, silentLog)));
      if (follows) await look("declared files", () => declared.files({ sql, config }));
      if (mirrors) await look("mirror", () => declared.mirror({ sql, clock, config }));
      const sources = await declared.sources({ sql, clock }).catch((error: unknown) => new Error(lineOf(error)));
      if (sources === null) skip("discovery", "no project is of discovery");
      else
        await look("discovery", () => (sources instanceof Error ? Promise.reject(sources) : Promise.resolve(sources)));
      if (config.alerts.heartbeat_url !== "") await look("heartbeat", () => checkHeartbeat({ sql, config }));
    }
    await look("clock", () => clocks(sql, clock));
  } finally {
    await opened.stop();
  }
}

async function owner(sql: Sql, { data }: Config): Promise<string> {
  const email = await firstOwner({ sql });
  const command = ownCommandHere("bootstrap-owner", data.dir);
  if (email === null) throw new Error(`nobody owns an organisation; make an owner: ${command}`);
  return `${email}; a new sign-in link: ${command}`;
}

/** Whether anybody can sign in without a shell on this machine. */
async function waysToSignIn(system: Pick<System, "sql" | "config">): Promise<Pick<DoctorResult, "state" | "detail">> {
  if (!system.config.auth.required) return { state: "skipped", detail: "auth.required is false" };
  if (await anyoneCanSignIn(system)) return { state: "ok", detail: "people can sign in without a command" };
  return {
    state: "warning",
    detail:
      "nobody can sign in without a command on this machine: set a password under Settings, Account, or configure " +
      "mail or an identity provider",
  };
}

/** Whether passkeys were added at another host, where alone they work. */
async function passkeys(system: Pick<System, "sql" | "config">): Promise<Pick<DoctorResult, "state" | "detail">> {
  if (!system.config.auth.enabled_methods.includes("passkey"))
    return { state: "skipped", detail: "passkey is not in auth.enabled_methods" };
  const others = await passkeysOfOtherHosts(system);
  if (others.length === 0) return { state: "ok", detail: "none belongs to another host" };
  const old = others.map(({ host, passkeys: n }) => `${count(n, "passkey")} of ${host}`);
  return {
    state: "warning",
    detail:
      `${listed.format(old)} cannot be used at ` +
      `${system.config.server.public_url}: set server.public_url back, or have people sign in another way and add ` +
      "new ones",
  };
}

async function partitions(sql: Sql, clock: Clock): Promise<string> {
  const now = clock.now();
  const missing = await missingPartitions(sql, new Date(now), new Date(now + dayMs));
  if (missing.length > 0)
    throw new Error(
      `${missing.join(" and ")} missing: results of that day cannot be stored until the service has made it`,
    );
  return "there for today and tomorrow";
}

/** A day is packed in minutes; an installation with many days to pack finishes one every few minutes. */
const packingMs = 2 * dayMs;

async function packing(sql: Sql, clock: Clock): Promise<string> {
  const { waiting, oldest, dueSince, finishedAt, mismatches, failure, late } = await packState({ sql, clock });
  if (mismatches > 0)
    throw new Error(
      `the results of ${oldest} were packed ${count(mismatches, "time")} and did not match, so they stay as rows: ` +
        "see the errors in the log",
    );
  const lateWords = late === 0 ? "" : `; ${count(late, "late result")} to be merged`;
  if (waiting === 0) return `results of ended days are packed${lateWords}`;
  const words = `${count(waiting, "ended day")} of results to be packed, the oldest ${oldest}`;
  if (failure !== null) throw new Error(`${words}; the last run failed, and the next one continues: ${failure}`);
  if (clock.now() - Math.max(dueSince ?? 0, finishedAt ?? 0) > packingMs)
    throw new Error(`${words}, and none was for two days: see the log for errors of the job pack`);
  return words + lateWords;
}

/** The workers of a Citus cluster. */
async function workers(sql: Sql): Promise<string> {
  const asked = await askWorkers(sql);
  const problem = unfit(asked);
  if (problem !== null) throw new Error(problem);
  const spread = await tablesOnWorkers(sql);
  if (spread.length < spreadTables.length)
    throw new Error(
      `only ${spread.length} of ${spreadTables.length} tables are spread: complete it with ${ownCommand("distribute")}`,
    );
  return `results are on ${asked.map(({ address }) => address).join(", ")}, and all answer`;
}

async function agents(sql: Sql, clock: Clock): Promise<string> {
  const regions = await regionCover({ sql, clock });
  const bare = regions.filter(({ targets, live_agents }) => targets > 0 && live_agents === 0);
  const without = bare.map(({ region_id, targets }) => `${region_id} (${count(targets, "monitor")})`);
  if (without.length > 0) throw new Error(`no agent is alive in ${without.join(", ")}`);
  const unable = await unableTargets({ sql, clock });
  if (unable.length > 0)
    throw new Error(
      unable
        .map(({ region, reason, targets }) => `${region} cannot run ${count(targets, "monitor")}: ${reason}`)
        .join("; "),
    );
  return regions.length === 0
    ? "there is no region yet"
    : regions
        .map(
          ({ region_id, live_agents, targets }) => `${region_id}: ${live_agents} alive, ${count(targets, "monitor")}`,
        )
        .join("; ");
}

async function clocks(sql: Sql, clock: Clock): Promise<string> {
  const before = clock.now();
  const now = await serverTime(sql);
  const took = clock.now() - before;
  const apart = Math.abs(now - (before + took / 2));
  if (apart > clockToleranceMs + took)
    throw new Error(
      `this machine and the database are ${(apart / 1000).toFixed(1)} s apart: let both follow a time server`,
    );
  return "this machine and the database agree";
}

/** Opens the database; null where the first start has not made it yet. */
async function openExisting(config: Config): Promise<Database | null> {
  if (config.database.url === "" && !hasCluster(config.data.dir)) return null;
  return await openConfiguredDatabase(config, silentLog, true);
}

/** Whether the database is embedded, and its folder where that is outside of the data folder. */
function kindOf({ database, data }: Config): string {
  if (database.url !== "") return "external";
  const cluster = clusterOf(data.dir);
  return cluster === join(data.dir, "postgres") ? "embedded" : `embedded, in ${cluster}`;
}

/** Free space of the data folder, and of the database where that is outside of it. */
async function freeSpaceOf({ database, data }: Config): Promise<string> {
  const folders = [data.dir];
  const cluster = database.url === "" ? clusterOf(data.dir) : data.dir;
  if (!cluster.startsWith(data.dir) && existsSync(cluster)) folders.push(cluster);
  return (await Promise.all(folders.map(freeSpace))).join("; ");
}

async function freeSpace(folder: string): Promise<string> {
  const { bavail, blocks, bsize } = await statfs(folder);
  const free = bavail * bsize;
  const gib = (bytes: number) => (bytes / 1024 ** 3).toFixed(1);
  const words = `${gib(free)} GiB of ${gib(blocks * bsize)} free at ${folder}`;
  if (free < leastFreeBytes || bavail < blocks * leastFreeShare) throw new Error(`only ${words}`);
  return words;
}

/** The error in one line, without a stack. */
function lineOf(error: unknown): string {
  const text = messageOf(error) || codeOf(error);
  return text.replaceAll("\n", "; ");
}
