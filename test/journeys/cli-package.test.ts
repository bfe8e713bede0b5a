import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import t from "tap";

const root = join(import.meta.dirname, "../../..");
const { packCli } = (await import(pathToFileURL(join(root, "infra/scripts/pack-cli.mjs")).href)) as {
  packCli(): Promise<string>;
};
const tarball = await packCli();
const folder = mkdtempSync(join(tmpdir(), "smctl-"));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));

t.test("npm installs it without a registry: one file that depends on nothing", (t) => {
  // An address that answers nothing.
  const settings = ["--registry", "http://127.0.0.1:9/", "--cache", join(folder, "cache"), "--no-audit", "--no-fund"];
  execFileSync("npm", ["install", "--global", "--prefix", folder, ...settings, tarball], {
    cwd: folder,
    stdio: "pipe",
  });
  const installed = join(folder, "lib/node_modules/smctl");
  const described = JSON.parse(readFileSync(join(installed, "package.json"), "utf8")) as Record<string, unknown>;
  t.notOk("dependencies" in described);
  const size = statSync(join(installed, "bin/smctl.js")).size;
  t.ok(size <= 1_048_576, `${size} bytes`);
  t.strictSame(execFileSync("tar", ["tzf", tarball], { encoding: "utf8" }).trim().split("\n").sort(), [
    "package/LICENSE",
    "package/README.md",
    "package/bin/THIRD-PARTY-LICENSES",
    "package/bin/smctl.js",
    "package/config.schema.json",
    "package/dist/request-bodies.json",
    "package/package.json",
  ]);
  t.match(JSON.parse(readFileSync(join(installed, "config.schema.json"), "utf8")), { properties: { monitors: {} } });
  const licences = readFileSync(join(installed, "bin/THIRD-PARTY-LICENSES"), "utf8");
  for (const name of ["commander", "typebox", "yaml"]) t.match(licences, new RegExp(`^${name} \\d.*\\n\\n.*\\S`, "m"));

  const program = join(folder, "bin/smctl");
  t.equal(execFileSync(program, ["--version"], { encoding: "utf8" }).trim(), described["version"]);
  writeFileSync(join(folder, "statusmesh.yaml"), "version: 1\nproject: shop\nmonitors: {a: {name: A, chek: {}}}\n");
  const { status, stderr } = spawnSync(program, ["validate"], { cwd: folder, encoding: "utf8" });
  t.equal(status, 1);
  t.match(stderr, /^statusmesh\.yaml:3:/);

  const check =
    "{type: http, url: https://example.org, expected_body_matches: a+, expected_json: [{path: $.a, op: exists}]}";
  writeFileSync(join(folder, "late.yaml"), `version: 1\nproject: shop\nmonitors: {a: {name: A, check: ${check}}}\n`);
  const late = spawnSync(program, ["validate", "late.yaml"], { cwd: folder, encoding: "utf8" });
  t.match(late, { status: 0, stderr: /no errors/ }, "libraries that are loaded on first use are inside");
  const taken = spawnSync(program, ["import", "kuma", "--env-file", "new.env", "none.db"], {
    cwd: folder,
    encoding: "utf8",
  });
  t.match(taken, { status: 1, stderr: /none\.db cannot be read/ }, "Node.js does not take --env-file for its own");

  const took = (args: readonly string[]): number => {
    const times = Array.from({ length: 7 }, () => {
      const began = performance.now();
      execFileSync(process.execPath, args);
      return performance.now() - began;
    });
    return Math.round(times.sort((a, b) => a - b)[3]!);
  };
  t.comment(
    `smctl.js has ${size} bytes, the tarball ${statSync(tarball).size}; ` +
      `--version takes ${took([program, "--version"])} ms, node -e 0 ${took(["-e", "0"])} ms ` +
      "(median of 7; to reach: 150 ms)",
  );
  t.end();
});
