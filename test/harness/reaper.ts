import { type ChildProcess, spawn } from "node:child_process";
import { Socket } from "node:net";

/*
 * Whatever a test starts ends with it, also when the test runner kills the test without a word: a shell outside of the
 * test's process group reads what lives from a pipe, and when the pipe closes it kills what is left.
 */
const script = `
alive=" "
while read -r change what; do
  case $change in
    born) alive="$alive$what " ;;
    dead) case $alive in *" $what "*) alive="\${alive%% $what *} \${alive#* $what }" ;; esac ;;
    folder) set -- "$@" "$what" ;;
  esac
done
for pid in $alive; do kill -9 "$pid" 2>/dev/null; done
[ $# -eq 0 ] || { sleep 0.5; rm -rf -- "$@"; }
`;

let shell: ChildProcess | null = null;

function tell(change: "born" | "dead" | "folder", what: number | string): void {
  if (shell === null) {
    shell = spawn("/bin/sh", ["-c", script], { detached: true, stdio: ["pipe", "ignore", "ignore"] });
    shell.stdin!.on("error", () => undefined);
    shell.unref();
    if (shell.stdin instanceof Socket) shell.stdin.unref();
  }
  shell.stdin!.write(`${change} ${what}\n`);
}

/** From now on the process with this id does not outlive this one. */
export const reap = (pid: number): void => tell("born", pid);

/** The process has ended: its id may soon be somebody else's. */
export const spare = (pid: number): void => tell("dead", pid);

/** From now on the folder does not outlive this process. */
export const reapFolder = (path: string): void => tell("folder", path);
