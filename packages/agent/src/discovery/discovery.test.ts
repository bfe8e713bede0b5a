import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { autoKumaConfig } from "@statusmesh/shared/foreign/autokuma";
import { clusterOf } from "./cluster.ts";
import { ApiRefusal, type ControlPlane } from "./control-plane.ts";
import { runCycle } from "./cycle.ts";
import { declare } from "./declare.ts";
import type { Found } from "./found.ts";
import { foundOf, keptOf, resources } from "./kube-objects.ts";
import { Kubernetes } from "./kubernetes.ts";
import { itemsOf } from "../http/requests.ts";

const never = new AbortController().signal;
const resource = (kind: string) => resources.find((one) => one.kind === kind)!;

/** An object of a kind as discovery sees it. */
function found(kind: string, spec: object, annotations: object = {}, parent?: Record<string, string>): Found {
  const metadata = { name: "app", namespace: "media", creationTimestamp: "2026-01-01T00:00:00Z", annotations };
  return foundOf(keptOf(resource(kind), `${kind} media/app`, { metadata, spec }), parent)!;
}
const read = (one: Found, isAuto = false) =>
  declare([one], { isKubernetes: true, isAuto, autoKuma: autoKumaConfig({}) });
const fieldsOf = (one: Found, isAuto = false) =>
  [...read(one, isAuto).wanted.values()].map(({ fields }) => JSON.parse(JSON.stringify(fields)) as object);

t.test("addresses of objects, by the table of the Gatus sidecar", (t) => {
  const http = (...paths: string[]) => ({ paths: paths.map((path) => ({ path })) });
  const cases: [string, object, string | null][] = [
    [
      "Ingress",
      { rules: [{ http: http("/x") }, { host: "a.example.org", http: http("/", "/v1") }] },
      "http://a.example.org/v1",
    ],
    ["Ingress", { rules: [{ host: "a.example.org" }], tls: [{ hosts: ["*.example.org"] }] }, "https://a.example.org"],
    [
      "Ingress",
      { rules: [{ host: "a.b.example.org" }], tls: [{ hosts: ["*.example.org"] }] },
      "http://a.b.example.org",
    ],
    ["Ingress", {}, null],
    ["HTTPRoute", { hostnames: ["h.example.org", "i.example.org"] }, "https://h.example.org"],
    [
      "HTTPRoute",
      {
        hostnames: ["h.example.org"],
        rules: [{ matches: [{ path: { type: "RegularExpression", value: "/r" } }, { path: { value: "/p" } }] }],
      },
      "https://h.example.org/p",
    ],
    [
      "IngressRoute",
      { routes: [{ match: "Method(`GET`)" }, { match: "Host(`t.example.org`) && PathPrefix(`/q`)" }], tls: {} },
      "https://t.example.org/q",
    ],
    ["Service", { ports: [{ port: 53, protocol: "UDP" }, { port: 80 }] }, "udp://app.media.svc:53"],
    ["Service", { ports: [{ port: 80 }] }, "tcp://app.media.svc:80"],
    ["Service", {}, null],
  ];
  for (const [kind, spec, url] of cases) t.equal(found(kind, spec).url, url, `${kind} ${url}`);
  t.end();
});

t.test("annotations of the Gatus sidecar and of Homepage", (t) => {
  const gatus = "gatus.home-operations.com/";
  const ingress = {
    rules: [{ host: "a.example.org", http: { paths: [{ path: "/v1" }] } }],
    tls: [{ hosts: ["a.example.org"] }],
  };
  const on = { [`${gatus}enabled`]: "true" };
  const status = { kind: "exact", value: 200 };
  const http = (more: object) => ({
    name: "app",
    check: { type: "http", timeout: 10_000, expected_status: status, ...more },
    interval: 60,
  });
  const cases: [string, Found, boolean, object[]][] = [
    ["enabled", found("Ingress", ingress, on), false, [http({ url: "https://a.example.org/v1" })]],
    ["no annotation", found("Ingress", ingress), false, []],
    [
      "no annotation, --auto",
      found("Ingress", ingress),
      true,
      [{ name: "app", check: { type: "http", url: "https://a.example.org/v1" } }],
    ],
    ["excluded", found("Ingress", ingress, { [`${gatus}enabled`]: "yes" }), true, []],
    [
      "ParseBool",
      found("Ingress", ingress, { [`${gatus}enabled`]: "T" }),
      false,
      [http({ url: "https://a.example.org/v1" })],
    ],
    [
      "the child wins, maps are merged",
      found(
        "Ingress",
        ingress,
        { ...on, [`${gatus}endpoint`]: "path: ''\nclient: {timeout: 5s}" },
        { [`${gatus}endpoint`]: "interval: 5m\nclient: {timeout: 9s, insecure: true}\ngroup: web" },
      ),
      false,
      [
        {
          ...http({ url: "https://a.example.org", timeout: 5000, verify_tls: false }),
          interval: 300,
          tags: ["group/web"],
        },
      ],
    ],
    [
      "a service",
      found("Service", { ports: [{ port: 5432 }] }, on),
      false,
      [{ name: "app", check: { type: "tcp", host: "app.media.svc", port: 5432, timeout: 10_000 }, interval: 60 }],
    ],
    [
      "Homepage",
      found("Ingress", ingress, {
        "gethomepage.dev/enabled": "true",
        "gethomepage.dev/name": "App",
        "gethomepage.dev/ping": "https://p.example.org/x",
        "gethomepage.dev/siteMonitor": "https://s.example.org",
        "gethomepage.dev/widget.key": "secret",
      }),
      false,
      [
        { name: "App", check: { type: "http", url: "https://s.example.org" } },
        { name: "App ping", check: { type: "ping", host: "p.example.org" } },
      ],
    ],
    [
      "Homepage, not enabled",
      found("Ingress", ingress, { "gethomepage.dev/siteMonitor": "https://s.example.org" }),
      false,
      [],
    ],
    [
      "Homepage, href alone",
      found("Ingress", ingress, { "gethomepage.dev/enabled": "true", "gethomepage.dev/href": "https://s.example.org" }),
      false,
      [],
    ],
    [
      "our own, before the others",
      found("Ingress", ingress, {
        ...on,
        "statusmesh.dev/web.url": "https://o.example.org",
        "statusmesh.dev/web.interval": "30",
      }),
      true,
      [{ name: "app", interval: 30, check: { type: "http", url: "https://o.example.org" } }],
    ],
  ];
  for (const [name, one, isAuto, wanted] of cases) t.strictSame(fieldsOf(one, isAuto), wanted, name);
  const wrong = read(found("Ingress", ingress, { ...on, [`${gatus}endpoint`]: "a: [" }));
  t.match(wrong.wrong[0]!.reason, /^the annotation gatus\.home-operations\.com\/endpoint: line \d+: /);
  t.strictSame([...wrong.kept], ["gatus/ingress/media/app"]);
  t.end();
});

t.test("lists are read object by object", async (t) => {
  const items = [{ a: '"]}\\' }, { b: [[1], { c: "é€😀" }] }, {}];
  const text = Buffer.from(`\n${JSON.stringify(items, null, 1)} `);
  async function* cut(bytes: Buffer, size: number) {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
  }
  const all = async (bytes: Buffer, size: number) => {
    const got: unknown[] = [];
    for await (const one of itemsOf(cut(bytes, size))) got.push(one);
    return got;
  };
  for (const size of [1, 2, 3, 7, 1000]) t.strictSame(await all(text, size), items, `chunks of ${size}`);
  t.strictSame(await all(Buffer.from("[]"), 1), []);
  for (const bad of ["", "{}", '[{"a":1}', "null"]) await t.rejects(all(Buffer.from(bad), 3), /no list/, bad);
});

/** The API of a cluster: lists in pages, watches with every kind of break. */
function fakeCluster() {
  const ingresses = new Map<string, object>();
  const watches = new Set<ServerResponse>();
  const asked: string[] = [];
  let version = 100;
  let refuses: number | null = null;
  const object = (name: string, namespace = "media") => ({
    metadata: {
      name,
      namespace,
      resourceVersion: String(++version),
      creationTimestamp: "2026-01-01T00:00:00Z",
      annotations: { "statusmesh.dev/k.url": `https://${name}.example.org` },
    },
    spec: {},
  });
  const server = createServer((request, response) => {
    const { pathname, searchParams: query } = new URL(request.url!, "http://k");
    if (request.headers.authorization !== `Bearer ${cluster.token}`) return void response.writeHead(401).end("{}");
    if (pathname !== "/apis/networking.k8s.io/v1/ingresses") return void response.writeHead(404).end("{}");
    asked.push(query.has("watch") ? `watch ${query.get("resourceVersion")}` : `list ${query.get("continue") ?? ""}`);
    if (refuses !== null) return void response.writeHead(refuses).end('{"message":"no"}');
    if (query.has("watch")) {
      watches.add(response.writeHead(200));
      response.flushHeaders();
      return void response.on("close", () => watches.delete(response));
    }
    const all = [...ingresses.values()];
    const from = Number(query.get("continue") ?? 0);
    const next = from + 2 < all.length ? String(from + 2) : "";
    const metadata = { resourceVersion: String(version), continue: next };
    response.end(JSON.stringify({ kind: "IngressList", metadata, items: all.slice(from, from + 2) }));
  });
  const tell = (type: string, value: object): void => {
    const bytes = Buffer.from(`${JSON.stringify({ type, object: value })}\n`);
    for (const one of watches) {
      one.write(bytes.subarray(0, 20));
      one.write(bytes.subarray(20));
    }
  };
  const cluster = {
    server,
    asked,
    watches,
    tell,
    token: "first",
    /** Breaks the watches; the server has no memory of what they miss. */
    cut() {
      for (const one of watches) one.destroy();
      watches.clear();
    },
    refuse: (status: number | null) => void (refuses = status),
    add(name: string, namespace?: string) {
      const one = object(name, namespace);
      const type = ingresses.has(name) ? "MODIFIED" : "ADDED";
      ingresses.set(name, one);
      tell(type, one);
    },
    remove(name: string) {
      tell("DELETED", ingresses.get(name)!);
      ingresses.delete(name);
    },
    hide: (name: string) => void ingresses.delete(name),
  };
  return cluster;
}

t.test("Kubernetes: pages, watches, bookmarks, 410, cut connections, a token that is replaced", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "kube-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const fake = fakeCluster();
  fake.server.listen(0, "127.0.0.1");
  await once(fake.server, "listening");
  t.teardown(() => {
    fake.server.closeAllConnections();
    fake.server.close();
  });
  const tokenFile = join(folder, "token");
  writeFileSync(tokenFile, "first\n");
  for (const name of ["a", "b", "c"]) fake.add(name);
  const url = new URL(`http://127.0.0.1:${(fake.server.address() as AddressInfo).port}`);
  const source = new Kubernetes({ url, tokenFile }, "k", [], 1);
  const names = async () =>
    (await source.read(never)).all
      .map(({ name }) => name)
      .sort()
      .join("");
  const until = async (wanted: string): Promise<void> => {
    while ((await names().catch(String)) !== wanted) await new Promise((next) => setTimeout(next, 5));
  };
  const watched = async (): Promise<void> => {
    while (fake.watches.size === 0) await new Promise((next) => setTimeout(next, 5));
  };
  t.equal(await names(), "abc");
  t.strictSame(fake.asked, ["list ", "list 2"], "in pages");
  t.strictSame((await source.read(never)).seen, ["ingresses/media"]);
  const stop = new AbortController();
  let changes = 0;
  const watching = source.watch(() => void changes++, stop.signal);
  await watched();
  fake.add("d");
  fake.remove("a");
  await until("bcd");
  const before = changes;
  fake.tell("BOOKMARK", { metadata: { resourceVersion: "777" } });
  fake.tell("MODIFIED", {
    metadata: {
      name: "d",
      namespace: "media",
      resourceVersion: "778",
      creationTimestamp: "2026-01-01T00:00:00Z",
      annotations: { "statusmesh.dev/k.url": "https://d.example.org" },
    },
    spec: {},
    status: { x: 1 },
  });
  for (const one of fake.watches) one.end();
  await watched();
  while (!fake.asked.includes("watch 778")) await new Promise((next) => setTimeout(next, 5));
  t.equal(changes, before, "a status that changes is no change");

  await watched();
  fake.cut();
  fake.refuse(500);
  await new Promise((next) => setTimeout(next, 20));
  t.equal(await names(), "bcd", "a cluster that is away has what it had");
  fake.refuse(null);
  await watched();
  // What a watch has missed is found by the list after 410.
  fake.hide("b");
  fake.tell("ERROR", { kind: "Status", code: 410, reason: "Expired" });
  await until("cd");
  writeFileSync(tokenFile, "second\n");
  fake.token = "second";
  await watched();
  fake.cut();
  await watched();
  fake.add("e");
  await until("cde");
  fake.refuse(410);
  fake.cut();
  await t.rejects(
    async () => {
      for (;;) await names();
    },
    /cannot be listed/,
    "an expired watch of a cluster that cannot be listed is no empty list",
  );
  stop.abort();
  await watching;
});

t.test("a kubeconfig file", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "kube-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "config");
  const config = (user: string, cluster = "certificate-authority: ca.pem") =>
    writeFileSync(
      file,
      `current-context: c
contexts: [{ name: c, context: { cluster: k, user: u } }]
clusters: [{ name: k, cluster: { server: "https://k.example.org:6443", ${cluster} } }]
users: [{ name: u, user: { ${user} } }]
`,
    );
  writeFileSync(join(folder, "ca.pem"), "CA");
  config("token: secret");
  const { url, ca, token } = clusterOf(file);
  t.strictSame([url.href, String(ca), token], ["https://k.example.org:6443/", "CA", "secret"]);
  config("exec: { command: aws }");
  t.throws(() => clusterOf(file), /signs in by a program/);
  config("token: x", "insecure-skip-tls-verify: true");
  t.throws(() => clusterOf(file), /is not verified/);
  t.match(readFileSync(file, "utf8"), "current-context");
  t.end();
});

/** A cycle of containers with these labels, the first is the oldest; the server refuses what `refuses` says. */
async function cycleOf(containers: Record<string, Record<string, string>>, refuses: (key: string) => boolean) {
  const all = Object.entries(containers).map(([name, labels], at): Found => ({
    words: `container ${name}`,
    name,
    id: name,
    scope: "containers",
    labels,
    created: String(at).padStart(5, "0"),
    texts: {},
    get url(): string | null {
      if (name === "throws") throw new Error("broken");
      return null;
    },
  }));
  const plans: { document: { monitors: Record<string, { check: object }> }; source: { kept: string[] } }[] = [];
  const api = {
    post(path: string, body: unknown) {
      if (path !== "/api/v1/config/apply") return Promise.resolve({});
      plans.push(JSON.parse(body as string) as (typeof plans)[number]);
      const faults = Object.keys(plans.at(-1)!.document.monitors).filter(refuses).slice(0, 100);
      if (faults.length === 0) return Promise.resolve({ summary: {}, changes: [], warnings: [] });
      const listed = faults.map((key) => ({ field: `/document/monitors/${key}`, code: "X", message: "no" }));
      return Promise.reject(new ApiRefusal("X", "no", listed));
    },
  } as unknown as ControlPlane;
  const source = {
    project: "docker-x",
    words: "Docker, host x",
    read: () => Promise.resolve({ all, seen: ["containers"], remarks: [] }),
    watch: () => Promise.resolve(),
  };
  const options = { isKubernetes: false, isAuto: true, autoKuma: autoKumaConfig({}), writer: "w", graceSecs: 600 };
  const { wrong } = await runCycle(source, api, { ...options, maxDelete: null, isDryRun: false }, never);
  const last = plans.at(-1)!;
  const lines = wrong.map(({ object, reason }) => `${object}: ${reason}`);
  return { lines, plans: plans.length, monitors: last.document.monitors, kept: last.source.kept };
}
const group = (more: object) => JSON.stringify({ type: "group", rule: "all", ...more });
const urls = (count: number, prefix: string) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, at) => [`statusmesh.${prefix}${at}.url`, `https://${prefix}.example.org`]),
  );

t.test("wrong shapes of a group are lines of its object, and it reaches its own project alone", async (t) => {
  const own = "A group from labels takes members of its own project, by monitor, and cannot hold their notifications.";
  const shape = 'each of its members is a JSON object {"monitor":"<key>"}';
  const bad: [string, string, string][] = [
    ["null", group({ members: [null] }), shape],
    ["text", group({ members: ["web"] }), shape],
    ["number", group({ members: [{ monitor: 1 }] }), shape],
    ["none", group({ members: [{}] }), shape],
    ["map", group({ members: { monitor: "web" } }), "members is no list"],
    ["tag", group({ members: [{ tag: "x" }] }), own],
    ["both", group({ members: [{ monitor: "web", tag: "x" }] }), own],
    ["holds", group({ members: [{ monitor: "web" }], hold_members: true }), own],
    [
      "other",
      group({ members: [{ monitor: "other-project/x" }] }),
      "its member other-project/x is an unknown monitor of this project",
    ],
  ];
  const good = group({
    members: [{ monitor: "web" }, { monitor: "refused" }, { monitor: "map" }],
    hold_members: false,
  });
  const { lines, monitors, kept } = await cycleOf(
    {
      ...Object.fromEntries(bad.map(([name, check]) => [name, { [`statusmesh.${name}.check`]: check }])),
      throws: { "traefik.x": "y" },
      web: { "statusmesh.web.url": "https://web.example.org", "statusmesh.all.check": good },
      refused: { "statusmesh.refused.url": "x" },
      kuma: {
        "kuma.g.group.name": "G",
        "kuma.empty.group.parent_name": "g",
        "kuma.m.http.url": "https://m.example.org",
        "kuma.m.http.parent_name": "g",
      },
    },
    (key) => key === "refused",
  );
  t.strictSame(
    lines.sort(),
    [
      ...bad.map(([name, , reason]) => `container ${name}: ${name}: ${reason}`),
      "container refused: refused: no",
      "container throws: its labels cannot be read (broken)",
    ].sort(),
  );
  t.strictSame(Object.keys(monitors).sort(), ["all", "g", "m", "web"]);
  matchObject(t, monitors["g"]!.check, { members: [{ monitor: "m" }] }, "a group without monitors is no unknown one");
  matchObject(t, monitors["all"]!.check, { members: [{ monitor: "web" }] }, "members that are wrong are left out");
  for (const [name] of bad) t.ok(kept.includes(name), name);
});

t.test("limits of an object: labels, JSON, monitors, and what the server refuses", async (t) => {
  const wide = `[${"1e20,".repeat(5000)}1]`;
  const { lines, plans, monitors, kept } = await cycleOf(
    {
      ...Object.fromEntries(["p", "q", "r"].map((name) => [name, urls(50, name)])),
      large: { "statusmesh.large.url": "https://x.example.org", other: "x".repeat(65_536) },
      json: { "statusmesh.json.url": "https://x.example.org", "statusmesh.json.tags": wide },
      many: urls(51, "many"),
      wrong: Object.fromEntries(Array.from({ length: 6000 }, (_, at) => [`statusmesh.w${at}.x`, "1"])),
      labels: Object.fromEntries(Array.from({ length: 60 }, (_, at) => [`statusmesh.${at}`, "1"])),
      some: urls(19, "some"),
      web: urls(50, "web"),
      steals: Object.fromEntries(Object.keys(urls(50, "web")).map((label) => [label, "https://y.example.org"])),
    },
    (key) => /^(?:[pqr]|some)\d/.test(key),
  );
  t.equal(Object.keys(monitors).length, 50);
  t.ok(plans <= 4, `${plans} plans`);
  const of = (name: string) => lines.filter((one) => one.startsWith(`container ${name}: `));
  for (const name of ["p", "q", "r"]) {
    t.equal(of(name).length, 1);
    t.match(of(name)[0], /: 20 of its monitors are refused, so it is left out; /);
  }
  matchObject(t, of("large"), [/: its labels have 65 KiB: an object has at most 64 KiB$/]);
  matchObject(t, of("json"), [/: its monitors have \d+ KiB as JSON: an object has at most 64 KiB$/]);
  matchObject(t, of("many"), [/: it declares 51 monitors, .* at most 50$/]);
  matchObject(t, of("wrong"), [/: its labels have \d+ KiB/]);
  matchObject(t, of("labels"), [/: it declares 60 monitors, wrong labels included/]);
  t.equal(of("steals").length, 50);
  t.equal(lines.length, 3 + 5 + 19 + 50);
  for (const key of ["p0", "p49", "large", "json", "many0", "many50", "w0", "some18"]) t.ok(kept.includes(key), key);
  t.ok(kept.length < 600, `${kept.length} kept`);
});
