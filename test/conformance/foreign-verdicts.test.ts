import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import t from "tap";
import { checkKinds } from "@statusmesh/shared/checks";
import type { HttpCheck } from "@statusmesh/shared/checks/http";
import { validate } from "@statusmesh/shared/schema/validate";
import { outcomeOf, testRunner } from "sm-agent/testing";
import { nameServer } from "sm-agent/probes/dns/testing-dns";
import { importBlackbox } from "smctl/import/blackbox";
import { importGatus } from "smctl/import/gatus";

/*
 * Conditions of Gatus' own tests and dns modules of blackbox_exporter's, imported, and run by the agent against servers
 * that answer as each test says.
 */

interface Case {
  readonly name: string;
  readonly condition: string;
  readonly status?: number;
  readonly body?: string;
  readonly isUp: boolean;
}

const fixture = join(import.meta.dirname, "../../../test/fixtures/gatus-conditions/cases.json");
const cases = JSON.parse(readFileSync(fixture, "utf8")) as Case[];

const server = createServer((request, response) => {
  const { status = 200, body = "" } = cases[Number(request.url!.slice(1))]!;
  response.writeHead(status).end(body);
});
await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
t.teardown(() => server.close());
const { port } = server.address() as AddressInfo;

const { document, report } = importGatus(
  {
    endpoints: cases.map(({ condition }, at) => ({
      name: `case ${at}`,
      url: `http://127.0.0.1:${port}/${at}`,
      conditions: [condition],
    })),
  },
  "gatus",
);
const monitors = document["monitors"] as Readonly<Record<string, { check: HttpCheck }>>;

/** What the report says of a case, but for notes on what is the same. */
const reasonsOf = (at: number): string =>
  [...report.not_carried_over, ...report.carried_over_differently]
    .filter(({ reason }) => /left out|not carried over|in another base|fits texts only|quotation marks/.test(reason))
    .filter(({ items }) => items.some(({ name }) => name === `case ${at}`))
    .map(({ reason }) => reason)
    .join();

t.test("Gatus: each verdict is the same, or the report names the condition", async (t) => {
  const runner = testRunner();
  const found: Record<"same" | "read" | "named" | "wrong", string[]> = { same: [], read: [], named: [], wrong: [] };
  for (const [at, { name, condition, isUp, status, body }] of cases.entries()) {
    const monitor = monitors[`case-${at}`];
    const reasons = reasonsOf(at);
    let kind: keyof typeof found = reasons === "" ? "read" : "named";
    if (monitor !== undefined && (status ?? body) !== undefined) {
      const spec = validate(checkKinds.http.schema, { ...monitor.check, timeout: 5000 });
      const { measurement } = await outcomeOf(runner.run("org", spec, true));
      const isSame = (measurement.status === "up") === isUp;
      if (!reasons.includes("left out")) kind = isSame ? "same" : reasons === "" ? "wrong" : "named";
    }
    found[kind].push(`${name}: ${condition}`);
  }
  t.strictSame(found.wrong, []);
  t.strictSame(
    Object.fromEntries(Object.entries(found).map(([kind, names]) => [kind, names.length])),
    { same: 45, read: 10, named: 38, wrong: 0 },
    "read: times and certificates, which the server does not set",
  );
});

type Verdict = "up" | "down" | "refused" | "left out";
const query = (more: object = {}) => ({ query_name: "example.com", query_type: "A", ...more });
const wrong = ["SERVFAIL", "NXDOMAIN"];

/**
 * The cases of prober/dns_test.go (prometheus/blackbox_exporter at 041cc2b1): server, module, verdict there, and what
 * becomes of it here where that is another one. A pattern that is left out is named by the report.
 */
const modules: readonly [server: string, module: object, there: "up" | "down", here?: Verdict][] = [
  ["recursive", query(), "up"],
  ["recursive", query({ valid_rcodes: wrong }), "down", "refused"],
  ["recursive", query({ valid_rcodes: ["NXDOMAIN"] }), "down"],
  ["recursive", query({ validate_answer_rrs: { fail_if_matches_regexp: [".*7200.*"] } }), "up", "left out"],
  ["recursive", query({ validate_authority_rrs: { fail_if_matches_regexp: [".*7200.*"] } }), "up", "left out"],
  ["recursive", query({ validate_additional_rrs: { fail_if_not_matches_regexp: [".*3600.*"] } }), "down", "left out"],
  ["recursive", query({ transport_protocol: "tcp" }), "up"],
  ["recursive", query({ validate_answer_rrs: { fail_if_not_matches_regexp: [".*127.0.0.1"] } }), "up"],
  ["recursive", query({ validate_answer_rrs: { fail_if_none_matches_regexp: [".*127\\.0\\.0\\.3"] } }), "down"],
  ["recursive", query({ validate_answer_rrs: { fail_if_matches_regexp: [".*127\\.0\\.0\\.2.*"] } }), "down"],
  ["authoritative", query(), "up"],
  ["authoritative", query({ query_type: "SOA" }), "up"],
  ["authoritative", query({ query_class: "CH", query_type: "TXT" }), "up", "refused"],
  ["authoritative", query({ valid_rcodes: wrong }), "down", "refused"],
  ["authoritative", query({ validate_answer_rrs: { fail_if_matches_regexp: [".*3600.*"] } }), "down", "left out"],
  [
    "authoritative",
    query({ validate_authority_rrs: { fail_if_not_matches_regexp: ["ns.*.isp.net"] } }),
    "up",
    "left out",
  ],
  ["authoritative", query({ validate_additional_rrs: { fail_if_all_match_regexp: [".*127.*"] } }), "down", "left out"],
  ["servfail", query(), "down"],
  ["servfail", query({ valid_rcodes: ["SERVFAIL"] }), "up"],
  ["servfail", query({ valid_rcodes: wrong }), "up", "refused"],
  ["servfail", query({ query_type: "NOT_A_VALID_QUERY_TYPE" }), "down", "refused"],
  ["servfail", query({ valid_rcodes: ["NOT_A_VALID_RCODE"] }), "down", "refused"],
];

t.test("blackbox_exporter: each verdict is the same, or the module is refused or named", async (t) => {
  const a = (data: string) => ({ type: "A" as const, name: "example.com", ttl: 3600, data });
  const soa = { mname: "ns.example.com", rname: "noc.example.com", serial: 1000, refresh: 7200 };
  const servers: Record<string, Awaited<ReturnType<typeof nameServer>>> = {
    recursive: await nameServer(t, { "example.com": { answers: [a("127.0.0.1"), a("127.0.0.2")] } }),
    authoritative: await nameServer(t, {
      "example.com": {
        change: (packet) => ({
          ...packet,
          answers:
            packet.questions?.[0]?.type === "SOA"
              ? [{ type: "SOA", name: "example.com", ttl: 3600, data: soa }]
              : [a("127.0.0.1")],
          authorities: [{ type: "NS", name: "example.com", ttl: 7200, data: "ns1.isp.net" }],
          additionals: [{ type: "A", name: "ns1.isp.net", ttl: 7200, data: "127.0.0.1" }],
        }),
      },
    }),
    servfail: await nameServer(t, { "example.com": { rcode: 2 } }),
  };
  const imported = importBlackbox(
    {
      modules: Object.fromEntries(modules.map(([, dns], at) => [`m${at}`, { prober: "dns", dns }])),
      targets: modules.map(([server], at) => ({
        job: `case ${at}`,
        module: `m${at}`,
        target: servers[server]!.address,
        labels: {},
        interval: "1m",
        notes: [],
      })),
      otherJobs: [],
    },
    "blackbox",
  );
  const made = Object.values(imported.document["monitors"] as Record<string, { tags: string[]; check: object }>);
  const runner = testRunner();
  const verdicts = await Promise.all(
    modules.map(async (_, at): Promise<Verdict> => {
      const found = made.find(({ tags }) => tags.includes(`job:case ${at}`));
      if (found === undefined) return "refused";
      const spec = validate(checkKinds.dns.schema, { ...found.check, timeout: 5000 });
      const { measurement } = await outcomeOf(runner.run("org", { ...spec }, true));
      return measurement.status === "up" ? "up" : "down";
    }),
  );
  const named = imported.report.carried_over_differently.filter(({ reason }) => /left out/.test(reason));
  t.equal(
    named.reduce((sum, { items }) => sum + items.length, 0),
    modules.filter(([, , , here]) => here === "left out").length,
  );
  for (const [at, [server, module, there, here = there]] of modules.entries())
    if (here !== "left out") t.equal(verdicts[at], here, `${server} ${JSON.stringify(module)}`);
});
