import { once } from "node:events";
import { createServer } from "node:http";
import { join } from "node:path";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { dockerPlace } from "../http/docker-socket.ts";
import { outcomeOf, testRunner } from "../testing.ts";

/* States as Docker Engine 27 and podman 4.3 report them; journeys/discover.test.ts has a real podman. */

const socket = join(t.testdir(), "docker.sock");
const containers = new Map<string, { id: string; labels: string[]; state: object }>();
const requests: string[] = [];
let status = 200;
let isSilent = false;
const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url!, "http://docker");
  requests.push(`${request.method} ${pathname}`);
  if (isSilent) return;
  if (status !== 200) return void response.writeHead(status).end('{"message":"refused"}');
  if (pathname === "/containers/json") {
    const { label } = JSON.parse(searchParams.get("filters")!) as { label: [string] };
    const matches = [...containers.values()].filter(({ labels }) => labels.some((one) => one.startsWith(label[0])));
    return void response.end(JSON.stringify(matches.map(({ id }) => ({ Id: id }))));
  }
  const [, wanted] = /^\/containers\/([^/]+)\/json$/.exec(pathname)!;
  const found = [...containers].find(([name, { id }]) => name === wanted || id.startsWith(wanted!));
  if (found === undefined) return void response.writeHead(404).end('{"message":"No such container"}');
  response.end(
    JSON.stringify({ Id: found[1].id, Name: `/${found[0]}`, State: found[1].state, Config: { Env: ["A=b"] } }),
  );
});
server.listen(socket);
await once(server, "listening");
t.teardown(() => {
  server.closeAllConnections();
  server.close();
});

const runner = testRunner({ docker: dockerPlace(socket)! });
const run = async (check: object, of = runner) => {
  const base = { type: "container", name: null, label: null, timeout: 2000 };
  const { measurement, skip } = await outcomeOf(of.run("org", { ...base, ...check }));
  const { status: found, error, details } = measurement;
  return { status: found, error, details, skip };
};
const idOf = (name: string): string => Buffer.from(name).toString("hex").padEnd(64, "0");
const create = (name: string, state: object, labels: string[] = []) =>
  void containers.set(name, { id: idOf(name), labels, state });

t.test("each state of a container", async (t) => {
  const log = [
    { ExitCode: 0, Output: "fine" },
    { ExitCode: 1, Output: " no \u001bdatabase\nmore\n" },
  ];
  const cases: [object, string, string | null, boolean][] = [
    [{ Status: "running" }, "up", null, false],
    [{ Status: "running", OOMKilled: true, Health: { Status: "healthy" } }, "up", null, false],
    [{ Status: "running", Health: { Status: "none" } }, "up", null, false],
    [{ Status: "running", Health: { Status: "", Log: null } }, "up", null, false],
    [{ Status: "running", Health: { Status: "unhealthy", Log: log } }, "down", "web is unhealthy: no  database", false],
    [{ Status: "running", Health: { Status: "unhealthy", Log: [] } }, "down", "web is unhealthy", false],
    [
      { Status: "running", Health: { Status: "starting" } },
      "error",
      "web is starting: its health check has not passed yet",
      true,
    ],
    [{ Status: "paused", Health: { Status: "healthy" } }, "down", "web is paused", false],
    [{ Status: "created" }, "down", "web was created and has not been started", false],
    [{ Status: "restarting", ExitCode: 2 }, "down", "web is restarting (exit code 2)", false],
    [{ Status: "exited", ExitCode: 0 }, "down", "web has exited (exit code 0)", false],
    [{ Status: "exited", ExitCode: 137, OOMKilled: true }, "down", "web has exited (it was out of memory)", false],
    [{ Status: "stopped", ExitCode: 1 }, "down", "web has exited (exit code 1)", false],
    [{ Status: "dead" }, "down", "web is dead: Docker could not remove it", false],
    [{ Status: "thawing" }, "error", "web has the unknown state thawing", true],
  ];
  for (const [state, verdict, error, skip] of cases) {
    create("web", state);
    matchObject(t, await run({ name: "web" }), { status: verdict, error, skip }, JSON.stringify(state));
  }
  create("web", { Status: "running", Health: { Status: "healthy" } });
  t.strictSame((await run({ name: "web" })).details, { container: "web", state: "running", health: "healthy" });
});

t.test("names, ids and labels", async (t) => {
  containers.clear();
  create("web", { Status: "running" }, ["app=shop"]);
  matchObject(t, await run({ name: idOf("web").slice(0, 12) }), { status: "up" });
  const absent = { status: "down", error: "there is no container 776", skip: false };
  matchObject(t, await run({ name: "776" }), absent, "the beginning of an id is no name");
  matchObject(t, await run({ name: "db" }), { status: "down", error: "there is no container db" });
  create("db", { Status: "exited", ExitCode: 3 }, ["app=shop"]);
  create("new", { Status: "running", Health: { Status: "starting" } }, ["app=shop"]);
  matchObject(t, await run({ label: "app=shop" }), { status: "down", error: "db has exited (exit code 3)" });
  containers.delete("db");
  matchObject(t, await run({ label: "app" }), { status: "error", skip: true }, "starting is worse than up");
  matchObject(t, await run({ label: "app=blog" }), { status: "down", error: "no container has the label app=blog" });
  for (let n = 0; n < 51; n++) create(`n${n}`, { Status: "running" }, ["many=1"]);
  matchObject(t, await run({ label: "many" }), { skip: true, error: /^51 containers have the label many/ });
});

t.test("what is no evidence, and names its reason", async (t) => {
  create("web", { Status: "running" });
  const said = async (check: object, of = runner) => {
    const { status: found, skip, error } = await run(check, of);
    t.strictSame([found, skip], ["error", true], error ?? "");
    return error!;
  };
  status = 403;
  t.match(await said({ name: "web" }), /cannot be read \(GET \/containers\/web\/json: status 403, refused\)$/);
  status = 200;
  isSilent = true;
  t.match(await said({ name: "web", timeout: 200 }), /docker\.sock did not answer within 0\.2 s$/);
  isSilent = false;
  const away = testRunner({ docker: dockerPlace(`unix://${socket}.gone`)! });
  t.match(await said({ name: "web" }, away), /docker\.sock\.gone cannot be read \(ENOENT\)$/);
  t.match(await said({ name: "web" }, testRunner()), /start it with --docker/);
  t.strictSame([...new Set(requests.map((one) => one.split(" ")[0]))], ["GET"], "nothing is changed");
});
