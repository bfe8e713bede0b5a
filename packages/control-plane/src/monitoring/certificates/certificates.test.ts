import { generate } from "selfsigned";
import t from "tap";
import { protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import { certificatesOf } from "@statusmesh/shared/checks/certificates";
import { allAbilities } from "@statusmesh/shared/checks/abilities";
import { matchObject } from "@statusmesh/shared/testing";
import { validate } from "@statusmesh/shared/schema/validate";
import { clientCertificates } from "../../operator/commands/doctor-expiry.ts";
import { resealAll } from "../../operator/commands/rotate-kek.ts";
import { makeSealer } from "../../platform/crypto/seal.ts";
import { openHub } from "../../platform/db/notify.ts";
import type { AgentCtx } from "../../platform/context.ts";
import { serve } from "../../testing/app.ts";
import { asking, newMember, serveWhole, signedIn } from "../../testing/whole-app.ts";
import { newAgent, newOrg, openWorld, refusal } from "../../testing/world.ts";
import { pull } from "../pipeline/assign.ts";
import { pipelineRoutes } from "../pipeline/api.ts";
import { openIngest } from "../pipeline/ingest.ts";
import { Check } from "../targets/schema.ts";
import { declaredRoutes } from "../../interfaces/declared/api.ts";
import { targetRoutes } from "../targets/api.ts";
import { targetBulkRoutes } from "../targets/bulk/api.ts";
import { createTarget, createTargets } from "../targets/write/service.ts";
import { certificateRoutes } from "./api.ts";
import { createCertificate } from "./service.ts";

const world = await openWorld(t);
const { sql, system, clock, log } = world;
const hub = openHub(sql, log);
const owner = await newOrg(system);
const stranger = await newOrg(system);
let caller = owner;
const never = new AbortController().signal;
const ingest = openIngest(() => Promise.resolve());
const routes = [
  ...certificateRoutes,
  ...targetRoutes,
  ...targetBulkRoutes,
  ...declaredRoutes,
  ...pipelineRoutes(hub, ingest, never),
];
const ask = await serve(t, system, routes, { tenant: () => caller });
const path = "/api/v1/certificates";

const dayMs = 86_400_000;
const issue = async (name: string, days = 300) =>
  await generate([{ name: "commonName", value: name }], {
    keyType: "ec",
    algorithm: "sha256",
    notBeforeDate: new Date(clock.at - 400 * dayMs),
    notAfterDate: new Date(clock.at + days * dayMs),
  });
const [root, client, other] = [await issue("Root"), await issue("Client"), await issue("Other")];
const own = { name: "Probe", kind: "client", certificate: client.cert, private_key: client.private } as const;
const authority = { name: "Internal CA", kind: "ca", certificate: root.cert } as const;

const ca = (await ask("POST", path, authority)).body;
const certificate = (await ask("POST", path, own)).body;
const names = { ca_id: ca.id as string, client_id: certificate.id as string };
const check = validate(Check, { type: "http", url: "https://shop.example.org/", certificates: names });

/** What a new agent is sent, and a pull with a cursor. */
const pulled = async (agent: AgentCtx, cursor: string | null = null) =>
  await pull(
    agent,
    hub,
    { protocol: protocolVersion, agent_version: "1.2.3", kinds: allAbilities, cursor, capacity: 10 },
    AbortSignal.abort(),
  );

t.test("a certificate is stored, listed, changed and deleted; its key is never shown", async (t) => {
  const shown = { subject: "CN=Client", used_by: 0, warnings: [], private_key: "***" };
  matchObject(t, certificate, { name: "Probe", kind: "client", ...shown, expires_at: /^\d{4}-/ });
  matchObject(t, ca, { kind: "ca", private_key: null, subject: "CN=Root" });
  const list = await ask("GET", path);
  t.strictSame(
    list.body.items.map(({ name }: { name: string }) => name),
    ["Internal CA", "Probe"],
  );
  t.equal((await ask("GET", `${path}?kind=client`)).body.total, 1);
  t.notMatch(list.text, "PRIVATE KEY");
  const [stored] = await sql<{ private_key: string }[]>`
    select private_key from certificates where id = ${certificate.id as string}`;
  t.match(stored!.private_key, /^sealed:1:/);
  const refused: [string, string, object, number, string, string][] = [
    ["POST", path, authority, 409, "CERTIFICATE_NAME_TAKEN", "/name"],
    ["POST", path, { ...own, name: "A", private_key: other.private }, 422, "CERTIFICATE_KEY_MISMATCH", "/private_key"],
    ["POST", path, { ...own, name: "A", private_key: "***" }, 400, "REDACTION_SENTINEL", "/private_key"],
    ["POST", path, { ...own, name: "A", certificate: "x".repeat(65_537) }, 400, "INVALID_CERTIFICATE", "/certificate"],
    ["PATCH", `${path}/${certificate.id}`, { kind: "ca" }, 400, "INVALID_CERTIFICATE", "/kind"],
    ["PATCH", `${path}/${certificate.id}`, { name: authority.name }, 409, "CERTIFICATE_NAME_TAKEN", "/name"],
    [
      "PATCH",
      `${path}/${certificate.id}`,
      { certificate: other.cert },
      422,
      "CERTIFICATE_KEY_MISMATCH",
      "/private_key",
    ],
  ];
  for (const [method, to, body, status, code, field] of refused)
    matchObject(
      t,
      await ask(method, to, body),
      { status, body: { error: { code, ...(status === 400 ? { field } : { details: { pointer: field } }) } } },
      code,
    );
  const { id: _, created_at: _created, updated_at: _updated, ...read } = list.body.items[1];
  const changed = await ask("PATCH", `${path}/${certificate.id}`, read);
  matchObject(t, changed, { status: 200, body: shown }, "what a client reads it may send back");
  const old = await issue("Old", -2.5);
  const made = await ask("POST", path, { name: "Old", kind: "ca", certificate: old.cert });
  matchObject(t, made.body.warnings, [/^Expired 2 days ago, on /], "an expired one is accepted with a warning");
  t.equal((await ask("DELETE", `${path}/${made.body.id}`)).status, 204);
  t.equal((await ask("GET", `${path}/${made.body.id}`)).status, 404);
  const entries = await sql<{ after: object }[]>`
    select after from audit_log where org_id = ${owner.orgId} and action = ${`POST ${path}`} order by at, id`;
  matchObject(t, entries, [
    { after: { kind: "ca", private_key: null } },
    { after: { name: "Probe", private_key: "***" } },
    {},
  ]);
  t.notMatch(JSON.stringify(entries), /BEGIN|sealed:/);
});

t.test("checks name certificates of their organisation, of the right kind, and only with TLS", async (t) => {
  const faults: [object, string, RegExp][] = [
    [{ ca_id: names.client_id }, "/certificates/ca_id", /of the kind client/],
    [{ client_id: names.ca_id }, "/certificates/client_id", /of the kind ca/],
    [{ ca_id: owner.orgId }, "/certificates/ca_id", /no certificate with this id/],
    [{ ca_id: "x" }, "/certificates/ca_id", /./],
  ];
  const target = (await createTarget(owner, { name: "Shop", check })).id;
  const tcp = { type: "tcp", host: "db.example.org", port: 5432 };
  for (const [certificates, pointer, message] of faults) {
    const wrong = { status: 400, body: { error: { code: "INVALID_TLS_CERT_PARAMS", message } } };
    const at = (field: string) => ({ ...wrong, body: { error: { ...wrong.body.error, field } } });
    matchObject(
      t,
      await ask("POST", "/api/v1/targets", { name: "A", check: { ...check, certificates } }),
      at(`/check${pointer}`),
    );
    matchObject(
      t,
      await ask("PATCH", `/api/v1/targets/${target}`, { check: { certificates } }),
      at(`/check${pointer}`),
    );
    matchObject(t, await ask("POST", "/api/v1/targets/test", { ...check, certificates }), at(pointer));
    const bulk = [{ name: "A", check: { ...check, certificates } }];
    matchObject(t, await refusal(t, () => createTargets(owner, bulk as never)), { code: "INVALID_TLS_CERT_PARAMS" });
  }
  matchObject(t, await ask("POST", "/api/v1/targets", { name: "A", check: { ...tcp, certificates: names } }), {
    body: { error: { code: "INVALID_TLS_CERT_PARAMS", field: "/check/certificates/ca_id", message: /without TLS/ } },
  });
  matchObject(
    t,
    (await ask("PATCH", `/api/v1/targets/${target}`, { check: { certificates: { ca_id: names.ca_id.toUpperCase() } } }))
      .body.check,
    { certificates: { ca_id: names.ca_id, client_id: null } },
    "an id in capitals, and the other one cleared",
  );
  t.equal(
    (await ask("PATCH", `/api/v1/targets/${target}`, { check: { certificates: { ca_id: null } } })).body.check
      .certificates,
    null,
  );
  caller = stranger;
  matchObject(t, await ask("POST", "/api/v1/targets", { name: "A", check }), {
    body: { error: { field: "/check/certificates/ca_id", message: "There is no certificate with this id." } },
  });
  for (const [method, body] of [["GET"], ["PATCH", { name: "Mine" }], ["DELETE"]] as [string, object?][])
    matchObject(t, await ask(method, `${path}/${ca.id}`, body), { body: { error: { code: "CERTIFICATE_NOT_FOUND" } } });
  t.equal((await ask("GET", path)).body.total, 0);
  caller = owner;
  await ask("DELETE", `/api/v1/targets/${target}`);
});

t.test("lists, files, exports and clones name certificates by their ids", async (t) => {
  const [bulk] = (await ask("POST", "/api/v1/targets/bulk", [{ name: "Bulk", check }])).body;
  t.strictSame(bulk.check.certificates, names);
  const browser = asking(await serveWhole(t, world), await signedIn(owner));
  const clone = (await browser("GET", `/monitors/new?from=${bulk.id}`)).text;
  for (const id of Object.values(names)) t.match(clone, new RegExp(`<option value="${id}"\\s+selected`));
  const http = { type: "http", url: "https://files.example.org/" };
  const document = { version: 1, monitors: { shop: { name: "Files", check: { ...http, certificates: names } } } };
  const send = (verb: string, more: object = {}) =>
    ask("POST", `/api/v1/config/${verb}`, { project: "files", document, ...more });
  const { plan_token } = (await send("plan")).body;
  matchObject(t, await send("apply", { plan_token }), { status: 200, body: { summary: { create: 1 } } });
  matchObject(t, (await send("plan")).body, { summary: { unchanged: 1 }, changes: [] });
  const exported = (await ask("GET", "/api/v1/config/export?project=files")).body.document;
  t.strictSame(exported.monitors.shop.check.certificates, names);
  const wrong = {
    ...document,
    monitors: { shop: { name: "Files", check: { ...http, certificates: { ca_id: names.client_id } } } },
  };
  matchObject(t, await ask("POST", "/api/v1/config/plan", { project: "files", document: wrong }), {
    status: 400,
    body: { error: { code: "INVALID_TLS_CERT_PARAMS", field: /\/monitors\/shop\/check\/certificates\/ca_id$/ } },
  });
  for (const { id } of (await ask("GET", "/api/v1/targets")).body.items) await ask("DELETE", `/api/v1/targets/${id}`);
});

t.test("agents are sent the material once a reply, and again when it changes", async (t) => {
  const [eu, us] = [await newAgent(system, "eu"), await newAgent(system, "us")];
  const many = await createTargets(
    owner,
    [1, 2, 3].map((n) => ({ name: `Shop ${n}`, check, regions: ["eu"] })),
  );
  const first = await pulled(eu);
  t.equal(first.checks.length, 3);
  t.strictSame(
    first.certificates!.map((one) => [one.id, one.private_key === null]).sort(),
    [
      [ca.id, true],
      [certificate.id, false],
    ].sort(),
  );
  t.match(first.certificates!.find(({ id }) => id === certificate.id)!.private_key, /^-----BEGIN PRIVATE KEY-----/);
  t.strictSame(certificatesOf(first.checks[0]!.check), certificatesOf(check), "a check has only ids");
  t.equal((await pulled(us)).certificates, undefined, "an agent of another region is sent none");

  matchObject(t, (await ask("GET", `${path}/${ca.id}`)).body, { used_by: 3 });
  matchObject(t, await ask("DELETE", `${path}/${ca.id}`), {
    status: 409,
    body: { error: { code: "CERTIFICATE_IN_USE", message: /^3 monitors use .*: Shop 1, Shop 2, Shop 3\./ } },
  });

  clock.at += 1000;
  const renamed = await ask("PATCH", `${path}/${certificate.id}`, { name: "Probe 2" });
  t.equal(renamed.status, 200);
  matchObject(t, await pulled(eu, first.cursor), { checks: [], full: false }, "a name is nothing for agents");
  const fresh = { certificate: other.cert, private_key: other.private };
  matchObject(t, (await ask("PATCH", `${path}/${certificate.id}`, fresh)).body, { subject: "CN=Other", used_by: 3 });
  const second = await pulled(eu, first.cursor);
  t.strictSame(second.checks.map(({ target_id: id }) => id).sort(), many.map(({ id }) => id).sort());
  matchObject(
    t,
    second.certificates!.find(({ id }) => id === certificate.id),
    { certificate: other.cert.trim() + "\n" },
  );
  const outdated = await sql`select from targets where id = ${many[0]!.id} and check_version <> version`;
  t.equal(outdated.length, 0, "runs with the old one are no evidence");
  for (const one of second.checks)
    t.ok(Number(one.version) > Number(first.checks.find((it) => it.target_id === one.target_id)!.version));

  const blind = { ...eu, sealer: makeSealer(Buffer.alloc(32, 9)) };
  const withheld = await pulled(blind);
  matchObject(
    t,
    withheld.checks,
    [1, 2, 3].map(() => ({ check: { type: "withheld", reason: /private_key/ } })),
  );
  t.strictSame(
    withheld.certificates!.map(({ id }) => id),
    [ca.id],
  );
  const rotated = { ...system, sealer: makeSealer(Buffer.alloc(32, 7), Buffer.alloc(32, 9)) };
  const old = blind.sealer.seal("key", `certificates/${certificate.id}/private_key`);
  await sql`update certificates set private_key = ${old} where id = ${certificate.id as string}`;
  const said: string[] = [];
  await resealAll(rotated, (line) => said.push(line));
  t.ok(said.includes("certificates: 1 of 1 sealed anew"), said.join("\n"));
  for (const { id } of many) await ask("DELETE", `/api/v1/targets/${id}`);
  t.equal((await ask("DELETE", `${path}/${certificate.id}`)).status, 204, "unused, it can be deleted");
});

t.test("client certificates of enabled checks that end soon are known to the operator", async (t) => {
  const short = await issue("Short", 3);
  const body = { name: "Short", kind: "client", certificate: short.cert, private_key: short.private };
  const stored = (await ask("POST", path, body)).body;
  const endings = async () => (await clientCertificates(system)).detail;
  const none = "none of a check ends within 14 days";
  await sql`update certificates set expires_at = ${new Date(clock.now() + 3 * dayMs)} where id = ${stored.id}`;
  t.equal(await endings(), none, "no check names it");
  const named = validate(Check, {
    type: "http",
    url: "https://pay.example.org/",
    certificates: { client_id: stored.id },
  });
  const target = await createTarget(owner, { name: "Pay", check: named });
  t.match(await endings(), /^"Short" of ".+" ends on \d{4}-\d\d-\d\d: replace them/);
  await ask("PATCH", `/api/v1/targets/${target.id}`, { enabled: false });
  t.equal(await endings(), none, "a paused check");
  await ask("DELETE", `/api/v1/targets/${target.id}`);
  t.equal((await ask("DELETE", `${path}/${stored.id}`)).status, 204);
});

t.test("a deletion and a new use exclude each other", async (t) => {
  const made = await Promise.all(
    [1, 2, 3, 4].map(async (n) => await createCertificate(owner, { ...authority, name: `CA ${n}` })),
  );
  const outcomes = await Promise.all(
    made.flatMap(({ id }) => [
      ask("DELETE", `${path}/${id}`),
      ask("POST", "/api/v1/targets", { name: "Race", check: { ...check, certificates: { ca_id: id } } }),
    ]),
  );
  for (let at = 0; at < outcomes.length; at += 2)
    t.ok(
      [
        [204, 400],
        [409, 201],
      ].some(([gone, used]) => outcomes[at]!.status === gone && outcomes[at + 1]!.status === used),
      `${outcomes[at]!.status} ${outcomes[at + 1]!.status}`,
    );
});

t.test("an organisation has at most as many as its plan allows; a viewer writes none", async (t) => {
  await sql`update orgs set plan_overrides = '{"max_certificates": 2}' where id = ${stranger.orgId}`;
  caller = stranger;
  const made = await Promise.all([1, 2, 3].map((n) => ask("POST", path, { ...authority, name: `Race ${n}` })));
  t.strictSame(made.map(({ status }) => status).sort(), [201, 201, 422]);
  matchObject(
    t,
    made.find(({ status }) => status === 422),
    { body: { error: { code: "QUOTA_EXCEEDED", details: { quota: "max_certificates", limit: 2 } } } },
  );
  const viewer = await newMember(stranger, "viewer");
  caller = { ...viewer, scopes: new Set(["targets:read"]) };
  t.equal((await ask("GET", path)).body.total, 2);
  t.equal((await ask("POST", path, { ...authority, name: "V" })).status, 403);
  caller = owner;
});

t.test("pages: the list, an entry, and the fields of a monitor", async (t) => {
  await createCertificate(owner, { ...own, name: "Bank <1>" });
  const browser = asking(await serveWhole(t, world), await signedIn(owner));
  const list = await browser("GET", "/monitors/certificates");
  t.match(list.text, "Bank &lt;1&gt;");
  const id = /\/monitors\/certificates\/([0-9a-f-]{36})"[^>]*>Bank/.exec(list.text)![1];
  const page = await browser("GET", `/monitors/certificates/${id}`);
  t.match(page.text, "CN=Client");
  t.notMatch(page.text, /BEGIN (?:PRIVATE KEY-----\n|CERTIFICATE-----\n)M/);
  const form = await browser("GET", "/monitors/new");
  for (const kind of ["http", "tcp", "tls_cert", "grpc", "websocket"])
    t.match(form.text, `id="${kind}-check-certificates-client-id"`);
  t.match(form.text, `<option value="${id}">Bank &lt;1&gt;</option>`);
});
