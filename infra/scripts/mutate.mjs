// npm run mutate: applies each small defect of infra/mutants to a copy of the checkout and runs the test that must find
// it. Exits with 1 when one survives. -- <words>: only those whose area, name or file has one of them; --check: only
// whether each text to replace is in its file exactly once (npm run rules).
import { spawn } from "node:child_process";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import ts from "typescript";
import access from "../mutants/access.mjs";
import alerting from "../mutants/alerting.mjs";
import incidents from "../mutants/incidents.mjs";
import monitoring from "../mutants/monitoring.mjs";
import publishing from "../mutants/publishing.mjs";
import tenancy from "../mutants/tenancy.mjs";
import { prepare, root } from "./prepare.mjs";

const { values, positionals: words } = parseArgs({
  allowPositionals: true,
  options: { check: { type: "boolean", default: false } },
});

/** Of the slowest test, when other work takes the processors. A mutant that hangs its test is killed. */
const timeoutMs = 300_000;

const mutants = Object.entries({ incidents, alerting, monitoring, access, tenancy, publishing })
  .flatMap(([area, list]) => list.map((mutant) => ({ area, ...mutant })))
  .filter(
    ({ area, name, file }) => words.length === 0 || words.some((word) => `${area} ${name} ${file}`.includes(word)),
  );

const { config } = ts.readConfigFile(join(root, "infra/tsconfig.base.json"), ts.sys.readFile);
const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root);
// A file alone does not tell the compiler that its package has ECMAScript modules.
const modules = { module: ts.ModuleKind.ES2022, moduleResolution: ts.ModuleResolutionKind.Bundler };
const compilerOptions = { ...options, ...modules, sourceMap: false };

const compiled = (file) =>
  join("packages", file.replace("/src/", "/dist/").replace("../test/", "../test/dist/").replace(/\.ts$/, ".js"));

/** What is wrong with a mutant; null for nothing. */
function fault({ name, file, search, replace, test }) {
  if (!fs.existsSync(join(root, "packages", file))) return `${name}: there is no ${file}`;
  if (!fs.existsSync(join(root, "packages", test))) return `${name}: there is no ${test}`;
  const found = fs.readFileSync(join(root, "packages", file), "utf8").split(search).length - 1;
  if (found !== 1) return `${name}: ${file} has the text ${found} times, not once: ${search}`;
  return search === replace ? `${name}: changes nothing` : null;
}

const faults = mutants.map(fault).filter((text) => text !== null);
if (faults.length > 0) {
  console.error(`infra/mutants: ${faults.join("\ninfra/mutants: ")}`);
  process.exit(1);
}
if (!values.check) process.exitCode = await run();

async function run() {
  prepare({ bundled: false });
  const copy = copyOfCheckout();
  process.on("exit", () => fs.rmSync(copy, { recursive: true, force: true }));
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));
  for (const { file } of mutants) compile(copy, file);
  const survivors = [];
  let broken = 0;
  for (const test of new Set(mutants.map((mutant) => mutant.test))) {
    const list = mutants.filter((mutant) => mutant.test === test);
    // A test that fails anyway would kill every mutant.
    if (!(await passes(copy, test))) {
      console.log(`FAILED    ${test} fails without a mutant`);
      broken += list.length;
      continue;
    }
    for (const mutant of list) {
      const started = performance.now();
      // A function: `$` in the replacement stands for itself.
      compile(copy, mutant.file, (text) => text.replace(mutant.search, () => mutant.replace));
      const survived = await passes(copy, test);
      compile(copy, mutant.file);
      if (survived) survivors.push(mutant);
      const secs = ((performance.now() - started) / 1000).toFixed(1);
      console.log(`${survived ? "SURVIVED" : "killed  "}  ${mutant.area}: ${mutant.name}  ${secs} s`);
    }
  }
  for (const { name, file, test } of survivors) console.log(`${test} does not find: ${name} (${file})`);
  console.log(
    `${mutants.length - survivors.length - broken} of ${mutants.length} killed, ${survivors.length} survived, ` +
      `${broken} not run`,
  );
  return survivors.length + broken > 0 ? 1 : 0;
}

/** The compiled packages and what tests read, in a folder of their own; libraries are shared. */
function copyOfCheckout() {
  const copy = fs.mkdtempSync(join(tmpdir(), "statusmesh-mutants-"));
  for (const name of ["packages", "test", "infra", "docs", "package.json"])
    fs.cpSync(join(root, name), join(copy, name), {
      recursive: true,
      verbatimSymlinks: true,
      filter: (path) => !/\/dist\/bundle/.test(path),
    });
  fs.symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
  return copy;
}

/** Writes a source, compiled, into the copy. Without a change too: then its tests show that this compiles it right. */
function compile(copy, file, change = (text) => text) {
  const { outputText, diagnostics } = ts.transpileModule(
    change(fs.readFileSync(join(root, "packages", file), "utf8")),
    {
      compilerOptions,
      fileName: file,
      reportDiagnostics: true,
    },
  );
  if (diagnostics.length > 0) throw new Error(`${file} does not compile: ${diagnostics[0].messageText}`);
  fs.writeFileSync(join(copy, compiled(file)), outputText);
}

/** Whether a test file passes, up to its first failure. */
function passes(copy, test) {
  const env = { ...process.env, TAP: "1", TAP_BAIL: "1", TAP_TIMEOUT: String(timeoutMs / 1000) };
  const child = spawn(process.execPath, [join(copy, compiled(test))], { cwd: copy, env, stdio: "ignore" });
  const killer = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
  return new Promise((resolve) =>
    child.on("close", (code) => {
      clearTimeout(killer);
      resolve(code === 0);
    }),
  );
}
