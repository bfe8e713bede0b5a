// npm run test:citus: one PostgreSQL and a Citus cluster with the same results, reads and jobs; the loss of a worker
// (test/citus). Needs a PostgreSQL with Citus: that of pg_config, or the folder of programs in SM_CITUS_BIN.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { prepare, root } from "./prepare.mjs";

prepare();
const { status, signal } = spawnSync(
  process.execPath,
  ["--enable-source-maps", join(root, "test/dist/citus/main.js"), ...process.argv.slice(2)],
  { stdio: "inherit" },
);
process.exit(status ?? (signal === null ? 1 : 130));
