import { createServer as createHttpsServer } from "node:https";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { generate } from "selfsigned";
import t from "tap";
import { diagnosisLine, diagnosisOf, diagnosisPattern } from "@statusmesh/shared/protocol/diagnosis";
import { DialError } from "@statusmesh/shared/net/dial-error";
import { httpCheck, outcomeOf, testRunner } from "../testing.ts";
import { type Answer, blockPages, errorPages } from "./answers.cases.ts";
import { blockTraits } from "./block-traits.ts";
import { connectionDiagnosis } from "./connection.ts";
import { originTraits } from "./origin-traits.ts";
import { responseDiagnosis } from "./response.ts";

const diagnosed = ({ status, headers, body }: Omit<Answer, "from">): string | null =>
  responseDiagnosis({ response: { status, fields: Object.entries(headers) }, body: { start: Buffer.from(body) } });

t.test("answers of products are recognised, and each has words and a remedy", async (t) => {
  for (const [code, status, headers, body] of blockPages) {
    t.equal(diagnosed({ status, headers, body }), code, `${code} ${status}`);
    const found = diagnosisOf(code, ["frankfurt"]);
    t.ok(found !== null && found.words !== "" && found.remedy !== "", code);
  }
  const unused = [...blockTraits, ...originTraits].filter(
    ({ kind, provider, detail = "" }) => diagnosisOf(`${kind}:${provider}:${detail}`) === null,
  );
  t.strictSame(unused, [], "every trait has words");
  t.equal(
    diagnosisLine(diagnosisOf("challenge:cloudflare:", ["Frankfurt"])!),
    "Cloudflare answered with a challenge: allow the addresses of region Frankfurt there, or let requests with a " +
      "header of the check pass",
  );
});

t.test("ordinary error pages, also behind proxies, are none of them", async (t) => {
  t.ok(errorPages.length >= 500, `${errorPages.length} pages`);
  const wrong = errorPages.filter((page) => diagnosed(page) !== null);
  t.strictSame(
    wrong.map(({ from, status }) => `${from} ${status}`),
    [],
  );
});

t.test("a diagnosis has no text of a server", async (t) => {
  const pattern = new RegExp(diagnosisPattern);
  const hostile = '<a href="https://evil.example">@channel</a> [x](https://evil.example)';
  for (const [, status, headers, body] of blockPages) {
    const added = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, `${value} ${hostile}`]));
    for (const found of [
      diagnosed({ status, headers: added, body: `${body}${hostile}` }),
      diagnosed({ status, headers: { ...headers, "Retry-After": hostile }, body: `${hostile}${body}` }),
      diagnosed({ status, headers: { ...headers, "Retry-After": "9".repeat(400) }, body: `error code: ${hostile}` }),
    ])
      t.ok(found === null || (pattern.test(found) && diagnosisOf(found) !== null), found ?? "none");
  }
  for (const code of ["blocked:evil:", "challenge:constructor:", "x", "", "tls::<b>", "path::constructor", "dns::"])
    t.equal(diagnosisOf(code), null, code);
});

t.test("a failed connection says what the resolver, the path or the handshake said", async (t) => {
  for (const [phase, code, found] of [
    ["dns", "ENOTFOUND", "dns::nxdomain"],
    ["dns", "ESERVFAIL", "dns::servfail"],
    ["dns", "ETIMEDOUT", "dns::timeout"],
    ["connect", "ETIMEDOUT", "path::timeout"],
    ["connect", "EHOSTUNREACH", "path::no-route"],
    ["connect", "ECONNREFUSED", null],
    ["tls", "ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED", "tls::client-required"],
    ["tls", "ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR", "tls::alert"],
    ["guard", "BLOCKED", null],
  ] as const) {
    t.equal(connectionDiagnosis(new DialError(phase, "x", code)), found, code);
    if (found !== null) t.not(diagnosisOf(found), null, found);
  }
});

t.test("a run has the diagnosis of what it saw, and none when it is up", async (t) => {
  const runner = testRunner({ lookup: async () => ["127.0.0.1"] });
  const answers = new Map<string, Omit<Answer, "from">>([
    ["/challenge", { status: 403, headers: { Server: "cloudflare", "cf-mitigated": "challenge" }, body: "" }],
    ["/limit", { status: 429, headers: { "Retry-After": "60" }, body: "" }],
    ["/forbidden", { status: 403, headers: {}, body: "Forbidden" }],
  ]);
  const server = createServer(({ url }, response) => {
    const { status, headers, body } = answers.get(url!)!;
    response.writeHead(status, headers).end(body);
  });
  const { cert, private: key } = await generate([{ name: "commonName", value: "localhost" }], { keyType: "ec" });
  const secured = createHttpsServer({ cert, key }, (_request, response) => void response.end());
  for (const one of [server, secured]) {
    await new Promise<void>((settle) => one.listen(0, "127.0.0.1", settle));
    t.teardown(() => one.close());
  }
  const [port, tlsPort] = [server, secured].map((one) => (one.address() as AddressInfo).port);
  const codeOf = async (url: string, change = {}) =>
    (await outcomeOf(runner.run("org", { ...httpCheck(url, change) }, true))).diagnosis;
  const accepted = { expected_status: { kind: "exact" as const, value: 403 } };
  t.equal(await codeOf(`http://localhost:${port}/challenge`), "challenge:cloudflare:");
  t.equal(await codeOf(`http://localhost:${port}/challenge`, { capture_failures: false }), "challenge:cloudflare:");
  t.equal(await codeOf(`http://localhost:${port}/challenge`, accepted), null, "a status that is expected");
  t.equal(await codeOf(`http://localhost:${port}/limit`), "rate_limited::60");
  t.equal(await codeOf(`http://localhost:${port}/forbidden`), null);
  t.equal(await codeOf(`https://localhost:${tlsPort}/`), "tls::self-signed");
  t.equal(await codeOf(`https://localhost:${port}/`), "tls::plain");
});
