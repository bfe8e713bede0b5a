import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";

const root = join(import.meta.dirname, "../../..");
const { packCli } = (await import(pathToFileURL(join(root, "infra/scripts/pack-cli.mjs")).href)) as {
  packCli(): Promise<string>;
};
const tarball = await packCli();
const folder = mkdtempSync(join(tmpdir(), "smctl-"));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));

/** Bytes of the files of the package that a run loads. */
function loadedBytes(program: string, args: readonly string[]): number {
  const coverage = mkdtempSync(join(folder, "loaded-"));
  spawnSync(program, args, { cwd: folder, env: { ...process.env, NODE_V8_COVERAGE: coverage } });
  const urls = readdirSync(coverage).flatMap((name) =>
    (JSON.parse(readFileSync(join(coverage, name), "utf8")) as { result: { url: string }[] }).result.map(
      ({ url }) => url,
    ),
  );
  return urls.filter((url) => url.startsWith("file:")).reduce((sum, url) => sum + statSync(fileURLToPath(url)).size, 0);
}

t.test("npm installs it without a registry: it depends on nothing, and loads what a command needs", (t) => {
  // An address that answers nothing.
  const settings = ["--registry", "http://127.0.0.1:9/", "--cache", join(folder, "cache"), "--no-audit", "--no-fund"];
  execFileSync("npm", ["install", "--global", "--prefix", folder, ...settings, tarball], {
    cwd: folder,
    stdio: "pipe",
  });
  const installed = join(folder, "lib/node_modules/smctl");
  const described = JSON.parse(readFileSync(join(installed, "package.json"), "utf8")) as Record<string, unknown>;
  t.notOk("dependencies" in described);
  const parts = readdirSync(join(installed, "bin")).filter((name) => name.endsWith(".js"));
  const size = parts.reduce((sum, name) => sum + statSync(join(installed, "bin", name)).size, 0);
  t.ok(size <= 1_150_000, `${size} bytes`);
  const files = execFileSync("tar", ["tzf", tarball], { encoding: "utf8" }).trim().split("\n").sort();
  t.strictSame(
    files.filter((name) => !/^package\/bin\/[\w-]+-[A-Z0-9]{8}\.js$/.test(name)),
    [
      "package/LICENSE",
      "package/README.md",
      "package/bin/THIRD-PARTY-LICENSES",
      "package/bin/smctl.js",
      "package/config.schema.json",
      "package/dist/request-bodies.json",
      "package/package.json",
    ],
  );
  matchObject(t, JSON.parse(readFileSync(join(installed, "config.schema.json"), "utf8")), {
    properties: { monitors: {} },
  });
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
  matchObject(t, late, { status: 0, stderr: /no errors/ }, "libraries that are loaded on first use are inside");
  const taken = spawnSync(program, ["import", "kuma", "--env-file", "new.env", "none.db"], {
    cwd: folder,
    encoding: "utf8",
  });
  matchObject(
    t,
    taken,
    { status: 1, stderr: /none\.db cannot be read/ },
    "Node.js does not take --env-file for its own",
  );

  const bytes = Object.fromEntries(
    [
      "--version",
      "plan --help",
      "import --help",
      "list --url http://127.0.0.1:9 --token none",
      "validate late.yaml",
    ].map((words) => [words, loadedBytes(program, words.split(" "))]),
  );
  t.comment(`${size} bytes in ${parts.length} files; loaded: ${JSON.stringify(bytes)}`);
  for (const words of ["--version", "plan --help", "import --help"])
    t.ok(
      bytes[words]! > 10_000 && bytes[words]! <= 90_000,
      `${words} loads commander and its options: ${bytes[words]}`,
    );
  const [, , , list, validate] = Object.values(bytes);
  t.ok(list! <= 120_000, "what asks the server needs neither YAML nor schemas");
  t.ok(validate! <= size * 0.8, "what reads files needs neither importers nor Socket.IO");
  t.end();
});
