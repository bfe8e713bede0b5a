import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { MetricsPort } from "@statusmesh/shared/net/metrics-port";
import { hourMs, minuteMs } from "@statusmesh/shared/time";
import { ensureBuiltInAgent } from "./monitoring/agents/registration/service.ts";
import { createApp } from "./app.ts";
import { bootstrap, type Bootstrapped } from "./access/auth/service.ts";
import { type BuiltInAgent, builtInAgentToken, startBuiltInAgent } from "./monitoring/agents/built-in.ts";
import type { Config } from "./config/config.ts";
import type { System } from "./platform/context.ts";
import type { Clock } from "./platform/process/clock.ts";
import { migrate } from "./platform/db/migrate.ts";
import { watchDatabase } from "./platform/db/client/watch.ts";
import { openHub } from "./platform/db/notify.ts";
import { openRedis } from "./platform/db/redis.ts";
import { openCounter } from "./platform/http/limits/counter.ts";
import { startDatabaseNotices } from "./operator/database-notices.ts";
import { dayPreparer, keepPartitions } from "./monitoring/results/rollups/keep-partitions.ts";
import { nightly, sweep } from "./operator/cleanup.ts";
import { notifyOperator } from "./operator/operator-notices.ts";
import {
  areGroupsDue,
  followGroups,
  followMaintenance,
  isFlappingDue,
  isMaintenanceDue,
  settleFlapping,
} from "./alerting/incidents/engine.ts";
import { generateOccurrences } from "./alerting/maintenance/occurrences.ts";
import { escalations } from "./alerting/incidents/escalation/ladder.ts";
import { isHeldDue, releaseHeld } from "./alerting/deliveries/outbox/held.ts";
import { countFailingSlots } from "./monitoring/results/slots/engine.ts";
import { areRemindersDue, sendReminders } from "./alerting/incidents/escalation/reminders.ts";
import { pack } from "./monitoring/results/packing/pack.ts";
import { dropOldRollups } from "./monitoring/results/rollups/retention.ts";
import { rollUp } from "./monitoring/results/rollups/rollup.ts";
import { followFiles } from "./interfaces/declared/files/files.ts";
import { mailChannelFailures } from "./alerting/deliveries/channel-failures.ts";
import { heartbeatJob } from "./operator/heartbeat.ts";
import {
  announce,
  areMessagesDue,
  everyMs as subscribersEveryMs,
  isNewsDue,
  openWebhookSender,
  sendMails,
  type WebhookSender,
} from "./publishing/subscribers/engine.ts";
import { isMirrorDue, mirrorPages } from "./publishing/public/mirror/service.ts";
import { isPublicationDue, publishDue } from "./publishing/publications/service.ts";
import { sendMonthlyReports } from "./publishing/reports/monthly.ts";
import { type Job, startJobs } from "./platform/jobs/runner.ts";
import type { Log } from "./platform/process/log.ts";
import { sweepMcp } from "./interfaces/mcp/audit/audit.ts";
import type { Metrics } from "./operator/metrics/metrics.ts";
import { cannotListen, type Listening, listen } from "./platform/http/listen.ts";
import { type Database, makeSystem, openConfiguredDatabase } from "./operator/open-system.ts";
import { version } from "./platform/program.ts";
import { requireDefaultPlan } from "./access/plans/service.ts";
import { type Deliverer, startDeliverer } from "./alerting/deliveries/sending/deliverer.ts";
import { followHeartbeats, isHeartbeatDue } from "./monitoring/heartbeats/intake/reports.ts";
import { openPings } from "./monitoring/heartbeats/intake/queue.ts";
import { openAgentPings } from "./monitoring/heartbeats/intake/agent-pings.ts";
import { openIngest } from "./monitoring/pipeline/ingest.ts";
import { ensureRegion } from "./monitoring/regions/service.ts";
import { recheckDomains } from "./publishing/status-pages/domains/service.ts";

/** A stop takes at most these two together. */
const agentStopMs = 2_500;
const drainMs = 1_000;

export interface Running {
  /** URL of the server, with the bound port. */
  readonly url: string;
  readonly owner: Bootstrapped;
  /** Reloads what changes without a restart: the abuse lists. */
  reload(): void;
  stop(): Promise<void>;
}

/** Starts the control plane; resolves when it serves requests. Throws StartupError with a remedy. */
export async function serve(
  config: Config,
  clock: Clock,
  log: Log,
  options: { checkReplies?: boolean } & Pick<System, "hashCost"> = {},
): Promise<Running> {
  // The port first: a second instance must not touch the database of the first.
  const { server, url, answer } = await listen(config);
  try {
    const database = await openConfiguredDatabase(config, log);
    let metrics: ServedMetrics | null = null;
    try {
      const { hashCost } = options;
      const system = { ...makeSystem(config, database.sql, clock, log), ...(hashCost && { hashCost }) };
      metrics = await openConfiguredMetrics(system);
      return await run(system, database, { server, url, answer }, metrics, options);
    } catch (error) {
      await metrics?.port.stop();
      await database.stop();
      throw error;
    }
  } catch (error) {
    server.close();
    server.closeAllConnections();
    throw error;
  }
}

/** Periodic jobs; each runs on one replica at a time. */
const periodicJobs = (
  deliverer: Deliverer,
  webhooks: WebhookSender,
  prepareDays: (days: readonly string[]) => Promise<void>,
  isMirroring: boolean,
): Job[] => [
  {
    name: "missed-heartbeats",
    everyMs: 1_000,
    isDue: isHeartbeatDue,
    run: (system) => followHeartbeats(system, prepareDays),
  },
  { name: "reminders", everyMs: 5_000, isDue: areRemindersDue, run: sendReminders },
  { name: "escalations", everyMs: 1_000, ...escalations() },
  {
    name: "held-deliveries",
    everyMs: 1_000,
    isDue: isHeldDue,
    run: (system) => releaseHeld(system, countFailingSlots),
  },
  { name: "groups", everyMs: 2_000, isDue: areGroupsDue, run: followGroups },
  { name: "flapping", everyMs: 5_000, isDue: isFlappingDue, run: settleFlapping },
  { name: "maintenance", everyMs: 1_000, isDue: isMaintenanceDue, run: followMaintenance },
  { name: "maintenance-occurrences", everyMs: 600_000, run: generateOccurrences },
  { name: "publications", everyMs: 5_000, isDue: isPublicationDue, run: publishDue },
  { name: "subscriber-news", everyMs: 5_000, isDue: isNewsDue, run: announce },
  { name: "subscriber-mails", everyMs: subscribersEveryMs, isDue: areMessagesDue, run: sendMails },
  { name: "subscriber-webhooks", everyMs: subscribersEveryMs, isDue: areMessagesDue, run: () => webhooks.start() },
  ...(isMirroring ? [{ name: "mirror", everyMs: 5_000, isDue: isMirrorDue, run: mirrorPages }] : []),
  { name: "heartbeat", everyMs: 15_000, run: heartbeatJob(deliverer.claimedAt) },
  { name: "channel-failures", everyMs: minuteMs, run: mailChannelFailures },
  { name: "monthly-reports", everyMs: minuteMs, run: sendMonthlyReports },
  { name: "operator-notices", everyMs: 15_000, run: notifyOperator },
  { name: "rollup", everyMs: minuteMs, run: rollUp },
  { name: "pack", everyMs: 600_000, run: pack },
  { name: "partitions", everyMs: hourMs, run: keepPartitions },
  { name: "retention", everyMs: hourMs, run: dropOldRollups },
  { name: "custom-domains", everyMs: 600_000, run: recheckDomains },
  { name: "nightly", everyMs: minuteMs, run: nightly },
  { name: "sweep", everyMs: 600_000, run: sweep },
  { name: "mcp", everyMs: 600_000, run: sweepMcp },
];

async function run(
  system: System,
  database: Database,
  { server, url, answer }: Listening,
  metrics: ServedMetrics | null,
  options: { checkReplies?: boolean },
): Promise<Running> {
  const { sql, direct } = database;
  const { config, clock, log } = system;
  for (const warning of config.warnings ?? []) log.warn({}, warning);
  if (config.channels.allow_http && !config.security.allow_private_targets)
    log.warn({}, "channels.allow_http has no effect without security.allow_private_targets");
  await migrate(direct);
  await requireDefaultPlan(system);
  await keepPartitions(system);
  await ensureRegion(system, config.scheduler.region);
  // Before requests are served: on-demand runs wait for a registered agent.
  const agentToken = config.scheduler.builtin_agent ? await registerOwnAgent(system) : null;
  const owner = await bootstrap(system);

  const draining = new AbortController();
  const hub = openHub(direct, log);
  const watch = watchDatabase({ pool: sql, direct, log, clock }, { statementMs: config.database.statement_timeout_ms });
  startDatabaseNotices(system, watch, draining.signal);
  const prepareDays = dayPreparer(sql);
  const ingest = openIngest(prepareDays, metrics?.seen.batch);
  metrics?.seen.watchQueue(ingest.load);
  const redis = config.redis.url === "" ? null : await openRedis(config.redis.url, log);
  metrics?.seen.watchSharedLimits(() => redis?.client.isReady ?? false);
  const counter = openCounter(redis?.client ?? null, clock);
  const handle = createApp({
    system,
    hub,
    ingest,
    pings: openPings(system, prepareDays),
    agentPings: openAgentPings(prepareDays),
    counter,
    draining: draining.signal,
    ready: watch.ready,
    onReply: metrics?.seen.request,
    checkReplies: options.checkReplies ?? false,
  }).callback();
  answer.with = (request, response) => void handle(request, response);

  // The embedded database is locked by this process.
  const isAlone = config.database.url === "";
  const deliverer = startDeliverer(system, hub, { isAlone, watch: metrics?.seen.attempt });
  const webhooks = openWebhookSender(system);
  const jobs = startJobs(
    system,
    periodicJobs(deliverer, webhooks, prepareDays, config.mirror.targets.length > 0),
    metrics?.seen.job,
  );
  const agent = agentToken === null ? null : startOwnAgent(system, url, agentToken);
  const files = config.declared.path === "" ? null : followFiles(system, process.env);
  metrics?.seen.watchDeclared(() => files?.isOk() ?? null);

  let stopped: Promise<void> | null = null;
  const stop = async () => {
    // The agent first: it reports its last results while the API is up.
    await agent?.stop(agentStopMs);
    draining.abort();
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeIdleConnections();
    await Promise.all([
      Promise.race([closed, sleep(drainMs)]),
      deliverer.stop(),
      Promise.race([files?.stop(), sleep(drainMs)]),
      Promise.race([jobs.stop().then(webhooks.stop), sleep(drainMs)]),
    ]);
    server.closeAllConnections();
    redis?.stop();
    await metrics?.port.stop();
    await watch.stop();
    await database.stop();
  };
  const reload = (): void => {
    system.abuse.reload();
    agent?.reload();
  };
  return { url, owner, reload, stop: () => (stopped ??= stop()) };
}

/** Registers the built-in agent of this data folder. Returns its token. */
async function registerOwnAgent(system: System): Promise<string> {
  const token = builtInAgentToken(system.config.data.dir);
  await ensureBuiltInAgent(system, token, `built-in on ${hostname()}`);
  return token;
}

function startOwnAgent(system: System, url: string, token: string): BuiltInAgent {
  const { config, log } = system;
  return startBuiltInAgent({
    url,
    token,
    dataDir: config.data.dir,
    allowPrivate: config.security.allow_private_targets,
    canaries: config.scheduler.canaries,
    rdapBootstrapUrl: config.checker.rdap_bootstrap_url,
    log,
  });
}

interface ServedMetrics {
  seen: Metrics;
  port: MetricsPort;
}

/** Null without `server.metrics_bind`: nothing is loaded or counted. */
async function openConfiguredMetrics(system: System): Promise<ServedMetrics | null> {
  const bind = system.config.server.metrics_bind;
  if (bind === "") return null;
  const [{ openMetrics }, { serveMetrics }] = await Promise.all([
    import("./operator/metrics/metrics.ts"),
    import("./operator/metrics/metrics.ts"),
  ]);
  const seen = openMetrics(system, version);
  const port = await serveMetrics(bind, seen, system.log).catch((error: NodeJS.ErrnoException) => {
    throw cannotListen(error, bind, "server.metrics_bind");
  });
  return { seen, port };
}
