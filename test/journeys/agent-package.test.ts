import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import t from "tap";

const root = join(import.meta.dirname, "../../..");

/** Unpacked where the published dependencies can be found, and nothing of the workspace can. */
async function unpack(): Promise<{ folder: string; tarball: string }> {
  const { packAgent } = (await import(pathToFileURL(join(root, "infra/scripts/pack-agent.mjs")).href)) as { packAgent(): Promise<string> };
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

const { folder, tarball } = await unpack();
const program = join(folder, "bin/sm-agent.js");
const described = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { version: string; dependencies: Record<string, string> };

t.test("the package stands alone and is small", (t) => {
  t.ok(statSync(tarball).size < 200_000, `${statSync(tarball).size} bytes`);
  t.same(
    Object.entries(described.dependencies).filter(([name, version]) => name.startsWith("@statusmesh/") || version.startsWith("workspace:")),
    [],
    "it depends on published libraries only",
  );
  t.equal(execFileSync(process.execPath, [program, "--version"], { encoding: "utf8" }).trim(), described.version);
  t.end();
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
    env: { PATH: process.env["PATH"], SM_AGENT_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, SM_AGENT_TOKEN: token },
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.teardown(() => agent.kill("SIGKILL"));
  let log = "";
  agent.stdout.setEncoding("utf8").on("data", (text: string) => (log += text));
  const ended = new Promise<number | null>((resolve) => agent.once("exit", resolve));

  const deadline = setTimeout(() => asked.reject(new Error(`the agent did not pull within 20 s; it logged: ${log}`)), 20_000);
  t.same(await asked.promise, { url: "/api/agent/pull", authorization: `Bearer ${token}` });
  clearTimeout(deadline);
  agent.kill("SIGTERM");
  t.equal(await ended, 0);
  t.notMatch(log, token, "the token is not in the log");
});
