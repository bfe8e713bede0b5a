import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { endpointNames } from "@statusmesh/control-plane/alerting/channels/kinds/index";
import { loadConfig } from "@statusmesh/control-plane/config/config";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { parse } from "yaml";
import { tempFolder } from "../harness/folder.ts";
import { requires } from "../harness/requires.ts";

/* Files in infra/ for running the service elsewhere name only existing files, options and settings. */

const root = join(import.meta.dirname, "../../..");
const read = (file: string): string => readFileSync(join(root, file), "utf8");
const manifest = JSON.parse(read("package.json")) as { packageManager: string; engines: { node: string } };
const help = execFileSync(process.execPath, [createRequire(import.meta.url).resolve("sm-agent/cli"), "run", "--help"], {
  encoding: "utf8",
});
const agentVariables = new Set([...help.matchAll(/SM_\w+/g)].map(([name]) => name).concat("SM_AGENT_TOKEN_FILE"));
const agentOptions = new Set([...help.matchAll(/--[a-z-]+/g)].map(([name]) => name));

/** Configuration errors of these settings; files of secrets are replaced by an existing one. */
function problemsOf(t: Test, env: Record<string, string>): string {
  const cwd = t.testdir({ kek: Buffer.alloc(32, 7).toString("base64"), url: "postgres://user@host/name" });
  const files = Object.entries(env).map(([name, value]) => [
    name,
    !name.endsWith("_FILE") ? value : join(cwd, name.includes("KEK") ? "kek" : "url"),
  ]);
  writeFileSync(join(cwd, "statusmesh.toml"), "");
  try {
    loadConfig({ env: Object.fromEntries(files) as Record<string, string>, cwd, endpointNames });
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

interface Instruction {
  word: string;
  rest: string;
}

/** The stages of a Dockerfile, each a list of its instructions. */
function stagesOf(file: string): Instruction[][] {
  const lines = read(file)
    .replaceAll(/^#.*\n/gm, "")
    .replaceAll(/\\\n\s*/g, " ")
    .split("\n");
  const stages: Instruction[][] = [];
  for (const line of lines) {
    const [, word, rest] = /^([A-Z]+)\s+(.*)$/.exec(line) ?? [];
    if (word === undefined || rest === undefined) {
      if (line.trim() !== "") throw new Error(`${file}: no instruction: ${line}`);
      continue;
    }
    if (word === "FROM") stages.push([]);
    stages.at(-1)!.push({ word, rest });
  }
  return stages;
}

const ignored = read(".dockerignore")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"));
/** True where .dockerignore excludes the path (supports the patterns that our file uses). */
function isIgnored(path: string): boolean {
  let out = false;
  for (const line of ignored) {
    const pattern = line.replace(/^!/, "");
    const parts = pattern.split("**/").map((part) => part.replaceAll(".", "\\.").replaceAll("*", "[^/]*"));
    const fits = new RegExp(`^${parts.join("(?:.*/)?")}$`).test(path);
    if (fits) out = !line.startsWith("!");
  }
  return out;
}

for (const file of ["infra/docker/agent.Dockerfile", "infra/docker/control-plane.Dockerfile"])
  t.test(file, async (t) => {
    const stages = stagesOf(file);
    const [build, final] = [stages[0]!, stages.at(-1)!];
    for (const { word, rest } of stages.flat()) {
      if (word === "FROM") t.match(rest, /^node:\d+\.\d+\.\d+-bookworm-slim(?: AS build)?$/, "the base is pinned");
      if (word !== "COPY" || rest.startsWith("--from=")) continue;
      for (const source of rest.split(" ").slice(0, -1)) {
        t.ok(existsSync(join(root, source)), `${source} exists`);
        t.notOk(isIgnored(source), `${source} is not in .dockerignore`);
      }
    }
    for (const [, path] of read(file).matchAll(/\/(packages\/[\w/-]+\/dist\/[\w/-]+\.js)/g))
      t.ok(existsSync(join(root, path!)), `${path} exists`);
    const at = (of: Instruction[], fits: (instruction: Instruction) => boolean) => of.findIndex(fits);
    const installs = at(build, ({ rest }) => rest.startsWith("pnpm install"));
    t.ok(installs > 0);
    for (const needed of [
      "infra/patches",
      "pnpm-lock.yaml",
      "pnpm-workspace.yaml",
      "test/package.json",
      "packages/shared/package.json",
    ]) {
      const copied = at(build, ({ word, rest }) => word === "COPY" && rest.includes(needed));
      t.ok(copied >= 0 && copied < installs, `${needed} is there before the install`);
    }
    t.match(
      build.map(({ rest }) => rest).join("\n"),
      `npm install --global ${manifest.packageManager}`,
      "pnpm is that of the repository",
    );
    t.match(
      final.map(({ rest }) => rest).join("\n"),
      /install .*iputils-ping[^]*setcap -r/,
      "ping is there, without a file capability",
    );
    const user = at(final, ({ word }) => word === "USER");
    t.equal(final[user]?.rest, "node", "it does not run as root");
    t.ok(user < at(final, ({ word }) => word === "ENTRYPOINT"));
    t.ok(at(final, ({ word }) => word === "HEALTHCHECK") > 0);
    const settings = Object.fromEntries(
      final
        .filter(({ word }) => word === "ENV")
        .flatMap(({ rest }) => rest.split(" ").map((pair) => pair.split(/=(.*)/) as [string, string])),
    );
    if (file.includes("agent"))
      t.ok(
        Object.keys(settings).every((name) => agentVariables.has(name) || settings[name] === "--v8-pool-size=1"),
        Object.keys(settings).join(" "),
      );
    else t.equal(problemsOf(t, settings), "");
  });

t.test("the libraries that the form of the project names are its dependencies", (t) => {
  const named =
    "koa @koa/router koa-body typebox postgres redis commander undici rdapper eta @modelcontextprotocol/sdk tap";
  const folders = ["", "test", ...readdirSync(join(root, "packages")).map((name) => `packages/${name}`)];
  const declared = folders.flatMap((folder) => {
    const { dependencies, devDependencies } = JSON.parse(read(join(folder, "package.json"))) as Record<string, object>;
    return Object.keys({ ...dependencies, ...devDependencies });
  });
  t.strictSame(
    named.split(" ").filter((name) => !declared.includes(name)),
    [],
  );
  t.end();
});

t.test(".dockerignore leaves out what is made again", async (t) => {
  for (const path of [
    "node_modules",
    "packages/agent/node_modules",
    "packages/agent/dist",
    ".git",
    "data",
    "test/journeys",
    "packages/agent/src/cli.test.ts",
  ])
    t.ok(isIgnored(path), path);
  for (const path of ["packages/agent/src/cli.ts", "test/package.json", "infra/patches", "LICENSE"])
    t.notOk(isIgnored(path), path);
});

interface Service {
  build?: { context: string; dockerfile: string };
  environment: Record<string, string>;
  secrets: string[];
  volumes: string[];
  read_only?: boolean;
}

t.test("compose.yaml", async (t) => {
  const compose = parse(read("infra/docker/compose.yaml")) as {
    services: Record<string, Service>;
    secrets: object;
    volumes: object;
  };
  for (const [name, { build, secrets, volumes, environment }] of Object.entries(compose.services)) {
    if (build !== undefined) t.ok(existsSync(join(root, build.dockerfile)), `${name}: ${build.dockerfile}`);
    for (const secret of secrets) t.ok(secret in compose.secrets, `${name}: the secret ${secret} is declared`);
    for (const value of Object.values(environment)
      .map(String)
      .filter((text) => text.startsWith("/run/secrets/")))
      t.ok(secrets.includes(value.slice("/run/secrets/".length)), `${name}: ${value} is handed over`);
    for (const volume of volumes)
      t.ok(Object.hasOwn(compose.volumes, volume.split(":", 1).join()), `${name}: the volume ${volume} is declared`);
  }
  const { agent, "control-plane": controlPlane } = compose.services;
  t.ok(agent?.read_only === true && controlPlane?.read_only === true);
  for (const service of [agent, controlPlane])
    matchObject(t, service, { sysctls: { "net.ipv4.ping_group_range": "0 2147483647" } }, "for ping checks");
  t.strictSame(
    Object.keys(agent!.environment).filter((name) => !agentVariables.has(name)),
    [],
  );
  t.equal(
    controlPlane!.environment["SM_OPERATOR__ADMIN_TOKEN"],
    null,
    "the operator secret is passed on without an expression, which some versions hand over as text",
  );
  const usual = (value: string | null) => (value === null ? "" : (/^\$\{\w+:-(.*)\}$/.exec(value)?.[1] ?? value));
  t.equal(
    problemsOf(
      t,
      Object.fromEntries(Object.entries(controlPlane!.environment).map(([name, value]) => [name, usual(value)])),
    ),
    "",
  );
});

t.test("systemd units are shut tight, and name what there is", async (t) => {
  for (const name of ["sm-agent", "statusmesh"]) {
    const lines = read(`infra/systemd/${name}.service`)
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"));
    t.strictSame(
      lines.filter((line) => line.startsWith("[")),
      ["[Unit]", "[Service]", "[Install]"],
    );
    t.ok(lines.every((line) => /^(?:\[\w+\]|[A-Z]\w+=.*)$/.test(line)));
    for (const wanted of [
      name === "sm-agent" ? "DynamicUser=yes" : "User=statusmesh",
      "NoNewPrivileges=yes",
      "ProtectSystem=strict",
      "CapabilityBoundingSet=CAP_NET_RAW",
      "AmbientCapabilities=",
      "SystemCallFilter=capset setuid",
      "SystemCallFilter=@system-service",
      "Restart=always",
    ])
      t.ok(lines.includes(wanted), `${name}: ${wanted}`);
    for (const key of ["StateDirectory", "LoadCredential", "RestrictAddressFamilies", "MemoryMax"])
      t.ok(
        lines.some((line) => line.startsWith(`${key}=`)),
        `${name}: ${key}`,
      );
    const settings = lines.flatMap((line) => {
      const [, key, value] = /^Environment=(SM_\w+)=(.*)$/.exec(line) ?? [];
      return key === undefined || value === undefined || key === "SM_CONFIG" ? [] : [[key, value] as const];
    });
    if (name === "statusmesh") t.equal(problemsOf(t, Object.fromEntries(settings)), "");
    const start = lines.find((line) => line.startsWith("ExecStart="))!;
    const options = [...start.matchAll(/--[a-z-]+/g)]
      .map(([option]) => option)
      .filter((option) => option !== "--enable-source-maps");
    for (const option of options) t.ok(agentOptions.has(option), `${name}: ${option}`);
  }
});

t.test("systemd understands every line of the units", async (t) => {
  if (!(await requires(t, "systemd"))) return;
  const folder = tempFolder(t, "units");
  const units = ["sm-agent", "statusmesh"].map((name) => {
    const file = join(folder, `${name}.service`);
    // It wants the program to be there.
    writeFileSync(file, read(`infra/systemd/${name}.service`).replace(/^ExecStart=.*$/m, "ExecStart=/bin/true"));
    return file;
  });
  const { status, stderr } = spawnSync("systemd-analyze", ["verify", ...units], { encoding: "utf8" });
  t.strictSame({ status, stderr }, { status: 0, stderr: "" });
});

/** A chart template as YAML, with every branch included and every value "x". */
const flattened = (template: string): unknown =>
  parse(template.replaceAll(/^\s*\{\{-? .*\}\}\n/gm, "").replaceAll(/"?\{\{-? [^}]*\}\}"?/g, "x"));

interface Pod {
  securityContext: object;
  containers: { env: { name: string; value: string }[]; securityContext: object; livenessProbe: object }[];
}

/** Checks the templates and values of a chart, and returns its pod. */
function podOf(t: Test, name: string, version: string): Pod {
  const folder = `infra/helm/${name}`;
  const chart = parse(read(`${folder}/Chart.yaml`)) as { version: string; appVersion: string };
  t.equal(chart.appVersion, version, "it is made for this version");
  const values = parse(read(`${folder}/values.yaml`)) as Record<string, unknown>;
  const used = new Set<string>();
  for (const file of readdirSync(join(root, folder, "templates"))) {
    const template = read(`${folder}/templates/${file}`);
    const opened = [...template.matchAll(/\{\{-? (?:if|with|range) /g)].length;
    t.equal(opened, [...template.matchAll(/\{\{-? end \}\}/g)].length, `${file}: every block ends`);
    t.equal(template.split("{{").length, template.split("}}").length);
    t.notMatch(template, /\t/);
    for (const [, path] of template.matchAll(/\.Values\.([\w.]+)/g)) {
      used.add(path!);
      const found = path!
        .split(".")
        .reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], values);
      t.not(found, undefined, `${file}: ${path} is in values.yaml`);
    }
    // Objects of one purpose stand in one file.
    const named = new RegExp(`^(?:x-)+(?:${name}|discovery)$`);
    for (const one of template.split(/^---$/m))
      matchObject(t, flattened(one), { apiVersion: String, kind: String, metadata: { name: named } }, file);
  }
  const leaves = (tree: Record<string, unknown>, before = ""): string[] =>
    Object.entries(tree).flatMap(([key, value]) =>
      used.has(before + key) || typeof value !== "object" || value === null || Array.isArray(value)
        ? [before + key]
        : leaves(value as Record<string, unknown>, `${before}${key}.`),
    );
  t.strictSame(
    leaves(values).filter((path) => !used.has(path)),
    [],
    "every value is used",
  );
  const { spec } = flattened(read(`${folder}/templates/deployment.yaml`)) as { spec: { template: { spec: Pod } } };
  const pod = spec.template.spec;
  matchObject(t, pod, {
    automountServiceAccountToken: false,
    securityContext: { runAsNonRoot: true, sysctls: [{ name: "net.ipv4.ping_group_range", value: "0 2147483647" }] },
    containers: [
      {
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        },
        livenessProbe: { httpGet: { path: "/healthz" } },
      },
    ],
  });
  return pod;
}

const versionOf = (folder: string): string =>
  (JSON.parse(read(`packages/${folder}/package.json`)) as { version: string }).version;

t.test("the chart of the agent", (t) => {
  const pod = podOf(t, "sm-agent", versionOf("agent"));
  t.strictSame(
    pod.containers[0]!.env.map(({ name }) => name).filter((name) => !agentVariables.has(name)),
    [],
    "every variable is one of the agent's",
  );
  t.end();
});

t.test("the chart of the control plane", (t) => {
  const pod = podOf(t, "statusmesh", versionOf("control-plane"));
  const values: Record<string, string> = {
    SM_SERVER__PUBLIC_URL: "https://status.example.org",
    SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
  };
  const settings = pod.containers[0]!.env.filter(({ name }) => name !== "SM_CONFIG");
  t.ok(settings.length > 3);
  t.equal(problemsOf(t, Object.fromEntries(settings.map(({ name, value }) => [name, values[name] ?? value]))), "");
  t.end();
});

t.test("a template is checked against the data of its page", async (t) => {
  const folder = join(t.testdir(), "views");
  cpSync(join(root, "packages/control-plane/views"), folder, { recursive: true });
  const spoil = (view: string, right: string, wrong: string): void => {
    const file = join(folder, `${view}.eta`);
    const text = readFileSync(file, "utf8");
    if (!text.includes(right)) throw new Error(`${view} has no ${right}`);
    writeFileSync(file, text.replace(right, wrong));
  };
  spoil("targets/list-table", "row.last_result_at", "row.last_reslut_at");
  spoil("status-pages/list", "linkTo: (to)", "linkOt: (to)");
  spoil("incidents/show", "/incidents/show-live", "/incidents/show-lvie");
  // The test runner loads hooks into every Node.js process that it sees, and the compiler does not start with them.
  const script = join(root, "infra/scripts/check-views.mjs");
  const { stdout, status } = spawnSync("env", ["-u", "NODE_OPTIONS", process.execPath, script, folder], {
    encoding: "utf8",
  });
  t.not(status, 0);
  t.match(stdout, /targets\/list-table\.eta\(\d+,\d+\): .*'last_reslut_at' does not exist/);
  t.match(stdout, /status-pages\/list\.eta\(\d+,\d+\): error TS\d+: .*linkOt/);
  t.match(stdout, /incidents\/show\.eta\(\d+,\d+\): .*show-lvie/);
  t.equal(stdout.match(/: error TS/g)?.length, 3, stdout);
});

t.test("a new version of the database client is tried hunk by hunk", (t) => {
  const packaged = tempFolder(t, "client");
  const patches = join(root, "infra/patches");
  const patch = join(
    patches,
    readdirSync(patches).find((name) => name.endsWith(".patch"))!,
  );
  cpSync(join(root, "packages/control-plane/node_modules/postgres"), packaged, { recursive: true, dereference: true });
  t.equal(spawnSync("git", ["apply", "--reverse", patch], { cwd: packaged }).status, 0);
  const script = join(root, "infra/scripts/client-patch.mjs");
  const tried = () => spawnSync(process.execPath, [script, packaged], { encoding: "utf8" });
  const good = tried();
  t.equal(good.status, 0, good.stdout);
  t.match(good.stdout, /^ok {8}src\/connection\.js:\d+ {2}begin-reserves, half-open, unsendable$/m);

  const queue = join(packaged, "src/queue.js");
  writeFileSync(queue, readFileSync(queue, "utf8").replace("push: (x)", "push: (item)"));
  const bad = tried();
  t.equal(bad.status, 1);
  t.match(bad.stdout, /^FAILED {4}src\/queue\.js:\d+ {2}last-used$/m);
  t.match(bad.stdout, /^last-used: .*\n {2}.*\n {2}`platform\/db\/client\/client\.test\.ts`: a query goes to/m);

  const readme = readFileSync(join(patches, "README.md"), "utf8");
  const topics = [...readFileSync(patch, "utf8").matchAll(/^@@ .* @@ (.*)$/gm)].flatMap(([, names]) =>
    names!.split(", "),
  );
  const rows = [...readme.matchAll(/^\| ([\w-]+) +\|.*`(\S+)`: (.*?) *\|$/gm)];
  t.strictSame([...new Set(topics)].sort(), rows.map(([, topic]) => topic).sort());
  for (const [, topic, file, title] of rows) {
    const text = readFileSync(join(root, file!.startsWith("test/") ? "" : "packages/control-plane/src", file!), "utf8");
    t.ok(text.includes(`"${title}"`), `${topic} has its test`);
  }
  t.end();
});

t.test("a test file that fails is run again, and counts as flaky when it passes then", async (t) => {
  // Plain TAP, so that the files need nothing of this project. `once` fails until its mark is there.
  const folder = tempFolder(t, "tap");
  const files = {
    "package.json": '{"type":"module"}',
    "once.test.js": `
      import { existsSync, writeFileSync } from "node:fs";
      const mark = "mark";
      console.log(existsSync(mark) ? "ok 1 - it" : "not ok 1 - it");
      console.log("ok 2 - the rest\\n1..2");
      console.log(existsSync(mark) ? "# { total: 2, pass: 2 }" : "# { total: 2, pass: 1, fail: 1 }");
      process.exitCode = existsSync(mark) ? 0 : 1;
      writeFileSync(mark, "");`,
    "always.test.js": 'console.log("not ok 1 - never\\n1..1\\n# { total: 1, fail: 1 }"); process.exitCode = 1;',
    "fine.test.js": 'console.log("ok 1 - fine\\n1..1\\n# { total: 1, pass: 1 }");',
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const run = (...names: string[]) => {
    const args = [names.map((name) => `${name}.test.js`), folder].map((it) => JSON.stringify(it)).join();
    const program = `
      import { runTests } from ${JSON.stringify(join(root, "infra/scripts/tap.mjs"))};
      console.log(JSON.stringify(await runTests(${args})));`;
    // Without the variables by which tap recognises that it runs inside itself.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("TAP")));
    const { stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { env, encoding: "utf8" });
    return { stdout, outcome: JSON.parse(stdout.trimEnd().split("\n").at(-1)!) as object };
  };
  const flaky = run("fine", "once");
  t.match(flaky.stdout, /^ok {2}fine\.test\.js {2}\d+\.\d s, cpu \d+\.\d s$/m);
  matchObject(t, flaky.outcome, { code: 0, failed: 0, passed: 4 }, "the assertions of the repeated run count too");
  t.match(flaky.stdout, /FAILED {2}\S*once\.test\.js[^]*FLAKY {2}\S*once\.test\.js: failed once[^]*not ok 1 - it/);
  const broken = run("fine", "always");
  matchObject(t, broken.outcome, { code: 1, failed: 1, passed: 1 });
  t.notMatch(broken.stdout, "FLAKY");
  t.equal(broken.stdout.split("not ok 1 - never").length, 2, "a failure is printed once");
});
