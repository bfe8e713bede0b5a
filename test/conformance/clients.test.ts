import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import openapiTS, { astToString } from "openapi-typescript";
import t from "tap";
import { castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { serveHere } from "../harness/in-process.ts";

/*
 * A client that openapi-typescript generates from the document without options is compiled with the body of the README
 * and run against the server.
 */

const run = promisify(execFile);
const root = fileURLToPath(new URL("../../../", import.meta.url));
const compiler = join(dirname(createRequire(import.meta.url).resolve("typescript7/package.json")), "lib/tsc.js");

const database = await cloneDatabase(t);
const url = await serveHere(t, database);
const { olga } = await castIn(database.sql);

t.test("a generated client compiles with the README's body, and creates, reads and lists", async (t) => {
  const readme = /targets -d '(\{"name": "Example".*?\})'$/ms.exec(readFileSync(join(root, "README.md"), "utf8"))?.[1];
  t.ok(readme, "the README creates a monitor");
  const document = await (await fetch(`${url}/api/openapi.json`)).text();
  const dir = t.testdir({
    "package.json": '{"type": "module"}',
    "api.ts": astToString(await openapiTS(document)),
  });
  writeFileSync(
    join(dir, "client.ts"),
    `import type { components, paths } from "./api.js";
type Json<T> = T extends { content: { "application/json": infer Body } } ? Body : never;
const base = process.argv[2]!;
const headers = { authorization: \`Bearer \${process.argv[3]}\`, "content-type": "application/json" };
const body: Json<NonNullable<paths["/api/v1/targets"]["post"]["requestBody"]>> = ${readme};
const secured: components["schemas"]["HttpCheckInput"] =
  { type: "http", url: "https://example.org/", basic_auth: ["user", "password"] };
const made = await fetch(base + "/api/v1/targets", { method: "POST", headers, body: JSON.stringify(body) });
const target = (await made.json()) as Json<paths["/api/v1/targets"]["post"]["responses"]["201"]>;
const listed = await fetch(base + "/api/v1/targets?limit=5", { headers });
const page = (await listed.json()) as Json<paths["/api/v1/targets"]["get"]["responses"]["200"]>;
console.log(JSON.stringify([made.status, target.name, target.interval, page.items[0]!.id === target.id, secured.type]));
`,
  );
  const options = "--strict --target es2022 --module nodenext --types node --ignoreConfig --skipLibCheck".split(" ");
  await run(process.execPath, [compiler, ...options, "--outDir", dir, join(dir, "client.ts")], { cwd: root }).catch(
    (error: { stdout?: string }) => t.fail(error.stdout ?? String(error)),
  );
  const { stdout } = await run(process.execPath, [join(dir, "client.js"), url, olga.token]);
  t.strictSame(JSON.parse(stdout), [201, "Example", 30, true, "http"]);
});
