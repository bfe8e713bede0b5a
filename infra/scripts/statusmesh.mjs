// npm run -s statusmesh -- <command>: builds, and runs a command of the control plane.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { prepare, root } from "./prepare.mjs";

prepare({ tests: false });
const child = spawn(
  process.execPath,
  ["--enable-source-maps", join(root, "packages/control-plane/bin/statusmesh.js"), ...process.argv.slice(2)],
  { stdio: "inherit" },
);
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(error.message);
  process.exit(1);
});
child.on("exit", (code) => process.exit(code ?? 1));
