import { Argument, type Command } from "commander";
import { completionScript, type Shell, shells } from "@statusmesh/shared/shell/completion";
import { print } from "../shell/output.ts";

export function define(command: Command, whole: () => Command): void {
  command
    .description(
      "Print completions for a shell.\n\n  bash  source <(smctl completion bash)\n  zsh   source <(smctl completion " +
        "zsh)\n  fish  smctl completion fish | source",
    )
    .addArgument(new Argument("<shell>", "the shell").choices([...shells]))
    .action((shell: Shell) => print(completionScript(shell, whole())));
}
