import { Command, InvalidArgumentError } from "commander";
import { AppError } from "@statusmesh/shared/errors";
import { endpointNames } from "./alerting/channels/kinds/index.ts";
import { loadConfig } from "./config/config.ts";
import type { Clock } from "./platform/process/clock.ts";
import { asStartupError } from "./platform/db/client/failures.ts";
import { type Log, openLog, silentLog } from "./platform/process/log.ts";
import { ownCommandHere, version } from "./platform/program.ts";
import { StartupError } from "./config/startup-error.ts";

/* Each command loads its modules on demand: all of them together take a second. */

const clock: Clock = { now: () => Date.now() };

const program = new Command("statusmesh")
  .description("Uptime monitoring, alerting and public status pages.")
  .version(version)
  .option("--config <file>", "configuration file (default: statusmesh.toml, or SM_CONFIG)");

const configuration = () =>
  loadConfig({
    path: program.opts<{ config?: string }>().config,
    env: process.env,
    cwd: process.cwd(),
    tty: process.stdout.isTTY,
    endpointNames,
  });

program.command("serve", { isDefault: true }).description("Run the control plane").action(runServer);

program
  .command("migrate")
  .description("Migrate the database to the schema of this release")
  .action(async () => {
    const config = configuration();
    const [{ openConfiguredDatabase }, { migrate }] = await Promise.all([
      import("./operator/open-system.ts"),
      import("./platform/db/migrate.ts"),
    ]);
    const database = await openConfiguredDatabase(config, silentLog);
    try {
      const ran = await migrate(database.direct);
      process.stdout.write(ran.length === 0 ? "The database is up to date.\n" : `Ran ${ran.join(", ")}.\n`);
    } finally {
      await database.stop();
    }
  });

program
  .command("bootstrap-owner")
  .description("Print a one-time sign-in link for an owner; also while the service runs")
  .option("--email <address>", "email address of the owner (default: the first)")
  .option("--token", "also print an API token with every scope")
  .option("--expires-in-days <days>", "lifetime of that token in days, 1 to 365", wholeDays, 30)
  .action(async ({ email, token, expiresInDays }: { email?: string; token?: boolean; expiresInDays: number }) => {
    const config = configuration();
    const access = { email: email ?? null, tokenDays: token === true ? expiresInDays : null };
    const { giveAccess } = await import("./operator/commands/bootstrap-owner.ts");
    await giveAccess(config, clock, access, print);
  });

program
  .command("reset-sign-in")
  .argument("<email>", "email address of a member")
  .description("Print a one-time link that resets how a person signs in; also while the service runs")
  .action(async (email: string) => {
    const config = configuration();
    const { printReset } = await import("./operator/commands/reset-sign-in.ts");
    await printReset(config, clock, email, print);
  });

program
  .command("orgs")
  .description("List the organisations with their plans, usage and overrides; also while the service runs")
  .option("--search <text>", "only those with this text in the name or slug", "")
  .option("--json", "print all fields as JSON")
  .action(async ({ search, json }: { search: string; json?: boolean }) => {
    const config = configuration();
    const { printOrgs } = await import("./operator/commands/orgs.ts");
    const { withSystem } = await import("./operator/open-system.ts");
    await withSystem(config, clock, "orgs", (system) => printOrgs(system, { q: search, json: json ?? false }, print));
  });

program
  .command("set-plan")
  .argument("<org>", "id or slug of the organisation")
  .argument("<plan>", "id of the plan")
  .option(
    "--override <limit=value>",
    "override a limit: a number, unlimited, or plan to remove the override; repeatable, others are kept",
    (text: string, before: string[]) => [...before, text],
    [],
  )
  .description("Set the plan of an organisation, and override its limits; also while the service runs")
  .action(async (org: string, plan: string, { override: overrides }: { override: string[] }) => {
    const config = configuration();
    const { setPlan } = await import("./operator/commands/orgs.ts");
    const { withSystem } = await import("./operator/open-system.ts");
    await withSystem(config, clock, "set-plan", (system) => setPlan(system, { org, plan, overrides }, print));
  });

program
  .command("rotate-kek")
  .description("Encrypt all stored secrets with the new key; the service may run if it has both keys")
  .action(async () => {
    const config = configuration();
    const { rotateKek } = await import("./operator/commands/rotate-kek.ts");
    process.exitCode = await rotateKek(config, clock, print);
  });

program
  .command("backup")
  .argument("<file>", "the file to write; it must not exist")
  .description("Write the whole database to one file; also while the service runs")
  .action(async (file: string) => {
    const config = configuration();
    const { backup } = await import("./operator/commands/backup.ts");
    process.exitCode = await backup(config, clock, file, print);
  });

program
  .command("restore")
  .argument("<file>", "a file that statusmesh backup wrote")
  .description("Restore a backup into the configured database, which must be empty")
  .action(async (file: string) => {
    const config = configuration();
    const { restore } = await import("./operator/commands/backup.ts");
    process.exitCode = await restore(config, clock, file, print);
  });

program
  .command("distribute")
  .option("--dry-run", "only print what would be done")
  .description("Spread results over the workers of a Citus cluster, whose coordinator database.url names")
  .action(async ({ dryRun }: { dryRun?: boolean }) => {
    const config = configuration();
    const { distribute } = await import("./operator/commands/distribute.ts");
    const { withSystem } = await import("./operator/open-system.ts");
    await withSystem(config, clock, "distribute", (system) => distribute(system, { dryRun: dryRun ?? false }, print));
  });

program
  .command("telegram-webhook")
  .description("Register /hooks/telegram at Telegram for the configured bot")
  .action(async () => {
    const config = configuration();
    const { registerTelegramWebhook } = await import("./operator/commands/telegram-webhook.ts");
    process.exitCode = await registerTelegramWebhook(config, clock, print);
  });

program
  .command("mirror")
  .requiredOption("--check", "read every file of the copies back and compare it")
  .description("Check the copies of status pages (mirror.targets), one line each; exit code 1 on a failure")
  .action(async () => {
    const config = configuration();
    const { checkMirrors } = await import("./publishing/public/mirror/service.ts");
    const { withSystem } = await import("./operator/open-system.ts");
    await withSystem(config, clock, "mirror --check", async (system) => {
      if (!(await checkMirrors(system, print))) process.exitCode = 1;
    });
  });

program
  .command("doctor")
  .description("Check everything the service needs, one line each; exit code 1 on a failure")
  .option("--json", "print the findings as JSON")
  .action(async ({ json }: { json?: boolean }) => {
    const [{ doctor }, { filesInWords: files, sourcesInWords: sources }, { mirrorInWords: mirror }] = await Promise.all(
      [
        import("./operator/commands/doctor.ts"),
        import("./interfaces/declared/service.ts"),
        import("./publishing/public/mirror/service.ts"),
      ],
    );
    process.exitCode = await doctor(configuration, clock, print, json ?? false, { files, sources, mirror });
  });

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

function wholeDays(text: string): number {
  const days = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (days < 1 || days > 365) throw new InvalidArgumentError("Use a whole number of days from 1 to 365.");
  return days;
}

async function runServer(): Promise<void> {
  const config = configuration();
  const log = openLog(config.log.level, config.log.format);
  // Before the first await, so that a signal during the start drains, too.
  const started = import("./serve.ts").then(({ serve }) => serve(config, clock, log));
  stopOnSignals(async () => await (await started.catch(() => null))?.stop(), log);
  const running = await started;
  const { signInUrl } = await import("./access/auth/passkeys/service.ts");
  // The link is a secret of the administrator: standard error only, never the log.
  const unknownPort = config.server.public_url.endsWith(":0");
  const base = unknownPort ? running.url : config.server.public_url;
  const { signInPath } = running.owner;
  const signIn = signInPath === null ? null : unknownPort ? base + signInPath : signInUrl(config, signInPath);
  if (config.log.format === "json") log.info({ url: base, version }, "ready");
  process.stderr.write(
    welcome(
      base,
      config.auth.required
        ? howToSignIn(running.owner.email, signIn, ownCommandHere("bootstrap-owner", config.data.dir))
        : "Sign-in is off (auth.required is false): every visitor acts as the owner.",
    ),
  );
  // A closing terminal sends SIGHUP, too; there it stops the service.
  if (!process.stdout.isTTY) process.on("SIGHUP", running.reload);
}

function howToSignIn(owner: string, link: string | null, command: string): string {
  return link === null
    ? `The owner has a session already. New sign-in link: ${command}`
    : `Sign in as ${owner} (once, within 15 minutes): ${link}`;
}

function welcome(url: string, how: string): string {
  const lines = [
    `StatusMesh ${version} is ready: ${url}`,
    how,
    `Status page: ${url}/status   API: ${url}/docs   Stop: Ctrl-C`,
  ];
  return `\n  ${lines.join("\n  ")}\n\n`;
}

function stopOnSignals(stop: () => Promise<void>, log: Log): void {
  let stopAt: number | null = null;
  const onSignal = (signal: NodeJS.Signals) => {
    // Ctrl-C reaches the whole process group, and npm forwards it: one stop arrives several times.
    if (stopAt !== null && clock.now() - stopAt > 1000) process.exit(130);
    if (stopAt !== null) return;
    stopAt = clock.now();
    log.info({ signal }, "stopping");
    stop().then(
      () => process.exit(0),
      (error: unknown) => {
        log.error({ err: String(error) }, "stop failed");
        process.exit(1);
      },
    );
  };
  if (process.stdout.isTTY) process.on("SIGHUP", onSignal);
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
}

try {
  await program.parseAsync();
} catch (thrown) {
  const error = asStartupError(thrown);
  if (!(error instanceof StartupError || error instanceof AppError)) throw error;
  process.stderr.write(`statusmesh: ${error.message.replaceAll("\n", "\nstatusmesh: ")}\n`);
  process.exitCode = error instanceof StartupError ? error.exitCode : 1;
}
