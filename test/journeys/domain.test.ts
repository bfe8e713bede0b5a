import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { startRegistry } from "sm-agent/rdap/testing";
import { connect, type Json } from "../harness/api.ts";
import { startControlPlane } from "../harness/processes.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * Domains from the form to the sentence on the page, through real processes: the built-in agent asks a registry on this
 * machine, of which it hears by the control plane's settings.
 */

const dayMs = 86_400_000;
const registry = await startRegistry(t);
// To the second, as registries say it.
const expires = new Date(Math.floor((Date.now() + 5.5 * dayMs) / 1000) * 1000).toISOString();
const answer = (domain: string): string =>
  JSON.stringify({
    objectClassName: "domain",
    ldhName: domain,
    events: [{ eventAction: "expiration", eventDate: expires }],
    entities: [{ roles: ["registrar"], vcardArray: ["vcard", [["fn", {}, "text", "Example Registrar"]]] }],
  });
registry.behave = (domain, response) => void response.end(answer(domain));

const controlPlane = await startControlPlane(t, {
  env: {
    SM_AUTH__REQUIRED: "false",
    SM_CHECKER__RDAP_BOOTSTRAP_URL: registry.listUrl,
    SM_CHECKER__RDAP_MAX_INFLIGHT: "2",
  },
});
const api = connect(t, controlPlane.url, null);
const check = (domain: string, more: object = {}) => ({ type: "domain_expiry", domain, ...more });

t.test("a test and a monitor of the same domain are one question to the registry", async (t) => {
  const tested = await waitFor("the agent to be there", async () => {
    const reply = await api.post("/api/v1/targets/test", check("www.example.org", { warn_days: 5, critical_days: 2 }));
    return reply.status === 200 ? (reply.body as Json) : null;
  });
  const details = {
    domain: "example.org",
    days_remaining: 5,
    expiration_date: expires,
    registrar: "Example Registrar",
  };
  matchObject(t, tested, { error: null, matched_expectations: true, result: { status: "up", details } });

  const created = await api.post("/api/v1/targets", {
    name: "Our name",
    check: check("example.org"),
    alert_confirmations: 1,
  });
  matchObject(t, created, {
    status: 201,
    body: { interval: 86_400, check: { warn_days: 30, critical_days: 7, timeout: 30_000 } },
  });
  const { id } = created.body as { id: string };
  const result = await waitFor(
    "the first result",
    async () => ((await api.get(`/api/v1/targets/${id}/results`)).body as Json).items[0] as Json | undefined,
  );
  matchObject(t, result, { status: "down", http_status: null, connect_ms: null, details });
  matchObject(
    t,
    JSON.parse(result["error"] as string),
    { domain: "example.org", days_remaining: 5, expiration_date: expires, registrar: "Example Registrar" },
    "the API has the document",
  );
  t.strictSame(registry.asked, ["example.org"]);

  const sentence = `example.org expires in 5 days, on ${expires.slice(0, 10)} (registrar Example Registrar)`;
  await waitFor(
    "the incident",
    async () => ((await api.get(`/api/v1/incidents?target_id=${id}`)).body as Json).items[0] as Json | undefined,
  );
  for (const path of ["/monitors", `/monitors/${id}`]) {
    const page = (await api.get(path)).text;
    t.ok(page.includes(sentence), `${path} says it in words`);
    t.notOk(page.includes("days_remaining"), `${path} shows no JSON`);
  }
  const form = (await api.get("/monitors/new?kind=domain_expiry")).text;
  for (const field of ["/check/domain", "/check/warn_days", "/check/critical_days"])
    t.ok(form.includes(`name="${field}"`), `the form asks for ${field}`);
});

t.test("the control plane says how many questions may be open at once", async (t) => {
  // No query is answered before the second one has arrived.
  const held: (() => void)[] = [];
  registry.behave = (domain, response) => {
    held.push(() => response.end(answer(domain)));
    if (held.length === 2) for (const reply of held.splice(0)) reply();
  };
  const domains = ["a.net", "b.net", "c.net", "d.net"];
  const created = await api.post(
    "/api/v1/targets/bulk",
    domains.map((domain) => ({ name: domain, check: check(domain) })),
  );
  t.equal(created.status, 201);
  await waitFor("a result of each", async () => {
    const results = await Promise.all(
      (created.body as Json[]).map(
        async ({ id }) => ((await api.get(`/api/v1/targets/${id}/results`)).body as Json).items.length as number,
      ),
    );
    return results.every((count) => count > 0);
  });
  t.equal(registry.mostOpen.get("net"), 2);
});
