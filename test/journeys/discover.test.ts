import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, request as send, type ServerResponse } from "node:http";
import { connect as dial, createServer as listen, type Server, type Socket } from "node:net";
import { createRequire } from "node:module";
import { join } from "node:path";
import t from "tap";
import { autoKumaConfig } from "@statusmesh/shared/foreign/autokuma";
import { matchObject } from "@statusmesh/shared/testing";
import { ControlPlane } from "sm-agent/discovery/control-plane";
import { type CycleMemory, type CycleOptions, runCycle } from "sm-agent/discovery/cycle";
import { outcomeOf, testRunner } from "sm-agent/testing";
import { Docker } from "sm-agent/discovery/docker";
import { dockerPlace } from "sm-agent/http/docker-socket";
import { discoverUntil } from "sm-agent/discovery/loop";
import { connect } from "../harness/api.ts";
import { castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { tempFolder } from "../harness/folder.ts";
import { serveHere } from "../harness/in-process.ts";
import { requires } from "../harness/requires.ts";
import { runProgram } from "../harness/smctl.ts";
import { waitFor } from "../harness/wait.ts";

/* Discovery of containers, against a control plane: a server that speaks Docker's recorded protocol, and podman. */

const folder = tempFolder(t, "discover");
const database = await cloneDatabase(t);
const { sql } = database;
const url = await serveHere(t, database);
const { olga, xenia } = await castIn(sql);
// Minutes of discovery are seconds here.
await sql`update plans set bulk_ops_per_min = 100000, api_writes_per_min = 100000`;
const api = connect(t, url, olga.token);
const program = createRequire(import.meta.url).resolve("sm-agent/cli");

type Labels = Record<string, string>;

/** A server with the lists and events of Docker on a socket. */
class FakeDocker {
  readonly socket = join(folder, "docker.sock");
  readonly containers = new Map<string, Labels>();
  readonly requests: string[] = [];
  answer: "list" | "half" | "error" = "list";
  readonly #events = new Set<ServerResponse>();
  #created = 0;
  readonly #age = new Map<string, number>();

  readonly server = createServer((request, response) => {
    this.requests.push(`${request.method} ${request.url!.split("?")[0]}`);
    if (request.url!.startsWith("/events")) {
      this.#events.add(response.writeHead(200, { "content-type": "application/json" }));
      response.flushHeaders();
      response.on("close", () => this.#events.delete(response));
    } else if (!request.url!.startsWith("/containers/json?all=1"))
      response.writeHead(503).end('{"message":"This node is not a swarm manager."}');
    else if (this.answer === "error") response.writeHead(500).end('{"message":"broken"}');
    else {
      const list = [...this.containers].map(([name, Labels]) => ({
        Id: `id-${name}`,
        Names: [`/${name}`],
        Image: "nginx:1",
        Command: 'x [\\"',
        Created: 1_795_000_000 + this.#age.get(name)!,
        Ports: [{ PrivatePort: 80 }],
        Labels,
      }));
      const text = JSON.stringify(list);
      response.writeHead(200, { "content-type": "application/json" });
      response.write(text.slice(0, text.length / 2));
      if (this.answer === "half") response.socket!.destroy();
      else response.end(text.slice(text.length / 2));
    }
  });

  create(name: string, labels: Labels = { [`statusmesh.${name}.url`]: `https://${name}.example.org/` }): void {
    this.containers.set(name, labels);
    this.#age.set(name, ++this.#created);
    this.#tell("create");
  }

  remove(name: string): void {
    this.containers.delete(name);
    this.#tell("destroy");
  }

  #tell(Action: string): void {
    for (const response of this.#events) response.write(`${JSON.stringify({ Type: "container", Action })}\n`);
  }
}

const docker = new FakeDocker();
docker.server.listen(docker.socket);
await once(docker.server, "listening");
t.teardown(() => {
  docker.server.closeAllConnections();
  docker.server.close();
});

const optionsOf = (writer: string): CycleOptions => ({
  isKubernetes: false,
  isAuto: false,
  autoKuma: autoKumaConfig({}),
  writer,
  graceSecs: 600,
  maxDelete: null,
  isDryRun: false,
});
const sourceOf = (name: string, socket = docker.socket): Docker => new Docker(dockerPlace(socket)!, name);
const never = new AbortController().signal;
/** Writes an image with busybox, the archive of which is beside it. */
const tinyImage = `set -e; cd "$(mkdir -p "$1/bin" && echo "$1")"; program=$(command -v busybox); cp "$program" bin/
for name in sh sleep test touch; do ln -s busybox bin/$name; done
for library in $(ldd "$program" | grep -o '/[^ ]*'); do
  mkdir -p ".$(dirname "$library")"; cp -L "$library" ".$library"
done
tar -cf "$1.tar" .`;
const cycle = async (name: string, token = olga.token) =>
  await runCycle(sourceOf(name), new ControlPlane(url, () => token), optionsOf("one"), never);

/** Monitors of a project by key: id, whether enabled. */
const monitors = async (project: string) =>
  new Map(
    (
      await sql<{ id: string; key: string; enabled: boolean; gone: boolean }[]>`
        select id, managed ->> 'key' as key, enabled, managed ? 'orphaned_since' as gone from targets
        where managed ->> 'project' = ${project}`
    ).map(({ key, ...row }) => [key, row]),
  );
const shift = (project: string, time: string) => sql`
  update targets set managed = jsonb_set(managed, '{orphaned_since}',
    to_jsonb(to_char(((managed ->> 'orphaned_since')::timestamptz - ${time}::interval) at time zone 'UTC',
      'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))
  where managed ->> 'project' = ${project} and managed ? 'orphaned_since'`;

/** A port before the control plane that can be closed, and cuts its connections. */
function gate(): { open(): Promise<void>; close(): void; url: () => string } {
  const sockets = new Set<Socket>();
  let server: Server | null = null;
  let port = 0;
  return {
    async open() {
      server = listen((from) => {
        const to = dial(Number(new URL(url).port), "127.0.0.1");
        for (const socket of [from, to]) sockets.add(socket.on("error", () => undefined));
        from.pipe(to).pipe(from);
      }).listen(port, "127.0.0.1");
      await once(server, "listening");
      ({ port } = server.address() as { port: number });
    },
    close() {
      server?.close();
      for (const socket of sockets) socket.destroy();
      sockets.clear();
    },
    url: () => `http://127.0.0.1:${port}`,
  };
}

t.test("20 containers come and go, the agent is killed twice, the control plane is away", async (t) => {
  const project = "docker-nas";
  const door = gate();
  await door.open();
  t.teardown(() => door.close());
  const pace = { debounceMs: 10, everyMs: 150, goneMs: 50, retryMs: 10, mostRetryMs: 50 };
  /** Starts a process's loop; the returned function kills it, in the middle of whatever it does. */
  const start = () => {
    const stop = new AbortController();
    const { signal } = stop;
    const control = new ControlPlane(door.url(), () => olga.token);
    const run = async () => await runCycle(sourceOf("nas"), control, optionsOf("one"), signal).catch(() => null);
    t.teardown(() => stop.abort());
    const ended = discoverUntil(sourceOf("nas"), run, { signal, pace, warn: () => undefined });
    return async () => {
      stop.abort();
      await ended;
    };
  };
  const settled = async (keys: readonly string[], gone: readonly string[] = []) => {
    const wanted = JSON.stringify([[...keys].sort(), [...gone].sort()]);
    await waitFor("discovery", async () => {
      const all = [...(await monitors(project))];
      const of = (isGone: boolean) => all.filter(([, row]) => row.gone === isGone).map(([key]) => key);
      return JSON.stringify([of(false).sort(), of(true).sort()]) === wanted;
    });
  };
  const names = Array.from({ length: 20 }, (_, at) => `app-${at}`);
  let kill = start();
  for (const name of names) docker.create(name);
  await settled(names);
  const before = await monitors(project);

  for (const name of names.slice(0, 5)) docker.remove(name);
  await kill();
  docker.create("late");
  kill = start();
  await settled([...names.slice(5), "late"], names.slice(0, 5));
  door.close();
  docker.create("while-away");
  docker.remove("app-5");
  await door.open();
  await settled([...names.slice(6), "late", "while-away"], names.slice(0, 6));
  await shift(project, "1 minute");
  await waitFor(
    "discovery",
    async () => [...(await monitors(project)).values()].filter(({ enabled }) => !enabled).length === 6,
  );
  docker.answer = "error";
  await kill();
  kill = start();
  for (const name of names.slice(0, 3)) docker.create(name);
  docker.answer = "list";
  await settled([...names.slice(0, 3), ...names.slice(6), "late", "while-away"], names.slice(3, 6));
  await shift(project, "10 minutes");
  await settled([...docker.containers.keys()]);
  await kill();
  const after = await monitors(project);
  t.strictSame([...after.keys()].sort(), [...docker.containers.keys()].sort(), "exactly the declared monitors");
  t.ok([...after.values()].every(({ enabled }) => enabled));
  for (const name of names.slice(0, 3)) t.equal(after.get(name)!.id, before.get(name)!.id, "its history stays");
  t.strictSame([...new Set(docker.requests)].sort(), ["GET /containers/json", "GET /events", "GET /services"]);
});

t.test("a wrong label is one line with its container; nothing reaches what labels may not", async (t) => {
  docker.containers.clear();
  const bad: [string, Labels, RegExp][] = [
    ["no-json", { "statusmesh.a.check": "{" }, /a needs check, a JSON object/],
    ["no-field", { "statusmesh.": "x" }, /is not statusmesh\.<key>\.<field>/],
    ["command", { "statusmesh.c.check": '{"type":"exec","command":"x"}' }, /cannot declare exec checks/],
    ["variable", { "statusmesh.d.url": "https://${SM_TOKEN}/" }, /cannot name variables/],
    ["takes-over", { "statusmesh.e.url": "https://e.example.org", "statusmesh.e.adopt": "x" }, /cannot set adopt/],
    [
      "channel",
      { "statusmesh.f.url": "https://f.example.org", "statusmesh.f.alerts": '[{"channel_id":"x"}]' },
      /channel_id/,
    ],
    ["inside", { "statusmesh.g.url": "http://169.254.169.254/latest" }, /^g, check\/url: /],
    ["unknown", { "statusmesh.h.url": "https://h.example.org", "statusmesh.h.tiemout": "1" }, /no field "tiemout"/],
    ["steals", { "statusmesh.good.url": "https://evil.example.org" }, /its key good is that of container good/],
    [
      "kuma",
      { "kuma.x.http.url": "https://{{ system_info.Name }}" },
      /the template \{\{ system_info\.Name \}\} cannot/,
    ],
  ];
  docker.create("good", { "statusmesh.good.url": "https://good.example.org" });
  for (const [name, labels] of bad) docker.create(name, labels);
  docker.create("own", { "statusmesh.own.check": '{"type":"tcp","host":"db.example.org","port":5432}' });
  docker.create("mqtt-only", { "kuma.y.mqtt.mqtt_topic": "x" });
  const { wrong, ignored, summary } = await cycle("wrong");
  t.equal(summary["create"], 2);
  t.strictSame(wrong.map(({ object }) => object).sort(), bad.map(([name]) => `container ${name}`).sort());
  for (const [name, , words] of bad) {
    const reason: string = wrong.find(({ object }) => object === `container ${name}`)!.reason;
    t.ok(words.test(reason), reason);
  }
  t.equal(ignored.length, 1);
  t.match(`${ignored[0]!.object}: ${ignored[0]!.reason}`, /^container mqtt-only: y: no check for the kind mqtt/);
  const { projects } = (await api.get("/api/v1/config")).body as { projects: { project: string; source: object }[] };
  matchObject(t, projects.find(({ project }) => project === "docker-wrong")!.source, { objects: 13, wrong: wrong });

  // What was declared and is wrong now is not gone.
  docker.containers.set("own", { "statusmesh.own.check": "{}" });
  await cycle("wrong");
  docker.answer = "half";
  await t.rejects(cycle("wrong"), /Docker, host wrong: containers cannot be read/);
  docker.answer = "list";
  docker.containers.clear();
  await cycle("wrong");
  const left = await monitors("docker-wrong");
  t.strictSame(
    [...left.values()].map(({ gone }) => gone),
    [false, false],
    "an empty list deletes nothing",
  );
  docker.create("good");
  await cycle("wrong", xenia.token);
  const all = await sql`select 1 from targets where managed ->> 'project' = 'docker-wrong'`;
  t.equal(all.length, 2 + 1, "another organisation has its own");
});

t.test(
  "a cycle that finds the same asks whether its document is applied, and applies it where it is not",
  async (t) => {
    docker.containers.clear();
    for (const name of ["a", "b"]) docker.create(name);
    const posted: string[] = [];
    const memory: CycleMemory = { last: null };
    const plane = new ControlPlane(url, () => olga.token);
    const counted = {
      post: async (path: string, body: Record<string, unknown> | string, signal: AbortSignal) => {
        posted.push(path.slice(path.lastIndexOf("/") + 1));
        return await plane.post(path, body, signal);
      },
    } as ControlPlane;
    const again = async () => {
      posted.length = 0;
      const { summary } = await runCycle(sourceOf("same"), counted, optionsOf("same"), never, memory);
      return [summary["create"] ?? 0, summary["update"] ?? 0, ...posted];
    };
    t.strictSame(await again(), [2, 0, "apply", "source"]);
    t.strictSame(await again(), [0, 0, "source"]);
    const { id } = (await monitors("docker-same")).get("a")!;
    await api.patch(`/api/v1/targets/${id}`, { name: "Other" });
    t.strictSame(await again(), [0, 1, "source", "apply", "source"], "an edit by hand");
    await api.delete(`/api/v1/targets/${id}`);
    t.strictSame(await again(), [1, 0, "source", "apply", "source"], "a deletion by hand");
    t.strictSame(await again(), [0, 0, "source"]);
    docker.containers.set("a", { "statusmesh.a.url": "https://other.example.org/" });
    t.strictSame(await again(), [0, 1, "apply", "source"], "another label");
    await sql`
    update declared_projects set source = jsonb_set(source, '{applied,at}', to_jsonb(now() - interval '1 hour'))
    where project = 'docker-same'`;
    t.strictSame(await again(), [0, 0, "source", "apply", "source"], "planned again each hour");
    const planless = await api.post("/api/v1/config/apply", { project: "files", document: { version: 1 } });
    matchObject(t, planless, { status: 400, body: { error: { code: "INVALID_BODY", field: "/plan_token" } } });
  },
);

t.test("AutoKuma's and Homepage's labels, and one container with both", async (t) => {
  docker.containers.clear();
  docker.create("immich", {
    "kuma.Immich Web.http.name": "{{ container_name }} of {{ image }}",
    "kuma.Immich Web.http.url": "https://immich.example.org",
    "kuma.Immich Web.http.max_retries": "2",
    "kuma.Immich Web.http.parent_name": "media",
    "kuma.Immich Web.http.tag_names": '[{"name":"home","value":"1"}]',
    "homepage.siteMonitor": "https://immich.example.org",
  });
  docker.create("groups", {
    "kuma.media.group.name": "Media",
    "kuma.immich-web.port.hostname": "db.example.org",
    "kuma.immich-web.port.port": "5432",
  });
  docker.create("emby", {
    "homepage.name": "Emby",
    "homepage.siteMonitor": "https://emby.example.org",
    "homepage.ping": "emby.example.org",
    "homepage.widget.key": "secret",
  });
  docker.create("link", { "homepage.href": "https://link.example.org" });
  await cycle("dialects");
  const rows = await sql<{ key: string; name: string; spec: Record<string, unknown>; tags: string[]; n: number }[]>`
    select managed ->> 'key' as key, name, spec, tags, alert_confirmations as n from targets
    where managed ->> 'project' = 'docker-dialects' order by key`;
  t.strictSame(
    rows.map(({ key, name, spec, tags, n }) => [key.replace(/-[0-9a-f]{8}$/, "-hash"), name, spec["type"], tags, n]),
    [
      ["homepage/emby", "Emby", "http", [], 2],
      ["homepage/emby/ping", "Emby ping", "ping", [], 2],
      ["immich-web", "immich of nginx:1", "http", ["home:1"], 3],
      ["immich-web-hash", "immich-web", "tcp", [], 2],
      ["media", "Media", "group", [], 1],
    ],
  );
});

t.test("the command: --dry-run, --once, a second writer, podman", async (t) => {
  const token = join(folder, "token");
  writeFileSync(token, `${olga.token}\n`);
  const { PATH = "" } = process.env;
  const run = (socket: string, ...args: string[]) =>
    runProgram(
      process.execPath,
      [program, "discover", "--docker", socket, "--url", url, "--token-file", token, ...args],
      {
        cwd: folder,
        env: { PATH },
      },
    );
  docker.containers.clear();
  docker.create("web");
  const [dry, away] = await Promise.all([
    run(docker.socket, "--name", "cli", "--dry-run"),
    run(join(folder, "none.sock"), "--name", "away", "--once"),
  ]);
  matchObject(t, dry, {
    code: 2,
    stdout: /^\+ web\ndocker-cli: 1 objects, 1 monitors, 0 wrong, 0 ignored; 1 create, /,
  });
  matchObject(t, away, { code: 1, stderr: /Docker, host away: containers cannot be read \(ENOENT\)/ });
  matchObject(t, await run(docker.socket, "--name", "cli", "--once"), { code: 0 });
  await cycle("cli");
  matchObject(t, await run(docker.socket, "--name", "cli", "--once"), { code: 1, stderr: /Another discovery writes/ });

  if (!(await requires(t, "container_socket"))) return;
  const socket = join(folder, "podman.sock");
  const base = ["--root", join(folder, "images"), "--runroot", join(folder, "run"), "--storage-driver", "vfs"];
  base.push("--cgroup-manager", "cgroupfs", "--runtime", "runc");
  const service = spawn("podman", [...base, "system", "service", "--time", "0", `unix://${socket}`], {
    stdio: "ignore",
  });
  t.teardown(() => service.kill());
  const image = join(folder, "image");
  const archive = `${image}.tar`;
  await runProgram("sh", ["-c", tinyImage, "sh", image], { cwd: folder, env: { PATH } });
  const real = (method: string, path: string, body?: Buffer, type = "application/json") =>
    new Promise<number>((settle, fail) => {
      const headers = body === undefined ? {} : { "content-type": type };
      const sent = send({ socketPath: socket, method, path, headers }, (reply) => {
        reply.resume().on("end", () => settle(reply.statusCode!));
      });
      sent.on("error", fail).end(body);
    });
  await waitFor("discovery", async () => (await real("GET", "/_ping").catch(() => 0)) === 200);
  t.equal(
    await real("POST", "/v1.40/images/create?fromSrc=-&repo=tiny", readFileSync(archive), "application/x-tar"),
    200,
  );
  const create = (name: string) => {
    const labels = { [`statusmesh.${name}.url`]: `https://${name}.example.org` };
    const body = Buffer.from(JSON.stringify({ Image: "tiny", Cmd: ["/x"], Labels: labels }));
    return real("POST", `/v1.40/containers/create?name=${name}`, body);
  };
  const events: number[] = [];
  const stop = new AbortController();
  const source = sourceOf("podman", socket);
  const watching = source.watch(() => events.push(1), stop.signal).catch(() => undefined);
  t.equal(await create("one"), 201);
  t.equal(await create("two"), 201);
  const reading = await source.read(never);
  t.strictSame(reading.all.map(({ words }) => words).sort(), ["container one", "container two"]);
  t.strictSame(reading.seen, ["containers"]);
  await waitFor("discovery", async () => events.length >= 2);
  await real("DELETE", "/v1.40/containers/two?force=true");
  await waitFor("discovery", async () => events.length >= 3);
  stop.abort();
  await watching;
  matchObject(t, await run(socket, "--name", "podman", "--once"), { code: 0, stdout: /1 monitors, .* 1 create/ });

  const podman = async (...args: string[]): Promise<void> =>
    void (await runProgram("podman", [...base, ...args], { cwd: folder, env: { PATH } }));
  const limits = ["--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"];
  const health = ["--health-cmd", "test -e /ok", "--health-interval", "disable", "--health-retries", "1"];
  await podman("run", "-d", "--name", "live", "--label", "app=shop", ...limits, ...health, "tiny", "/bin/sleep", "600");
  t.teardown(() => podman("rm", "-f", "-t", "0", "live"));
  const runner = testRunner({ docker: dockerPlace(socket)! });
  const checked = async (check: object) => {
    const base = { type: "container", name: null, label: null, timeout: 10_000 };
    const { measurement, skip } = await outcomeOf(runner.run("org", { ...base, ...check }));
    return [measurement.status, measurement.error, skip];
  };
  const live = { name: "live" };
  t.strictSame(await checked(live), ["error", "live is starting: its health check has not passed yet", true]);
  await podman("healthcheck", "run", "live");
  t.strictSame(await checked(live), ["down", "live is unhealthy", false]);
  await podman("exec", "live", "/bin/touch", "/ok");
  await podman("healthcheck", "run", "live");
  t.strictSame(await checked({ label: "app=shop" }), ["up", null, false]);
  await podman("pause", "live");
  t.strictSame(await checked(live), ["down", "live is paused", false]);
  await podman("unpause", "live");
  await podman("kill", "live");
  await podman("wait", "live");
  t.strictSame(await checked({ label: "app" }), ["down", "live has exited (exit code 137)", false]);
  t.strictSame(await checked({ name: "one" }), ["down", "one was created and has not been started", false]);
  t.strictSame(await checked({ name: "two" }), ["down", "there is no container two", false]);
});
