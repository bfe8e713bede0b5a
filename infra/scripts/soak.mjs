// npm run soak [-- --monitors 500 --days 30]: weeks of monitoring with time sped up (test/soak).
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { prepare, root } from "./prepare.mjs";

prepare();
const { status, signal } = spawnSync(
  process.execPath,
  ["--enable-source-maps", "--expose-gc", join(root, "test/dist/soak/main.js"), ...process.argv.slice(2)],
  { stdio: "inherit" },
);
process.exit(status ?? (signal === null ? 1 : 130));
