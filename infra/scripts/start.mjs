// npm start: brings everything up to date and runs the control plane. Arguments after -- are passed on.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { prepare, root } from "./prepare.mjs";

prepare({ tests: false });
const child = spawn(
  process.execPath,
  ["--enable-source-maps", join(root, "packages/control-plane/dist/main.js"), "serve", ...process.argv.slice(2)],
  { stdio: "inherit" },
);
// Ctrl-C reaches the whole terminal group; asking twice is harmless, and a signal from elsewhere reaches only this process.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(error.message);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
