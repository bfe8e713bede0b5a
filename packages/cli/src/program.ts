import { Command, CommanderError } from "commander";
import { tame } from "@statusmesh/shared/shell/terminal";
import * as ack from "./commands/ack.ts";
import { apply, plan } from "./commands/apply.ts";
import * as checkNow from "./commands/check-now.ts";
import * as completion from "./commands/completion.ts";
import { pause, resume } from "./commands/enabling.ts";
import * as exportCommand from "./commands/export.ts";
import * as get from "./commands/get.ts";
import * as history from "./commands/history.ts";
import * as importCommand from "./commands/import.ts";
import * as list from "./commands/list.ts";
import * as login from "./commands/login.ts";
import * as maintenance from "./commands/maintenance.ts";
import { adopt, detach } from "./commands/managing.ts";
import * as test from "./commands/test.ts";
import * as validate from "./commands/validate.ts";
import * as wait from "./commands/wait.ts";
import { Failure } from "./shell/output.ts";
import { version } from "./package.ts";

/** Each command declares itself; what it does is loaded when it runs. */
const commands: readonly {
  name: string;
  summary: string;
  define(command: Command, whole: () => Command): void;
}[] = [
  { name: "login", summary: "store the address of a server and a token", define: login.define },
  { name: "validate", summary: "check files without a server", define: validate.define },
  { name: "plan", summary: "show what apply would do", define: plan },
  { name: "apply", summary: "apply the files to the server", define: apply },
  { name: "export", summary: "write stored objects as a file", define: exportCommand.define },
  { name: "import", summary: "import from another product", define: importCommand.define },
  { name: "history", summary: "send the history that import wrote", define: history.define },
  { name: "adopt", summary: "let a project declare a stored object", define: adopt },
  { name: "detach", summary: "stop declaring an object", define: detach },
  { name: "list", summary: "list monitors, channels, pages, ...", define: list.define },
  { name: "get", summary: "show one monitor, channel, page, ...", define: get.define },
  { name: "test", summary: "run a monitor of the files once, without storing", define: test.define },
  { name: "check-now", summary: "run the check of a monitor now", define: checkNow.define },
  { name: "ack", summary: "acknowledge incidents", define: ack.define },
  { name: "pause", summary: "pause monitors", define: pause },
  { name: "resume", summary: "resume paused monitors", define: resume },
  { name: "wait", summary: "wait until monitors are healthy", define: wait.define },
  { name: "maintenance", summary: "run a command inside a maintenance window", define: maintenance.define },
  { name: "completion", summary: "print completions for bash, zsh or fish", define: completion.define },
];

/** The program with its commands; commands that are not `wanted` have name and summary only. */
function programWith(wanted: (name: string) => boolean): Command {
  const program = new Command("smctl")
    .description("StatusMesh from the command line: configuration in files, monitors, incidents, maintenance.")
    .version(version)
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      outputError: (text, write) =>
        write(text.replace(/^error: /, "smctl: ").replace(/\.?\n\((Did you mean .*)\)\n$/, ". $1\n")),
    });
  for (const { name, summary, define } of commands) {
    const command = program.command(name).summary(summary);
    if (wanted(name)) define(command, () => programWith(() => true));
  }
  return program;
}

/** Runs the command that the arguments name. Sets the exit code of the process. */
export async function run(args: readonly string[]): Promise<void> {
  const [first, second] = args;
  const asked = first === "help" ? second : first;
  // A reader that has seen enough, such as head, is no error.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    process.exit();
  });
  try {
    await programWith((name) => name === asked).parseAsync(args, { from: "user" });
  } catch (error) {
    if (error instanceof Failure) {
      if (error.message !== "") process.stderr.write(`smctl: ${error.message.split("\n").map(tame).join("\n")}\n`);
      process.exitCode = error.exitCode;
    } else if (error instanceof CommanderError) process.exitCode = error.exitCode;
    else throw error;
  }
}
