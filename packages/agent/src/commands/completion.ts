import { Argument, type Command } from "commander";
import { completionScript, type Shell, shells } from "@statusmesh/shared/shell/completion";

export function define(command: Command, whole: () => Promise<Command>): void {
  command
    .description(
      "Print completions for a shell.\n\n  bash  source <(sm-agent completion bash)\n  zsh   source <(sm-agent " +
        "completion zsh)\n  fish  sm-agent completion fish | source",
    )
    .addArgument(new Argument("<shell>", "the shell").choices([...shells]))
    .action(async (shell: Shell) => {
      process.stdout.write(completionScript(shell, await whole()));
    });
}
