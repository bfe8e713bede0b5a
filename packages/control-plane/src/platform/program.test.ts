import { fileURLToPath } from "node:url";
import t from "tap";
import { ownCommand, ownCommandHere } from "./program.ts";

const clone = fileURLToPath(new URL("../../../..", import.meta.url)).replace(/\/$/, "");

t.test("a command is printed as typed in this installation", async (t) => {
  t.equal(ownCommand("doctor", {}), "npm run -s statusmesh -- doctor");
  t.equal(ownCommand("doctor", { SM_COMMAND: "statusmesh" }), "statusmesh doctor");

  const here = (env: Record<string, string>, cwd = clone) => ownCommandHere("doctor", "/srv/data", env, cwd);
  t.equal(here({}), "npm run -s statusmesh -- doctor");
  t.equal(here({}, "/srv"), "SM_DATA__DIR=/srv/data npm run -s statusmesh -- doctor", "npm runs it in the clone");
  t.equal(
    here({ SM_DATA__DIR: "data", SM_SERVER__BIND: "127.0.0.1:9000", SM_DATABASE__URL: "postgres://u:secret@db/sm" }),
    "SM_DATA__DIR=/srv/data SM_SERVER__BIND=127.0.0.1:9000 npm run -s statusmesh -- doctor",
    "with what another shell does not have, but no secrets",
  );
  t.equal(here({ SM_CONFIG: "my 'x'.toml" }), "SM_CONFIG='my '\\''x'\\''.toml' npm run -s statusmesh -- doctor");
  t.equal(here({ SM_COMMAND: "statusmesh", SM_DATA__DIR: "/x" }), "statusmesh doctor", "an image sets its own");
});
