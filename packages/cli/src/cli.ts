#!/usr/bin/env -S node --
import { Command, CommanderError } from "commander";
import { tame } from "@statusmesh/shared/terminal";
import { Failure } from "./shell/failure.ts";
import { version } from "./version.ts";

/** Each command is a separate module, loaded on demand. */
const commands: readonly {
  name: string;
  summary: string;
  load: () => Promise<{ define(command: Command, whole: () => Promise<Command>): void }>;
}[] = [
  { name: "login", summary: "store the address of a server and a token", load: () => import("./commands/login.ts") },
  { name: "validate", summary: "check files without a server", load: () => import("./commands/validate.ts") },
  { name: "plan", summary: "show what apply would do", load: () => import("./commands/plan.ts") },
  { name: "apply", summary: "make the server what the files say", load: () => import("./commands/apply.ts") },
  { name: "export", summary: "write stored objects as a file", load: () => import("./commands/export.ts") },
  { name: "import", summary: "move from another product", load: () => import("./commands/import.ts") },
  {
    name: "history",
    summary: "send the past that import wrote",
    load: () => import("./commands/history.ts"),
  },
  { name: "adopt", summary: "let a project declare a stored object", load: () => import("./commands/adopt.ts") },
  { name: "detach", summary: "stop declaring an object", load: () => import("./commands/detach.ts") },
  { name: "list", summary: "list monitors, channels, pages, ...", load: () => import("./commands/list.ts") },
  { name: "get", summary: "show one monitor, channel, page, ...", load: () => import("./commands/get.ts") },
  {
    name: "test",
    summary: "run a monitor of the files once, without storing",
    load: () => import("./commands/test.ts"),
  },
  { name: "check-now", summary: "run the check of a monitor now", load: () => import("./commands/check-now.ts") },
  { name: "ack", summary: "acknowledge incidents", load: () => import("./commands/ack.ts") },
  { name: "pause", summary: "pause monitors", load: () => import("./commands/pause.ts") },
  { name: "resume", summary: "resume paused monitors", load: () => import("./commands/resume.ts") },
  { name: "wait", summary: "wait until monitors are healthy", load: () => import("./commands/wait.ts") },
  {
    name: "maintenance",
    summary: "run a command inside a maintenance window",
    load: () => import("./commands/maintenance.ts"),
  },
  {
    name: "completion",
    summary: "print completions for bash, zsh or fish",
    load: () => import("./commands/completion.ts"),
  },
];

/** The program with its commands; commands that are not `wanted` have name and summary only. */
async function programWith(wanted: (name: string) => boolean): Promise<Command> {
  const program = new Command("smctl")
    .description("StatusMesh from the command line: configuration in files, monitors, incidents, maintenance.")
    .version(version)
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      outputError: (text, write) =>
        write(text.replace(/^error: /, "smctl: ").replace(/\.?\n\((Did you mean .*)\)\n$/, ". $1\n")),
    });
  for (const { name, summary, load } of commands) {
    const command = program.command(name).summary(summary);
    if (wanted(name)) (await load()).define(command, () => programWith(() => true));
  }
  return program;
}

const args = process.argv.slice(2);
const [first, second] = args;
const asked = first === "help" ? second : first;
// A reader that has seen enough, such as head, is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit();
});
try {
  const program = await programWith((name) => name === asked);
  await program.parseAsync(args, { from: "user" });
} catch (error) {
  if (error instanceof Failure) {
    if (error.message !== "") process.stderr.write(`smctl: ${error.message.split("\n").map(tame).join("\n")}\n`);
    process.exitCode = error.exitCode;
  } else if (error instanceof CommanderError) process.exitCode = error.exitCode;
  else throw error;
}
