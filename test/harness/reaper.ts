import { type ChildProcess, spawn } from "node:child_process";
import { Socket } from "node:net";

/*
 * Processes of a test end with it, also when the test runner kills the test: a shell outside of the process group of
 * the test reads the running ones from a pipe, and kills them when the pipe closes.
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

function report(change: "born" | "dead" | "folder", what: number | string): void {
  if (shell === null) {
    shell = spawn("/bin/sh", ["-c", script], { detached: true, stdio: ["pipe", "ignore", "ignore"] });
    shell.stdin!.on("error", () => undefined);
    shell.unref();
    if (shell.stdin instanceof Socket) shell.stdin.unref();
  }
  shell.stdin!.write(`${change} ${what}\n`);
}

/** Kills the process with this id when this one ends. */
export const reap = (pid: number): void => report("born", pid);

/** The process has ended: its id may be reused. */
export const spare = (pid: number): void => report("dead", pid);

/** Removes the folder when this process ends. */
export const reapFolder = (path: string): void => report("folder", path);
