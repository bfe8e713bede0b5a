import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import t from "tap";
import { checkKinds } from "@statusmesh/shared/checks";
import type { HttpCheck } from "@statusmesh/shared/checks/http";
import { validate } from "@statusmesh/shared/validate";
import { outcomeOf, testRunner } from "sm-agent/testing";
import { importGatus } from "smctl/import/gatus";

/* Conditions of Gatus' own tests, imported, and run by the agent against a server that answers as each test says. */

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

t.test("each verdict is that of Gatus, or the report names the condition", async (t) => {
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
