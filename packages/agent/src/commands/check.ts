import { type Command, Option } from "commander";
import { probedTypes, detailsOf, errorInWords, kindOf, type ProbedSpec } from "@statusmesh/shared/checks";
import { diagnosisLine, diagnosisOf } from "@statusmesh/shared/protocol/diagnosis";
import type { FailureSnapshot } from "@statusmesh/shared/protocol/failure-snapshot";
import type { CheckStatus } from "@statusmesh/shared/protocol/result";
import { suggestion } from "@statusmesh/shared/text";
import { CheckUsage, optionsOf, specFrom, specFromFile } from "../shell/check-options.ts";
import { correctedClock } from "../clock.ts";
import { badge, bytes, exits, fail, milliseconds, phaseBar } from "../shell/output.ts";
import * as options from "../shell/options.ts";
import { paint, type Screen, screenOf, tame, type Tone } from "@statusmesh/shared/shell/terminal";
import type { Place } from "../http/docker-socket.ts";
import type { Commands } from "../probes/exec/commands.ts";
import type { Outcome } from "../run/run.ts";
import { version } from "../version.ts";

interface RunOptions {
  json?: true;
  allowPrivateTargets: boolean;
  rdapBootstrapUrl?: string;
  commands?: string;
  docker?: Place;
  caFile?: string;
}

/** `sm-agent check <kind> <subject>`: one subcommand per kind, derived from its schema. */
export function define(command: Command): void {
  command
    .description(
      "Run one check now, as the agent would, and print its result. Nothing is stored or reported. Exit code: 0" +
        " up, 2 degraded, 1 down or error.",
    )
    .usage("[options] <kind> <subject> [options of the kind]")
    .option("--spec <file>", "read the check from a JSON file, as the API takes it; - reads standard input")
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async (given: RunOptions & { spec?: string }, self: Command) => {
      const refuse = (message: string): never => fail(self, exits.usage, message);
      const [first] = self.args;
      if (first?.startsWith("-") === true) refuse(`unknown option '${first.replace(/=.*/, "")}'`);
      if (first !== undefined)
        refuse(
          `there is no kind "${first}" of check.${suggestion(first, probedTypes)} There are ${probedTypes.join(", ")}.`,
        );
      const { spec } = given;
      if (spec === undefined)
        return refuse(`what to check is missing: sm-agent check <${probedTypes.join(" | ")}> …, or --spec <file>`);
      await check(() => specFromFile(spec), given, self);
    });
  shared(command);
  for (const type of probedTypes) {
    const kind = kindOf({ type });
    const one = command
      .command(`${type} ${kind.shell!.subject}`)
      .summary(`${kind.label} of ${kind.shell!.subject}`)
      .description(`One ${kind.label} check. Exit code: 0 up, 2 degraded, 1 down or error.`);
    if (type.includes("_")) one.alias(type.replaceAll("_", "-"));
    for (const option of optionsOf(kind)) one.addOption(option);
    shared(one).action(async (subject: string, given: RunOptions & Record<string, unknown>, self: Command) => {
      const above = command.opts<RunOptions & { spec?: string }>();
      if (above.spec !== undefined) fail(self, exits.usage, "--spec stands for the whole check: leave the kind out.");
      // Commander hands options that both have to the command above, wherever they stand.
      const { allowPrivateTargets } =
        command.getOptionValueSource("allowPrivateTargets") === "cli" ? above : { ...above, ...given };
      const both = { ...given, ...above, allowPrivateTargets };
      await check(() => specFrom(type, subject, explicit(given, self), process.env), both, self);
    });
  }
}

function shared(command: Command): Command {
  return command
    .addOption(options.allowPrivateTargets())
    .addOption(options.rdapBootstrapUrl())
    .addOption(options.commands())
    .addOption(options.docker())
    .addOption(options.caFile())
    .addOption(new Option("--json", "print one JSON object, as POST /api/v1/targets/test answers it"));
}

/** Switches such as --no-verify-tls have a default in commander; only given options override the schema's. */
function explicit(given: Record<string, unknown>, command: Command): Record<string, unknown> {
  return Object.fromEntries(Object.entries(given).filter(([name]) => command.getOptionValueSource(name) !== "default"));
}

async function check(read: () => ProbedSpec, given: RunOptions, command: Command): Promise<void> {
  let spec: ProbedSpec;
  try {
    spec = read();
  } catch (error) {
    if (error instanceof CheckUsage) return fail(command, exits.usage, error.message);
    throw error;
  }
  await options.trustFile(command, given.caFile);
  const commands = given.commands === undefined ? null : await options.readCommands(command, given.commands);
  const outcome = await runOnce(spec, given, commands);
  const { measurement, warnings, components, timestamp } = outcome;
  const diagnosis = measurement.status === "up" ? {} : { diagnosis: diagnosisOf(outcome.diagnosis) };
  const at = new Date(timestamp).toISOString();
  const result = { target_id: null, region: null, timestamp: at, ...measurement, ...diagnosis };
  const text =
    given.json === true
      ? `${JSON.stringify({ result, matched_expectations: measurement.status === "up", warnings, components })}\n`
      : inWords(spec, outcome, given, screenOf(process.stdout, process.env));
  process.stdout.write(text);
  process.exitCode = exitOf[measurement.status];
}

const exitOf: Record<CheckStatus, number> = {
  up: exits.up,
  degraded: exits.degraded,
  down: exits.down,
  error: exits.down,
};

async function runOnce(spec: ProbedSpec, given: RunOptions, commands: Commands | null): Promise<Outcome> {
  const [{ Runner }, { RdapLookups }, { rdapCache }, { Stats }] = await Promise.all([
    import("../run/run.ts"),
    import("../rdap/lookups.ts"),
    import("../rdap/cache.ts"),
    import("../telemetry/stats.ts"),
  ]);
  const clock = correctedClock();
  const log = (_level: string, msg: string): void => void process.stderr.write(`sm-agent: ${msg}\n`);
  const userAgent = `StatusMesh/${version}`;
  const rdap = new RdapLookups({
    cache: rdapCache(null, { clock, log }),
    clock,
    log,
    userAgent,
    allowPrivate: given.allowPrivateTargets,
    registriesUrl: given.rdapBootstrapUrl,
  });
  const runner = new Runner({
    clock,
    log,
    stats: new Stats(),
    allowPrivate: given.allowPrivateTargets,
    userAgent,
    rdap,
    commands: () => commands,
    docker: given.docker,
  });
  const outcome = await runner.run("", { ...spec }, true).done;
  if (outcome === null) throw new Error("the run was abandoned");
  return outcome;
}

const tones: Record<CheckStatus, Tone> = { up: "good", degraded: "warn", down: "bad", error: "bad" };

/** Output for people: state, outcome, timing and warnings. */
export function inWords(
  spec: ProbedSpec,
  { measurement, timestamp, warnings, snapshot, diagnosis: code }: Outcome,
  given: Pick<RunOptions, "allowPrivateTargets">,
  screen: Screen,
): string {
  const { status, error, http_status, response_size, total_ms, details } = measurement;
  const found = [
    error !== null || details === null ? null : (detailsOf(spec.type)?.inWords(details, timestamp) ?? null),
    error === null ? null : errorInWords(error),
    http_status === null || error !== null ? null : `status ${http_status}`,
    response_size === null || error !== null ? null : bytes(response_size),
    total_ms === null ? null : milliseconds(total_ms),
  ].filter((part) => part !== null);
  const lines = [
    `${badge(status, tones[status], screen)}  ${tame(kindOf(spec).summary(spec))}`,
    `  ${tame(found.join(", "))}`,
  ];
  const notes = warnings.map((warning) => `  ${paint(`! ${tame(warning)}`, "warn", screen)}`);
  if (!given.allowPrivateTargets && error !== null && / is blocked \(|has no public address/.test(error))
    notes.push("  Private and local addresses are checked with --allow-private-targets.");
  const diagnosis = diagnosisOf(code);
  if (diagnosis !== null) notes.unshift(`  ${diagnosisLine(diagnosis)}.`);
  const response = snapshot === null ? [] : responseLines(snapshot());
  return `${lines.join("\n")}\n${phaseBar(phasesOf(measurement), screen)}${[...notes, ...response]
    .map((note) => `${note}\n`)
    .join("")}`;
}

/** The response of a failed check, indented. */
function responseLines({ status_line, headers, body }: FailureSnapshot): string[] {
  const lines = [status_line, ...headers.map(({ name, value }) => `${name}: ${value}`)];
  if (body !== null) lines.push("", ...body.split("\n"));
  return ["", ...lines.map((line) => `  ${tame(line)}`.trimEnd())];
}

/** The phases in order; the remaining time is `rest`. */
function phasesOf(measurement: Outcome["measurement"]): { name: string; ms: number }[] {
  const { dns_ms, connect_ms, tls_ms, ttfb_ms, total_ms } = measurement;
  const phases = [
    { name: "dns", ms: dns_ms },
    { name: "connect", ms: connect_ms },
    { name: "tls", ms: tls_ms },
    { name: "ttfb", ms: ttfb_ms },
  ].filter((phase): phase is { name: string; ms: number } => phase.ms !== null);
  const rest = (total_ms ?? 0) - phases.reduce((sum, { ms }) => sum + ms, 0);
  return phases.length > 0 && rest > 0.005 ? [...phases, { name: "rest", ms: rest }] : phases;
}
