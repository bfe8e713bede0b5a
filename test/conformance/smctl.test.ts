import { spawn } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { parse } from "yaml";
import { checkDocument } from "@statusmesh/shared/declared/check";
import { requestBodies } from "smctl/package";
import { connect, type Json } from "../harness/api.ts";
import { castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { tempFolder } from "../harness/folder.ts";
import { serveHere } from "../harness/in-process.ts";
import { type Ended, runProgram, smctlHere, smctlProgram } from "../harness/smctl.ts";

/* Files that smctl plans and applies, and the steps of pipelines, against a control plane. */

const root = join(import.meta.dirname, "../../..");
const folder = tempFolder(t, "apply");
const database = await cloneDatabase(t);
const url = await serveHere(t, database, { SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true" });
const { olga } = await castIn(database.sql);
const api = connect(t, url, olga.token);

const secret = "https://hooks.slack.com/services/T00000000/B00000000/s3cretS3cretS3cretS3cret";
const whole = `version: 1
project: shop
channels:
  ops:
    name: On call
    config: { type: slack, webhook_url: "\${SLACK}" }
monitors:
  web/shop:
    name: Shop
    check: { type: tcp, host: shop.example.org, port: 443, timeout: 5s }
    alerts: [ops]
  db:
    name: DB
    check: { type: tcp, host: db.example.org, port: 5432 }
`;
const write = (text: string): void => writeFileSync(join(folder, "statusmesh.yaml"), text);

const settings = { HOME: folder, SM_URL: url, SM_TOKEN: olga.token, SLACK: secret };
const run = (file: string, args: readonly string[], env: Record<string, string> = {}): Promise<Ended> =>
  runProgram(file, args, { cwd: folder, env: { PATH: process.env["PATH"], ...settings, ...env } });
const smctl = (args: readonly string[], env: Record<string, string> = {}): Promise<Ended> =>
  smctlHere(args, { cwd: folder, env: { ...settings, ...env } });

t.test("plan and apply: exit codes, and a plan that is empty afterwards", async (t) => {
  write(whole);
  const planned = await run(process.execPath, [smctlProgram, "plan"]);
  matchObject(t, planned, { code: 2, stdout: /^\+ create channel ops\n[^]*\+ create monitor web\/shop\n/ });
  t.match(planned.stdout, /\nPlan: 3 to create\.\n$/);
  t.notMatch(planned.stdout, "s3cret");
  t.notMatch(planned.stdout, "\u001b", "no colours without a terminal");
  matchObject(t, await smctl(["apply", "--dry-run"]), { code: 2 });
  t.equal((await api.get("/api/v1/targets")).body.total, 0, "nothing is written");
  matchObject(t, await smctl(["apply"]), { code: 0, stdout: /\nApplied: 3 created\.\n$/ });
  matchObject(t, await smctl(["plan"]), { code: 0, stdout: "Plan: 3 unchanged.\n" });
  matchObject(t, JSON.parse((await smctl(["plan", "--json"])).stdout), { summary: { unchanged: 3 }, changes: [] });
  matchObject(t, await smctl(["plan"], { SLACK: "" }), {
    code: 1,
    stderr: /^statusmesh\.yaml:6:\d+: The variable SLACK is empty/,
  });
  matchObject(t, await smctl(["plan", "--keep-secrets"], { SLACK: "" }), { code: 0 });
});

t.test("a created object is shown field by field; --keep-secrets is for secrets of stored objects", async (t) => {
  const http = '{type: http, url: "https://a.example.org"';
  const file = (name: string, more = "") => `version: 1
project: kept
defaults: {check: {bearer_token: "\${KEY}"}}
channels:
  hook: {name: Hook, config: {type: webhook, url: "https://\${KEY}.example.org/", headers: {X-Key: "\${KEY}"}}}
monitors:
  web/one: {name: "${name}", check: ${http}, headers: {X-Key: "Key \${KEY}"}}, alerts: []}
  two: {name: Two, check: ${http}, bearer_token: null, basic_auth: [u, "\${KEY}"]}, alerts: []}
  job: {name: Job, check: {type: heartbeat, period: 1d}, heartbeat_addresses: [{kind: kuma, value: "\${KEY}"}]}
${more}`;
  const key = { KEY: "s3cret-value" };
  write(file("One"));
  const { stdout } = await smctl(["plan"], key);
  t.match(stdout, /^\+ create monitor web\/one\n {4}name: "One"\n[^]*? {4}check\/headers\/X-Key: "changed"\n/m);
  t.match(stdout, / {4}check\/url: "https:\/\/a\.example\.org"\n/);
  t.notMatch(stdout, /: null\n/);
  t.match((await smctl(["plan", "--markdown"], key)).stdout, /check\/url: "https:\/\/a.example.org"<br>/);
  matchObject(t, await smctl(["apply"], key), { code: 0, stdout: /Applied: 4 created/ });
  matchObject(
    t,
    await smctl(["plan", "--keep-secrets"]),
    { code: 0, stdout: "Plan: 4 unchanged.\n" },
    "every secret is kept",
  );
  write(file("${NAME}"));
  matchObject(t, await smctl(["plan", "--keep-secrets"]), {
    code: 1,
    stderr: "statusmesh.yaml:7:19: The variable NAME is not set, and is no secret.\nsmctl: 1 error.\n",
  });
  write(
    file("One", '  new: {name: New, check: {type: tcp, host: a.example.org, port: 1, send: "${OTHER}"}, alerts: []}\n'),
  );
  matchObject(t, await smctl(["plan", "--keep-secrets"]), {
    code: 1,
    stderr: "statusmesh.yaml:10:75: The variable OTHER is not set, and no secret is stored.\nsmctl: 1 error.\n",
  });
  write("version: 1\nproject: kept\n");
  matchObject(t, await smctl(["apply", "--prune", "--yes"]), { code: 0, stdout: /Applied: 4 deleted/ });
});

t.test("a terminal is asked; what changed meanwhile is stale", async (t) => {
  write(whole.replace("name: DB", "name: Other"));
  /** Runs apply at a terminal, and types the answer once it asks. */
  const atTerminal = (answer: string, meanwhile: () => Promise<unknown> = () => Promise.resolve()) =>
    new Promise<{ code: number | null; stdout: string }>((settle) => {
      const child = spawn("script", ["-qec", `"${process.execPath}" "${smctlProgram}" apply`, "/dev/null"], {
        cwd: folder,
        env: { PATH: process.env["PATH"], ...settings },
        stdio: ["pipe", "pipe", "inherit"],
      });
      let stdout = "";
      let isAsked = false;
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        stdout += text;
        if (isAsked || !stdout.includes("Type yes: ")) return;
        isAsked = true;
        void meanwhile().then(() => child.stdin.write(answer));
      });
      child.once("close", (code) => settle({ code, stdout }));
    });
  const { items } = (await api.get("/api/v1/targets?q=DB")).body;
  const names = async () => (await api.get(`/api/v1/targets/${items[0].id}`)).body.name;
  matchObject(t, await atTerminal("no\n"), { code: 1, stdout: /"DB".* -> .*"Other"[^]*Nothing was applied/ });
  matchObject(
    t,
    await atTerminal("\u0003"),
    { code: 1, stdout: /Type yes: [^a-z]*smctl: Nothing was applied\.\r\n$/ },
    "Ctrl-C",
  );
  t.equal(await names(), "DB");
  matchObject(
    t,
    await atTerminal("yes\n", () => api.patch(`/api/v1/targets/${items[0].id}`, { tags: ["by-hand"] })),
    { code: 3, stdout: /smctl: .*changed since/ },
    "exit code 3",
  );
  t.equal(await names(), "DB", "nothing is applied");
  matchObject(t, await atTerminal("yes\n"), { code: 0, stdout: /Applied: 1 updated/ });
  t.equal(await names(), "Other");
  write(whole);
  matchObject(t, await smctl(["apply"]), { code: 0 });
});

t.test("a deletion needs --yes, and prune its limit", async (t) => {
  write(whole.replace(/ {2}db:[^]*$/, "").replace("name: Shop", "name: Shop | <b>"));
  matchObject(t, await smctl(["plan"]), {
    code: 2,
    stdout: /^~ update monitor web\/shop\n {4}name: "Shop" -> "Shop \| <b>"\n/,
  });
  matchObject(t, await smctl(["apply", "--dry-run", "--markdown"]), { code: 2, stdout: /"Shop \\\| &lt;b>"/ });
  matchObject(t, await smctl(["apply", "--prune"]), { code: 1, stderr: /1 would be deleted: that needs --yes/ });
  matchObject(t, await smctl(["apply", "--prune", "--yes", "--max-delete", "0"]), {
    code: 1,
    stderr: /^smctl: .*delet/m,
  });
  t.equal((await api.get("/api/v1/targets")).body.total, 2);
  matchObject(t, await smctl(["apply", "--prune", "--yes"]), {
    code: 0,
    stdout: /Applied: 1 updated, 1 deleted, 1 unchanged/,
  });
});

t.test("what the server refuses has file, line and column", async (t) => {
  write(whole.replace("alerts: [ops]", "alerts: [ops]\n    regions: [nowhere]").replace("tcp", "dns"));
  matchObject(t, await smctl(["validate"]), { code: 1 }, "what needs no server is said without one");
  write(whole.replace("alerts: [ops]", "alerts: [ops]\n    regions: [nowhere]"));
  matchObject(t, await smctl(["validate"]), { code: 0 });
  const { code, stderr } = await smctl(["plan"]);
  t.equal(code, 1);
  t.match(stderr, /^statusmesh\.yaml:12:\d+: .*nowhere.*\nsmctl: 1 error\.\n$/);
  matchObject(t, JSON.parse((await smctl(["apply", "--json"])).stdout), [{ file: "statusmesh.yaml", line: 12 }]);
});

/** A document whose every text is a variable, and their values; keys stay as they are. */
function withVariables(document: object): { document: Json; values: Record<string, string> } {
  const values: Record<string, string> = {};
  const filled = (value: unknown): unknown => {
    if (typeof value === "string") {
      const name = `V${Object.keys(values).length}`;
      values[name] = value;
      return `\${${name}}`;
    }
    if (Array.isArray(value)) return value.map(filled);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, filled(item)]));
  };
  return { document: { version: 1, project: "hidden", ...(filled(document) as Json) }, values };
}

t.test("what a variable gives is shown nowhere", async (t) => {
  const host = "zq.example.org";
  const objects = (mark: string) => ({
    defaults: { tags: [`zq-default-${mark}`], interval: "5m", check: { headers: { "X-Zq": `zq ${mark}` } } },
    channels: {
      slack: { name: `Zq chat ${mark}`, config: { type: "slack", webhook_url: `${secret}zq${mark}` } },
      hook: {
        name: `Zq hook ${mark}`,
        config: {
          type: "webhook",
          url: `https://${host}/${mark}`,
          headers: { "X-A": `zq${mark}` },
          secret: `zq-secret-long-${mark}`,
        },
      },
      ntfy: {
        name: `Zq topic ${mark}`,
        config: { type: "ntfy", topic: `zq-${mark}`, server_url: `https://${host}` },
      },
    },
    monitors: {
      "web/zero": {
        name: `Zq web ${mark}`,
        check: {
          type: "http",
          url: `https://${host}/?t=zq-${mark}`,
          method: "POST",
          timeout: "5s",
          expected_body_contains: `zq has ${mark}`,
          expected_body_matches: `zq.*${mark}`,
          expected_json: [{ path: "$.zq", op: "eq", value: `zq ${mark}` }],
          expected_headers: [{ name: "X-Zq", op: "eq", value: `zq ${mark}` }],
          body: `zq=${mark}`,
          basic_auth: ["zq-user", `zq-password-${mark}`],
          bearer_token: null,
        },
        alerts: ["slack", { channel: "hook" }],
        escalation: [{ after_minutes: "1h", channels: ["ntfy"] }],
        depends_on: ["tcp"],
      },
      tcp: {
        name: `Zq tcp ${mark}`,
        tags: [`zq-${mark}`],
        check: { type: "tcp", host, port: 5, send: `zq ${mark}` },
      },
      dns: {
        name: `Zq dns ${mark}`,
        check: { type: "dns", domain: host, record_type: "A", expected_contains: `zq${mark}` },
      },
      grpc: {
        name: `Zq grpc ${mark}`,
        check: { type: "grpc", host, port: 5, service: `zq.${mark}`, server_name: host },
      },
      live: {
        name: `Zq live ${mark}`,
        check: { type: "websocket", url: `wss://${host}/${mark}`, send: `zq ${mark}` },
      },
      job: {
        name: `Zq job ${mark}`,
        check: { type: "heartbeat", schedule: { cron: "5 4 * * *", timezone: "Europe/Paris" } },
      },
    },
    status_pages: {
      main: {
        slug: `zq-${mark}`,
        name: `Zq page ${mark}`,
        branding: { brand_color: "#102030", about: `zq about ${mark}`, website_url: `https://${host}/${mark}` },
        components: [
          { monitor: "tcp", public_name: `Zq part ${mark}`, public_group: `Zq group ${mark}` },
          { manual: true, public_name: `Zq line ${mark}` },
        ],
      },
    },
    maintenance: {
      night: {
        title: `Zq night ${mark}`,
        description: `Zq ${mark}`,
        starts_at: "2036-01-02T00:00:00Z",
        ends_at: "2036-01-02T01:00:00Z",
        recurrence: { rule: "FREQ=WEEKLY", time_zone: "Europe/Paris" },
        monitors: ["tcp"],
      },
    },
  });
  const { document, values } = withVariables(objects("one"));
  write(JSON.stringify(document));
  const said: string[] = [];
  const seen = async (args: readonly string[], env: Record<string, string>): Promise<Ended> => {
    const ended = await smctl(args, env);
    said.push(ended.stdout, ended.stderr);
    const found = /[^\n]*(?<!X-)(?<!Did you mean ")zq[^\n]*/i.exec(`${ended.stdout}\n${ended.stderr}`)?.[0];
    t.equal(found, undefined, `${args.join(" ")}`);
    return ended;
  };
  const planned = await seen(["plan"], values);
  matchObject(t, planned, { code: 2, stdout: / {4}check\/url: "changed"\n/ });
  t.match(planned.stdout, / {4}check\/type: "changed"\n/);
  t.match(planned.stdout, / {4}check\/port: 5\n/, "what the file says itself is shown");
  await seen(["plan", "--json"], values);
  await seen(["plan", "--markdown"], values);
  matchObject(t, await seen(["apply", "--json"], values), { code: 0 });
  matchObject(t, await seen(["plan"], values), { code: 0, stdout: /^Plan: 11 unchanged\.\n$/ });
  const { values: later } = withVariables(objects("two"));
  matchObject(t, await seen(["plan"], later), {
    code: 2,
    stdout: /^~ update monitor web\/zero\n[^]*? {4}check\/url: "changed" -> "changed"\n/m,
  });
  await seen(["plan", "--json"], later);
  matchObject(t, await seen(["apply", "--markdown"], later), { code: 0 });

  // Each value in turn is one that is refused, if at all with a message that would quote it.
  const wrong = `zq://\u0001<b>${"zq".repeat(300)}:99999/`;
  for (const name of Object.keys(values)) await seen(["plan"], { ...values, [name]: wrong });
  t.ok(
    said.some((text) => /The value is refused \(\w+\)\. The reason is not shown/.test(text)),
    "the server's too",
  );
  write('{"version": 1, "project": "hidden"}');
  matchObject(t, await seen(["apply", "--prune", "--yes", "--max-delete", "50"], {}), { code: 0 });
});

t.test("a plan does not show what a variable gave, after the files have a text in its place", async (t) => {
  const file = (url: string, tags: string, name = "") => `version: 1
project: replaced
defaults: {tags: [${tags}], check: {headers: {X-Plain: p, X-Key: "${url}"}}}
monitors:
  web: {name: "Web${name}", check: {type: http, url: "${url}"}, alerts: []}
  own: {name: Own, check: {type: http, url: "https://a.example.org/own"}, tags: [visible], alerts: []}
maintenance: {past: {title: Past, starts_at: "2016-01-01T00:00:00Z", ends_at: "\${END}", monitors: []}}
`;
  const values = { KEY: "Zq-Value", TAG: "zq", END: "2016-01-02T03:04:00Z" };
  write(file("https://a.example.org/${KEY}", '"${TAG}"'));
  const applied = await smctl(["apply"], values);
  matchObject(t, applied, { code: 0, stdout: /^! past is over: it is not created\.$/m });
  t.notMatch(applied.stdout, "2016");
  // The marks are stored with what changes next, and stay where a text replaces a part of them.
  write(file("https://a.example.org/${KEY}", '"${TAG}"', " 2").replace("[visible]", "[seen]"));
  const renamed = await smctl(["apply", "--json"], values);
  matchObject(t, renamed, { code: 0 });
  t.notMatch(renamed.stdout, /zq/i);
  t.match(renamed.stdout, /"visible"[^]*"seen"/, "a text of the object in place of the default is shown");
  const text = file("https://a.example.org/public", "public").replace("[visible]", "[seen]");
  const shows = async (how: string) => {
    for (const form of [[], ["--json"], ["--markdown"]]) {
      // Neither its value nor its name is in this environment.
      const planned = await smctl(["plan", ...form], { END: values.END });
      matchObject(
        t,
        planned,
        { code: 2, stdout: "https://a.example.org/public" },
        `${how}: what the file says is shown`,
      );
      t.notMatch(planned.stdout, /zq/i, how);
    }
  };
  write(text);
  await shows("declared");
  const [web] = await database.sql<{ id: string }[]>`select id from targets where name = 'Web 2'`;
  const of = ["monitor", "web", web!.id, "--project", "replaced"];
  matchObject(t, await smctl(["detach", ...of]), { code: 0 });
  write(text.replace("web: {", `web: {adopt: ${web!.id}, `));
  await shows("detached");
  matchObject(t, await smctl(["adopt", ...of]), { code: 0 });
  write(text);
  await shows("adopted");
  matchObject(t, await smctl(["apply"], { END: values.END }), { code: 0 });
  write(file("https://a.example.org/later", "later").replace("[visible]", "[seen]"));
  const later = await smctl(["plan"], { END: values.END });
  matchObject(t, later, {
    code: 2,
    stdout: 'check/url: "https://a.example.org/public" -> "https://a.example.org/later',
  });
  write("version: 1\nproject: replaced\n");
  matchObject(t, await smctl(["apply", "--prune", "--yes"]), { code: 0 });
});

t.test("variables and files that are not for the files of a project", async (t) => {
  mkdirSync(join(folder, "conf"));
  mkdirSync(join(folder, "shared"));
  writeFileSync(join(folder, "shared/token"), "zq-token\n");
  writeFileSync(join(folder, "conf/own"), "zq-token\n");
  writeFileSync(join(folder, "conf/smctl"), olga.token);
  const check = "{type: http, url: https://a.example.org, bearer_token: ";
  const validate = (value: string, args: string[] = [], env: Record<string, string> = {}): Promise<Ended> => {
    const text = `version: 1\nproject: named\nmonitors:\n  a: {name: A, check: ${check}"${value}"}}\n`;
    writeFileSync(join(folder, "conf/a.yaml"), text);
    return smctl(["validate", "conf/a.yaml", ...args], env);
  };
  const refused = (message: RegExp) => ({ code: 1, stderr: message });
  matchObject(
    t,
    await validate("${SM_TOKEN}"),
    refused(/\$\{SM_TOKEN\} is a setting of smctl, which files cannot read/),
  );
  matchObject(t, await validate("${sm_Anything}", [], { sm_Anything: "x" }), refused(/is a setting of smctl/));
  matchObject(t, await validate("${file:own}"), { code: 0 });
  const elsewhere = /It is not below conf\. Allow its folder with --allow-file\./;
  for (const path of ["/etc/shadow", "../shared/token", join(folder, "shared/token"), "/proc/self/environ"])
    matchObject(t, await validate(`\${file:${path}}`), refused(elsewhere), path);
  matchObject(t, await validate("${file:../shared/token}", ["--allow-file", "other", "--allow-file", "shared"]), {
    code: 0,
  });
  matchObject(
    t,
    await validate("${file:/proc/self/environ}", ["--allow-file", "/"]),
    refused(/It is a file of \/proc/),
  );
  matchObject(
    t,
    await validate("${file:smctl}", [], { SM_TOKEN_FILE: "conf/smctl" }),
    refused(/SM_TOKEN_FILE names it/),
  );
  matchObject(t, await smctl(["validate", "conf"]), { code: 0 }, "of a folder its own files");
});

t.test("without a server the fields of every object are checked in the words of the API", async (t) => {
  const check = { type: "tcp", host: "a.example.org", port: 1 };
  const slack = { type: "slack", webhook_url: secret };
  const documents: Record<string, unknown>[] = [
    { defaults: { name: "x" } },
    { channels: { a: { name: "A", config: { type: "slack", webhok_url: "x" } } } },
    { channels: { a: { name: "A", config: { type: "slak" } } } },
    { channels: { a: { name: "A", enabled: 7, colour: "red", config: slack, adopt: "x" } } },
    { channels: { a: { name: "A".repeat(101), config: slack, is_default: null } } },
    { monitors: { a: { check, tags: [1], intervall: 5, interval: 1e9, region_policy: "most" } } },
    { monitors: { a: { name: "", check: { ...check, port: 0 }, regions: ["r", "r"] } } },
    {
      channels: { ops: { name: "Ops", config: slack } },
      monitors: {
        a: { name: "A", check, alerts: ["ops", 5, { foo: 1 }, { channel: "ops", after_failures: 99 }, "opps"] },
        b: { name: "B", check, alerts: "ops", escalation: [{ after_minutes: 0, channels: ["ops", "nix"] }, 4] },
        c: { name: "C", check, escalation: {} },
        d: { name: "D", check, escalation: [{ after_minutes: "1h", channels: ["ops"] }] },
      },
    },
    { status_pages: { p: { slug: "-x", name: "N", branding: { brand_color: "red", style: "x" } } } },
    { status_pages: { p: { slug: "p", name: "P", custom_domain: 4 } } },
    {
      monitors: { a: { name: "A", check } },
      status_pages: {
        p: { name: null, components: [{ monitor: "a", public_nam: "x" }, "a", {}, 3, { monitor: "b" }] },
      },
    },
    { status_pages: { p: { slug: "p", name: "P", components: "a", on_remove: "later" } } },
    {
      status_pages: {
        p: { slug: "p", name: "P", components: [{ manual: true }, { manual: false }] },
      },
    },
    { maintenance: { m: { title: "", starts_at: "yesterday", ends_at: 5, monitors: "a", tags: [4] } } },
    { maintenance: { m: { title: "M", recurrence: { rule: "x" }, monitors: ["a"], on_remove: "pause" } } },
    { maintenance: { m: { title: "M".repeat(201), starts_at: "2026-02-30T00:00:00Z", component_ids: {} } } },
  ];
  const bodies = requestBodies();
  const words = (pointer: string, message: string) =>
    `${pointer} ${message}`.replaceAll(/\/document\b|document\.| Did you mean .*\?/g, "");
  for (const part of documents) {
    const document = { version: 1, project: "words", ...part };
    const offline = checkDocument(document, bodies).map(({ pointer, message }) => words(pointer, message));
    const { body } = await api.post("/api/v1/config/plan", { project: "words", document });
    const { field, message, details } = body.error as { field: string; message: string; details?: Json };
    const faults = (details?.["errors"] ?? [{ field, message }]) as { field: string; message: string }[];
    const online = faults.map((fault) => words(fault.field, fault.message));
    t.strictSame(offline.sort(), online.sort(), JSON.stringify(part).slice(0, 100));
  }
});

t.test("export writes a file that plans nothing; adopt and detach", async (t) => {
  await api.post("/api/v1/targets", { name: "By hand", check: { type: "tcp", host: "h.example.org", port: 1 } });
  const exported = await smctl(["export", "--output", "all.yaml"]);
  matchObject(t, exported, { code: 0, stderr: /set these variables: OPS_WEBHOOK_URL/ });
  matchObject(t, await smctl(["export", "--output", "all.yaml"]), { code: 1, stderr: /cannot be written \(EEXIST\)/ });
  const document = parse(readFileSync(join(folder, "all.yaml"), "utf8"));
  const [[key, { adopt: id }]] = Object.entries(document.monitors as Record<string, { adopt?: string }>).filter(
    ([, { adopt }]) => adopt !== undefined,
  ) as [[string, { adopt: string }]];
  const managed = ["monitor", key, id, "--project", "shop"];
  matchObject(t, await smctl(["adopt", ...managed]), { code: 0 });
  matchObject(t, (await api.get(`/api/v1/targets/${id}`)).body.managed_by, { project: "shop", key });
  matchObject(t, await smctl(["detach", ...managed]), { code: 0 });
  t.equal((await api.get(`/api/v1/targets/${id}`)).body.managed_by ?? null, null);
});

t.test("the steps of pipelines", async (t) => {
  mkdirSync(join(folder, "bin"));
  writeFileSync(join(folder, "bin/smctl"), `#!/bin/sh\nexec "${process.execPath}" "${smctlProgram}" "$@"\n`);
  chmodSync(join(folder, "bin/smctl"), 0o755);
  const path = { PATH: `${join(folder, "bin")}:${process.env["PATH"]}` };
  const { inputs, runs } = parse(readFileSync(join(root, "infra/action/action.yml"), "utf8"));
  const [step] = runs.steps;
  t.notMatch(step.run, "${{", "an input is no text of a command");

  /** Runs the step as the runner does: its environment with the inputs filled in, and files for what it says. */
  const action = async (given: Record<string, string>) => {
    for (const name of ["output", "summary"]) writeFileSync(join(folder, name), "");
    const filled = Object.entries(step.env as Record<string, string>).map(([name, text]) => [
      name,
      text.replace(/\$\{\{ inputs\.([a-z-]+) \}\}/, (_, input: string) => given[input] ?? inputs[input].default),
    ]);
    const ended = await run("sh", ["-e", "-c", step.run], {
      ...Object.fromEntries(filled),
      ...path,
      GITHUB_ACTION_PATH: join(root, "infra/action"),
      GITHUB_OUTPUT: join(folder, "output"),
      GITHUB_STEP_SUMMARY: join(folder, "summary"),
    });
    return {
      ...ended,
      output: readFileSync(join(folder, "output"), "utf8"),
      summary: readFileSync(join(folder, "summary"), "utf8"),
    };
  };
  const server = { url, token: olga.token };
  write(whole);
  matchObject(t, await action({ command: "validate" }), { code: 0, output: "changes=false\n" });
  const planned = await action(server);
  matchObject(t, planned, { code: 0, output: "changes=true\n", summary: /^### StatusMesh: / });
  matchObject(t, await action({ ...server, command: "apply", files: "statusmesh.yaml\n" }), {
    code: 0,
    output: "changes=true\n",
  });
  matchObject(t, await action({ ...server, command: "apply" }), { code: 0, output: "changes=false\n" });
  matchObject(t, await action(server), { code: 0, output: "changes=false\n" });
  matchObject(t, await action({ ...server, command: "destroy" }), { code: 1, stdout: /^::error::command must be/ });
  matchObject(t, await action({ ...server, files: "--help\n$(touch bad)" }), {
    code: 1,
    stderr: /--help cannot be read/,
  });
  matchObject(t, await action({ ...server, token: "sm_live_wrong" }), { code: 1, output: "changes=false\n" });

  const gitlab = parse(readFileSync(join(root, "infra/gitlab/statusmesh.yml"), "utf8"));
  const job = (name: string) =>
    run("sh", ["-e", "-c", gitlab[name].script.join("\n")], { ...path, STATUSMESH_FILES: "" });
  write(whole.replace("name: DB", "name: Database"));
  matchObject(t, await job("statusmesh-plan"), { code: 0, stdout: /### StatusMesh: 1 change/ });
  matchObject(t, await job("statusmesh-apply"), { code: 0, stdout: /Applied: 1 updated/ });
  write("version: 2\n");
  matchObject(t, await job("statusmesh-plan"), { code: 1 });
  rmSync(join(folder, "statusmesh.yaml"));
  matchObject(t, await job("statusmesh-apply"), { code: 1, stderr: /Name the files/ });
});
