/** Shells that have completions. */
export const shells = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof shells)[number];

/** What is needed of a command of commander. */
interface CommandLike {
  readonly commands: readonly CommandLike[];
  readonly options: readonly { readonly long?: string | null | undefined }[];
  readonly registeredArguments: readonly { readonly argChoices?: readonly string[] | undefined }[];
  name(): string;
  aliases(): string[];
}

/** A command for completion: `sm-agent check http` is `check http`. */
interface Place {
  path: string;
  /** Commands below it, and the words that its arguments take. */
  words: string[];
  options: string[];
}

/** The script that completes the commands and options of a program. */
export const completionScript = (shell: Shell, program: CommandLike): string =>
  scripts[shell](places(program, ""), program.name());

function places(command: CommandLike, path: string): Place[] {
  const below = command.commands.flatMap((one) =>
    [one.name(), ...one.aliases()].flatMap((name) => places(one, `${path} ${name}`.trim())),
  );
  const options = [
    ...command.options.flatMap(({ long }) => (long === undefined || long === null ? [] : [long])),
    "--help",
  ];
  const words = [
    ...command.commands.flatMap((one) => [one.name(), ...one.aliases()]),
    ...command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
  ];
  return [{ path, words, options }, ...below];
}

/** The words after the program that are commands. */
const cases = (found: readonly Place[]): string =>
  found.map(({ path, words, options }) => `    "${path}") words="${[...words, ...options].join(" ")}" ;;`).join("\n");
const known = (found: readonly Place[], separator: string): string =>
  found
    .filter(({ path }) => path !== "")
    .map(({ path }) => `"${path}"`)
    .join(separator);

/** After `--`, because options are no options of `string`. */
const fishCase = ({ path, words, options }: Place): string =>
  `    case "${path}"\n      string split -- " " "${[...words, ...options].join(" ")}"`;

/** A function of the shell for a program. */
const functionOf = (name: string): string => `_${name.replaceAll("-", "_")}`;

const scripts: Record<Shell, (found: readonly Place[], name: string) => string> = {
  bash: (found, name) => `${functionOf(name)}() {
  local path="" word words="" next
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    next="\${path:+$path }$word"
    case "$next" in
      ${known(found, "|")}) path="$next" ;;
    esac
  done
  case "$path" in
${cases(found)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F ${functionOf(name)} ${name}
`,
  zsh: (found, name) => `#compdef ${name}
${functionOf(name)}() {
  local at_path="" word next words_here=""
  for word in "\${(@)words[2,CURRENT-1]}"; do
    next="\${at_path:+$at_path }$word"
    case "$next" in
      ${known(found, "|")}) at_path="$next" ;;
    esac
  done
  case "$at_path" in
${cases(found).replaceAll(" words=", " words_here=")}
  esac
  compadd -- \${=words_here}
  _files
}
compdef ${functionOf(name)} ${name}
`,
  fish: (found, name) => `function _${functionOf(name)}_words
  set -l at_path ""
  for word in (commandline -opc)[2..]
    set -l next (string trim "$at_path $word")
    switch $next
      case ${known(found, " ")}
        set at_path $next
    end
  end
  switch "$at_path"
${found.map(fishCase).join("\n")}
  end
end
complete -c ${name} -a "(_${functionOf(name)}_words)"
`,
};
