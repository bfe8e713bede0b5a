// npm run test:ha [-- minutes]: kills primaries, control planes and Redis of a real cluster for five minutes (test/ha).
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { prepare, root } from "./prepare.mjs";

prepare();
const { status, signal } = spawnSync(
  process.execPath,
  ["--enable-source-maps", join(root, "test/dist/ha/main.js"), ...process.argv.slice(2)],
  { stdio: "inherit" },
);
process.exit(status ?? (signal === null ? 1 : 130));
