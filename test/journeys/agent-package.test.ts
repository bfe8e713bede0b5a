import { execFile, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import t, { type Test } from "tap";

const root = join(import.meta.dirname, "../../..");

/** Unpacked where the published dependencies can be found, and nothing of the workspace can. */
async function unpack(): Promise<{ folder: string; tarball: string }> {
  const { packAgent } = (await import(pathToFileURL(join(root, "infra/scripts/pack-agent.mjs")).href)) as {
    packAgent(): Promise<string>;
  };
  const tarball = await packAgent();
  const folder = mkdtempSync(join(root, "packages/agent/node_modules/.unpacked-"));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  execFileSync("tar", ["xzf", tarball, "-C", folder]);
  return { folder: join(folder, "package"), tarball };
}

/** Promise.withResolvers, which Node 20 lacks. */
function promised<T>() {
  let resolve!: (value: T) => void;
  let reject!: (error: Error) => void;
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

/** Bytes of all files below a folder. */
function sizeOf(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}

/** A package as it lies in this workspace's store. */
interface Published {
  folder: string;
  manifest: { name: string; version: string; dependencies?: Record<string, string> };
}

/** The packages that an installed agent needs: what it names, and what those name. */
function publishedFor(
  names: readonly string[],
  from: string,
  found: Record<string, Published> = {},
): Record<string, Published> {
  for (const name of names) {
    const folder = realpathSync(join(from, name));
    if (found[name] !== undefined) continue;
    const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Published["manifest"];
    found[name] = { folder, manifest };
    // pnpm keeps a package beside what it depends on.
    publishedFor(Object.keys(manifest.dependencies ?? {}), join(folder, ...name.split("/").map(() => "..")), found);
  }
  return found;
}

/** An npm registry on loopback that has those packages and nothing else. */
async function startRegistry(t: Test): Promise<{ url: string; asked: Set<string> }> {
  const asked = new Set<string>();
  const server = createServer((request, response) => {
    const [, path = "", tar] = /^\/([^/]+?)(\.tgz)?$/.exec(request.url ?? "") ?? [];
    // A scoped name has its slash escaped.
    const name = decodeURIComponent(path);
    const one = published[name];
    if (one === undefined) return void response.writeHead(404).end("{}");
    if (tar !== undefined)
      return void response.end(
        execFileSync(
          "tar",
          ["czf", "-", "--hard-dereference", "--transform", "s,^\\.,package,", "-C", one.folder, "."],
          { maxBuffer: 50_000_000 },
        ),
      );
    asked.add(name);
    const { version } = one.manifest;
    const described = {
      ...one.manifest,
      dist: { tarball: `http://${request.headers.host}/${encodeURIComponent(name)}.tgz` },
    };
    response
      .setHeader("content-type", "application/json")
      .end(JSON.stringify({ name, "dist-tags": { latest: version }, versions: { [version]: described } }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.teardown(() => server.close().closeAllConnections());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, asked };
}

const { folder, tarball } = await unpack();
const program = join(folder, "bin/sm-agent.js");
const described = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
  version: string;
  dependencies: Record<string, string>;
};
const published = publishedFor(Object.keys(described.dependencies), join(root, "packages/agent/node_modules"));

t.test("the package stands alone and is small", (t) => {
  // 70 kB of it are discovery with the reader of YAML labels, which only `discover` loads.
  t.ok(statSync(tarball).size < 320_000, `${statSync(tarball).size} bytes`);
  t.same(
    Object.entries(described.dependencies).filter(
      ([name, version]) => name.startsWith("@statusmesh/") || version.startsWith("workspace:"),
    ),
    [],
    "it depends on published libraries only",
  );
  t.equal(execFileSync(process.execPath, [program, "--version"], { encoding: "utf8" }).trim(), described.version);
  const files = execFileSync("tar", ["tzf", tarball], { encoding: "utf8" }).trim().split("\n");
  const chunks = files.filter((file) => /^package\/bin\/[a-z-]+-[A-Z0-9]{8}\.js$/.test(file));
  t.ok(chunks.length > 10, "what is loaded late is in files of its own");
  t.strictSame(
    files.filter((file) => !chunks.includes(file)).sort(),
    [
      "package/LICENSE",
      "package/README.md",
      "package/bin/judging-thread.js",
      "package/bin/sm-agent.js",
      "package/bin/typebox.LICENSE",
      "package/package.json",
    ],
    "no sources, no maps, no tests",
  );
  t.notOk("typebox" in described.dependencies, "its 683 files would take half of a start");
  t.match(readFileSync(join(folder, "README.md"), "utf8"), /^# sm-agent\n/);
  t.match(readFileSync(join(folder, "LICENSE"), "utf8"), /Apache License/);
  t.end();
});

t.test("npm installs it from a registry into an empty prefix, and it runs there", async (t) => {
  const registry = await startRegistry(t);
  const prefix = mkdtempSync(join(tmpdir(), "sm-agent-prefix-"));
  t.teardown(() => rmSync(prefix, { recursive: true, force: true }));
  const settings = [
    "--registry",
    registry.url,
    "--cache",
    join(prefix, "cache"),
    "--userconfig",
    join(prefix, "npmrc"),
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
  ];
  await promisify(execFile)("npm", ["install", "--global", "--prefix", prefix, ...settings, tarball], { cwd: prefix });
  const installed = join(prefix, "bin/sm-agent");
  t.equal(execFileSync(installed, ["--version"], { encoding: "utf8" }).trim(), described.version);
  t.match(execFileSync(installed, ["check", "--help"], { encoding: "utf8" }), /Usage: sm-agent check/);
  t.strictSame(
    [...registry.asked].sort(),
    Object.keys(published).sort(),
    "it asks for the libraries that it names and theirs, and nothing else",
  );
  const bytes = sizeOf(join(prefix, "lib"));
  t.ok(bytes < 12_000_000, `${bytes} bytes`);
  t.comment(`the tarball has ${statSync(tarball).size} bytes; installed ${bytes} bytes`);

  const took = (args: readonly string[]): number => {
    const times = Array.from({ length: 7 }, () => {
      const began = performance.now();
      execFileSync(process.execPath, args);
      return performance.now() - began;
    });
    return Math.round(times.sort((a, b) => a - b)[3]!);
  };
  t.comment(
    `--version takes ${took([installed, "--version"])} ms, node -e 0 takes ${took(["-e", "0"])} ms ` +
      "(median of 7; to reach: 200 ms)",
  );
});

t.test("it pulls with the token of its file, and ends when asked", async (t) => {
  const asked = promised<{ url: string | undefined; authorization: string | undefined }>();
  const server = createServer((request, response) => {
    asked.resolve({ url: request.url, authorization: request.headers.authorization });
    response.writeHead(503).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.teardown(() => server.close().closeAllConnections());

  const token = `sm_agent_${"a".repeat(43)}`;
  const agent = spawn(process.execPath, [program, "run"], {
    env: {
      PATH: process.env["PATH"],
      SM_AGENT_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      SM_AGENT_TOKEN: token,
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.teardown(() => agent.kill("SIGKILL"));
  let log = "";
  agent.stdout.setEncoding("utf8").on("data", (text: string) => (log += text));
  const ended = new Promise<number | null>((resolve) => agent.once("exit", resolve));

  const deadline = setTimeout(
    () => asked.reject(new Error(`the agent did not pull within 20 s; it logged: ${log}`)),
    20_000,
  );
  t.same(await asked.promise, { url: "/api/agent/pull", authorization: `Bearer ${token}` });
  clearTimeout(deadline);
  agent.kill("SIGTERM");
  t.equal(await ended, 0);
  t.notMatch(log, token, "the token is not in the log");
});
