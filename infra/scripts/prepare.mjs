// Installs dependencies, compiles and bundles, when something changed. Every other script calls it first.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { availableParallelism, homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const stamps = join(root, ".build");
const manifest = JSON.parse(fs.readFileSync(join(root, "package.json"), "utf8"));
const packages = [...fs.readdirSync(join(root, "packages")).map((name) => `packages/${name}`), "test"].filter((dir) =>
  fs.existsSync(join(root, dir, "package.json")),
);

const patches = fs.readdirSync(join(root, "infra/patches")).map((name) => `infra/patches/${name}`);

/** The path of a development tool's program. */
export const tool = (name) => join(root, "node_modules/.bin", name);

/** TypeScript 7 compiles in a quarter of the time of 5.9, which tap and the linters still import. */
const compiler = join(root, "node_modules/typescript7/lib/tsc.js");

/** A checker repeats what another has done, and each collection reads all types: by default it takes 52 s, not 24. */
const checkers = Math.max(1, Math.floor(availableParallelism() / 2));

/** Program, arguments and environment that run the compiler. */
export const compilation = (args) => [
  process.execPath,
  [compiler, ...args, "--checkers", String(checkers)],
  { ...process.env, GOGC: "400" },
];

/** The bundles of the programs. Without them the files in bin/ run what the compiler wrote. */
const bundles = ["agent/dist/bundle/cli.js", "cli/dist/bundle/cli.js", "control-plane/dist/bundle/main.js"].map(
  (file) => `packages/${file}`,
);

/**
 * Updates dependencies, with `compiled` the compiled output, with `tests` also of the tests, with `bundled` also of the
 * bundles. Ends the process after a failure.
 */
export function prepare({ compiled = true, tests = true, bundled = true } = {}) {
  const files = [
    "package.json",
    "pnpm-workspace.yaml",
    "pnpm-lock.yaml",
    ...patches,
    ...packages.map((dir) => `${dir}/package.json`),
  ];
  const installed = digest(files.map((file) => fs.readFileSync(join(root, file))));
  once("install", installed, fs.existsSync(join(root, "node_modules")), "installing dependencies", () =>
    installPackages(root),
  );
  if (!compiled) return;

  const withoutTests = packages.filter((dir) => dir !== "test");
  const projects = tests ? packages : withoutTests;
  const sourceDigest = (dirs) => {
    const sources = [...dirs.flatMap((dir) => [...sourcesOf(dir)]), "infra/tsconfig.base.json"];
    return digest([installed, process.version, ...sources.map(statLine)]);
  };
  const built = sourceDigest(projects);
  const complete = projects.every((dir) => fs.existsSync(join(root, dir, "dist/.tsbuildinfo")));
  once(tests ? "build-all" : "build", built, complete, "compiling", () => {
    run(...compilation(["-b", ...projects]));
    for (const dir of projects) removeOrphans(dir);
    run(process.execPath, [join(root, "infra/scripts/request-bodies.mjs")]);
    for (const file of bundles) fs.rmSync(join(root, file), { force: true });
    // Otherwise npm start would compile again, and make the bundles again that running programs load from.
    if (tests) stamp("build", sourceDigest(withoutTests));
  });
  const exist = bundles.every((file) => fs.existsSync(join(root, file)));
  if (bundled && !exist) run(process.execPath, [join(root, "infra/scripts/bundle.mjs")]);
}

/** Calls `work` unless the stamp of that name has the same input. */
function once(name, input, complete, title, work) {
  const file = join(stamps, name);
  if (complete && fs.existsSync(file) && fs.readFileSync(file, "utf8") === input) return;
  process.stderr.write(`${title} ...\n`);
  fs.rmSync(file, { force: true });
  work();
  stamp(name, input);
}

function stamp(name, input) {
  fs.mkdirSync(stamps, { recursive: true });
  fs.writeFileSync(join(stamps, name), input);
}

/** Installs what the lock file of a folder names. Ends the process after a failure. */
export function installPackages(folder, options = []) {
  const env = { ...process.env, CI: "true" };
  try {
    fs.accessSync(homedir(), fs.constants.W_OK);
  } catch {
    // Where the home folder is read-only, caches are beside the stamps. Settings are read from the real home folder.
    Object.assign(env, {
      HOME: join(stamps, "home"),
      npm_config_userconfig: env.npm_config_userconfig ?? join(homedir(), ".npmrc"),
    });
    fs.mkdirSync(env.HOME, { recursive: true });
  }
  run("npx", ["--yes", manifest.packageManager, "install", "--frozen-lockfile", ...options], env, folder);
}

/** Runs a program, and shows its output only when it fails. */
function run(program, args, env = process.env, cwd = root) {
  const { status, error, stdout, stderr } = spawnSync(program, args, {
    cwd,
    env,
    encoding: "utf8",
    maxBuffer: 64 << 20,
  });
  if (status === 0) return;
  process.stderr.write(
    `${stdout ?? ""}${stderr ?? ""}${error ? `${error.message}\n` : ""}${program} ${args.join(" ")} failed\n`,
  );
  process.exit(status || 1);
}

function* sourcesOf(dir) {
  for (const entry of fs.readdirSync(join(root, dir), { withFileTypes: true })) {
    const path = `${dir}/${entry.name}`;
    if (entry.isDirectory()) {
      if (entry.name !== "node_modules" && entry.name !== "dist") yield* sourcesOf(path);
    } else if (/\.ts$|^tsconfig.*\.json$/.test(entry.name)) yield path;
  }
}

function statLine(path) {
  const { mtimeMs, size } = fs.statSync(join(root, path));
  return `${path} ${mtimeMs} ${size}`;
}

/** Removes the output of deleted sources, which the compiler keeps: a deleted test would still run. */
function removeOrphans(dir) {
  const dist = join(root, dir, "dist");
  const source = (file) => join(root, dir, dir === "test" ? "" : "src", file.replace(/\.js$/, ".ts"));
  for (const file of fs.readdirSync(dist, { recursive: true })) {
    if (!file.endsWith(".js") || file.startsWith("bundle") || fs.existsSync(source(file))) continue;
    for (const ending of [".js", ".js.map", ".d.ts"])
      fs.rmSync(join(dist, file.replace(/\.js$/, ending)), { force: true });
  }
}

function digest(parts) {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part).update("\0");
  return hash.digest("hex");
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  prepare({ compiled: !process.argv.includes("--install"), bundled: process.argv.includes("--bundle") });
