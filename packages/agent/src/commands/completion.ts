import { Argument, type Command } from "commander";

const shells = ["bash", "zsh", "fish"] as const;
type Shell = (typeof shells)[number];

/** A command for completion: `sm-agent check http` is `check http`. */
interface Place {
  path: string;
  commands: string[];
  options: string[];
}

export function define(command: Command, whole: () => Promise<Command>): void {
  command
    .description(
      "Print completions for a shell.\n\n  bash  source <(sm-agent completion bash)\n  zsh   source <(sm-agent " +
        "completion zsh)\n  fish  sm-agent completion fish | source",
    )
    .addArgument(new Argument("<shell>", "the shell").choices([...shells]))
    .action(async (shell: Shell) => {
      process.stdout.write(scripts[shell](places(await whole(), "")));
    });
}

function places(command: Command, path: string): Place[] {
  const below = command.commands.flatMap((one) =>
    [one.name(), ...one.aliases()].flatMap((name) => places(one, `${path} ${name}`.trim())),
  );
  const options = [
    ...command.options.flatMap(({ long }) => (long === undefined || long === null ? [] : [long])),
    "--help",
  ];
  return [{ path, commands: command.commands.flatMap((one) => [one.name(), ...one.aliases()]), options }, ...below];
}

/** The words after the program that are commands. */
const cases = (found: readonly Place[]): string =>
  found
    .map(({ path, commands, options }) => `    "${path}") words="${[...commands, ...options].join(" ")}" ;;`)
    .join("\n");
const known = (found: readonly Place[]): string =>
  found
    .filter(({ path }) => path !== "")
    .map(({ path }) => `"${path}"`)
    .join("|");

const fishCase = ({ path, commands, options }: Place): string =>
  `    case "${path}"\n      string split " " "${[...commands, ...options].join(" ")}"`;

const scripts: Record<Shell, (found: readonly Place[]) => string> = {
  bash: (found) => `_sm_agent() {
  local path="" word words="" next
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    next="\${path:+$path }$word"
    case "$next" in
      ${known(found)}) path="$next" ;;
    esac
  done
  case "$path" in
${cases(found)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _sm_agent sm-agent
`,
  zsh: (found) => `#compdef sm-agent
_sm_agent() {
  local at_path="" word next words_here=""
  for word in "\${(@)words[2,CURRENT-1]}"; do
    next="\${at_path:+$at_path }$word"
    case "$next" in
      ${known(found)}) at_path="$next" ;;
    esac
  done
  case "$at_path" in
${cases(found).replaceAll(" words=", " words_here=")}
  esac
  compadd -- \${=words_here}
  _files
}
compdef _sm_agent sm-agent
`,
  fish: (found) => `function __sm_agent_words
  set -l at_path ""
  for word in (commandline -opc)[2..]
    set -l next (string trim "$at_path $word")
    switch $next
      case ${found
        .filter(({ path }) => path !== "")
        .map(({ path }) => `"${path}"`)
        .join(" ")}
        set at_path $next
    end
  end
  switch "$at_path"
${found.map(fishCase).join("\n")}
  end
end
complete -c sm-agent -a "(__sm_agent_words)"
`,
};
