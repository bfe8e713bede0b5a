import { Command, CommanderError } from "commander";
import { exits } from "./shell/output.ts";
import { completeSwitches } from "./shell/options.ts";
import { version } from "./version.ts";

/** Each command is a separate module, loaded on demand. */
const commands: readonly {
  name: string;
  summary: string;
  load: () => Promise<{ define(command: Command, whole: () => Promise<Command>): void }>;
}[] = [
  { name: "run", summary: "run the checks of a region until stopped", load: () => import("./commands/run.ts") },
  { name: "check", summary: "run one check now and print its result", load: () => import("./commands/check.ts") },
  {
    name: "test-config",
    summary: "test everything that run needs, without running",
    load: () => import("./commands/test-config.ts"),
  },
  { name: "status", summary: "show agent status", load: () => import("./commands/status.ts") },
  { name: "spool", summary: "show the results waiting in a spool folder", load: () => import("./commands/spool.ts") },
  {
    name: "wrap",
    summary: "run a command and report it to a heartbeat monitor",
    load: () => import("./commands/wrap.ts"),
  },
  {
    name: "discover",
    summary: "declare monitors by labels of containers or annotations in Kubernetes",
    load: () => import("./commands/discover.ts"),
  },
  {
    name: "completion",
    summary: "print completions for bash, zsh or fish",
    load: () => import("./commands/completion.ts"),
  },
];

/** The program with its commands; commands that are not `wanted` have name and summary only. */
async function programWith(wanted: (name: string) => boolean): Promise<Command> {
  const program = new Command("sm-agent")
    .description("Runs the checks of one StatusMesh region and reports their results.")
    .version(version)
    .exitOverride()
    .configureOutput({
      outputError: (text, write) =>
        write(text.replace(/^error: /, "sm-agent: ").replace(/\.?\n\((Did you mean .*)\)\n$/, ". $1\n")),
    });
  for (const { name, summary, load } of commands) {
    const command = program.command(name).summary(summary);
    if (wanted(name)) (await load()).define(command, () => programWith(() => true));
  }
  return program;
}

/** Runs a command line without the name of the program. Sets the exit code of the process. */
export async function runCommand(words: readonly string[]): Promise<void> {
  const [first, second] = words;
  const asked = first === "help" ? second : first;
  try {
    const program = await programWith((name) => name === asked);
    await program.parseAsync(completeSwitches([...words]), { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // Usage errors of commander exit with 1; commands set their own exit code.
    const own = error.code === "commander.error" || error.exitCode === 0;
    process.exitCode = own ? error.exitCode : exits.usage;
  }
}
