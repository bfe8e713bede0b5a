// npm start: builds, then runs the control plane in this process. Arguments after -- are passed on.
import { join } from "node:path";
import { prepare, root } from "./prepare.mjs";

const parent = process.ppid;
prepare({ tests: false });
process.setSourceMapsEnabled(true);
const program = join(root, "packages/control-plane/bin/statusmesh.js");
process.argv.splice(1, 1, program, "serve");
// Ctrl-C reaches the whole process group and npm forwards SIGINT and SIGTERM: the control plane accepts both copies.
stopWithPackageManager();
await import(program);

/**
 * Stops the service when the package manager was killed, or its shell ended by a signal, and forwards nothing. A hangup
 * under nohup also ends npm (Node resets an ignored SIGHUP), but must not end the service.
 */
function stopWithPackageManager() {
  if (process.env.npm_lifecycle_event === undefined) return;
  const watch = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(watch);
    process.kill(process.pid, "SIGTERM");
  }, 500).unref();
  if (!process.stdout.isTTY) process.once("SIGHUP", () => clearInterval(watch));
}
