// npm start: builds and runs the control plane. Arguments after -- are passed on.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { prepare, root } from "./prepare.mjs";

const parent = process.ppid;
prepare({ tests: false });
const child = spawn(
  process.execPath,
  ["--enable-source-maps", join(root, "packages/control-plane/bin/statusmesh.js"), "serve", ...process.argv.slice(2)],
  { stdio: "inherit" },
);
// Ctrl-C reaches the whole process group and npm forwards SIGINT and SIGTERM: the control plane accepts both copies.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
stopWithPackageManager();
child.on("error", (error) => {
  console.error(error.message);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});

/**
 * Stops the service when the package manager was killed, or its shell ended by a signal, and forwards nothing. A hangup
 * under nohup also ends npm (Node resets an ignored SIGHUP), but must not end the service.
 */
function stopWithPackageManager() {
  if (process.env.npm_lifecycle_event === undefined) return;
  const watch = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(watch);
    child.kill("SIGTERM");
  }, 200).unref();
  if (!process.stdout.isTTY) process.once("SIGHUP", () => clearInterval(watch));
}
