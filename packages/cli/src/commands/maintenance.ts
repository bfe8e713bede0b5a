import { constants } from "node:os";
import type { Command } from "commander";
import type { Json } from "@statusmesh/shared/json";
import type { Api } from "../shell/api.ts";
import { connectionOf, connects, type ConnectionOptions } from "../shell/connection.ts";
import { collect, durationMs } from "../shell/options.ts";
import { counted, exits, Failure, tell, Unreachable } from "../shell/output.ts";
import { type Selection, selectMonitors, selects, theOne } from "../shell/select.ts";

interface Options extends ConnectionOptions, Selection {
  page?: string[];
  max: number;
  title?: string;
  bestEffort?: boolean;
}

export function define(command: Command): void {
  command.description("Maintenance windows around commands.");
  selects(connects(command.command("run")))
    .summary("run a command inside a maintenance window")
    .description(
      "Open a maintenance window, run a command, and end the window when it ends or is interrupted. The exit " +
        "code is that of the command: 128 and the number of a signal, 127 when it is not found.",
    )
    .option("--page <page>", "every monitor of a status page: its slug, name, key or id; repeatable", collect)
    .requiredOption("--max <duration>", "end of the window when this program is killed, such as 4h", durationMs)
    .option("--title <title>", "title on status pages; default: the command's name")
    .option("--best-effort", "run the command also when the server does not answer")
    .passThroughOptions()
    .argument("<command...>", "after --")
    .action(async (words: string[], options: Options) => {
      process.exitCode = await runInside(words, options);
    });
}

async function runInside(words: readonly string[], options: Options): Promise<number> {
  const { monitor = [], tag = [], page = [] } = options;
  if (monitor.length + tag.length + page.length === 0)
    throw new Failure("nothing is selected. Use --monitor, --tag or --page.");
  const api = await connectionOf(options);
  const signals = new Signals();
  let window: Json | null = null;
  try {
    window = await open(api, words[0]!, options, signals);
  } catch (error) {
    if (!(error instanceof Unreachable) || options.bestEffort !== true) throw error;
    tell(`smctl: ${error.message} The command runs without a maintenance window.`);
  }
  let ending: Promise<void> | null = null;
  const end = (): Promise<void> => (ending ??= window === null ? Promise.resolve() : close(api, window));
  const code = await run(words, signals, () => void end());
  await end();
  return code;
}

async function open(
  api: Api,
  program: string,
  { monitor = [], tag = [], page = [], max, title }: Options,
  signals: Signals,
): Promise<Json> {
  const ids = new Set<string>();
  if (monitor.length + tag.length > 0) for (const { id } of await selectMonitors(api, monitor, tag)) ids.add(id);
  for (const wanted of page) {
    const all = (await api.all("/api/v1/status-pages")) as unknown as { id: string; name: string; slug: string }[];
    const { id } = all.find(({ slug }) => slug === wanted) ?? theOne(all, wanted, "status page");
    for (const component of await api.all(`/api/v1/status-pages/${id}/components`))
      if (typeof component["target_id"] === "string") ids.add(component["target_id"]);
  }
  if (ids.size === 0) throw new Failure("the selected status page has no monitors.");
  const start = api.now();
  signals.take();
  const window = await api.post("/api/v1/maintenance", {
    title: title ?? `Maintenance (${program.split("/").at(-1)})`.slice(0, 200),
    starts_at: new Date(start).toISOString(),
    ends_at: new Date(start + max).toISOString(),
    component_ids: [...ids],
  });
  tell(`smctl: maintenance of ${counted(ids.size, "monitor")} until ${String(window["ends_at"])}.`);
  return window;
}

async function close(api: Api, window: Json): Promise<void> {
  try {
    // An end in the past is now, by the clock of the server.
    const ends = new Date(Date.parse(String(window["starts_at"])) + 1).toISOString();
    await api.patch(`/api/v1/maintenance/${String(window["id"])}`, { ends_at: ends });
    tell("smctl: the maintenance has ended.");
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    tell(`smctl: the maintenance continues until ${String(window["ends_at"])}: ${error.message}`);
  }
}

/** Signals that end programs: from `take` on they do not end this one, which would leave the window open. */
class Signals {
  first: NodeJS.Signals | null = null;
  onSignal = (signal: NodeJS.Signals): void => tell(`smctl: ${signal}: the command does not start.`);
  #isTaken = false;

  take(): void {
    if (this.#isTaken) return;
    this.#isTaken = true;
    for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
      process.on(name, () => {
        this.first ??= name;
        this.onSignal(name);
      });
  }
}

/**
 * Runs the command with our streams, unless a signal came before. Signals that end programs are passed on, and
 * `onSignal` is called at each.
 */
async function run(words: readonly string[], signals: Signals, onSignal: () => void): Promise<number> {
  const [program, ...args] = words;
  const { spawn } = await import("node:child_process");
  signals.take();
  if (signals.first !== null) return 128 + constants.signals[signals.first];
  return await new Promise((resolve) => {
    const child = spawn(program!, args, { stdio: "inherit" });
    signals.onSignal = (signal) => {
      onSignal();
      // Ctrl-C of a terminal reaches the command too.
      if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal);
    };
    child.once("error", (error: NodeJS.ErrnoException) => {
      if (child.pid !== undefined) return;
      const isMissing = error.code === "ENOENT";
      tell(`smctl: ${program} ${isMissing ? "is not found" : `cannot be run (${error.code ?? error.message})`}.`);
      resolve(isMissing ? 127 : 126);
    });
    child.once("exit", (code, signal) =>
      resolve(code ?? (signal === null ? exits.failed : 128 + constants.signals[signal])),
    );
  });
}
