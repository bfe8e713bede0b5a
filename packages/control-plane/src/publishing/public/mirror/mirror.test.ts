import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, posix } from "node:path";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { MirrorTarget } from "../../../config/mirror-keys.ts";
import type { System } from "../../../platform/context.ts";
import { isTrue, takeJobLock } from "../../../platform/jobs/queries.ts";
import { runAlone } from "../../../platform/jobs/runner.ts";
import { minute, noon, second } from "../../../testing/clock.ts";
import { addIncident, newTarget, setStatus } from "../../../testing/scene.ts";
import { newOrg, openWorld } from "../../../testing/world.ts";
import { setPublished } from "../../publications/service.ts";
import { addComponent } from "../../status-pages/components/service.ts";
import { createPage, deletePage, updatePage } from "../../status-pages/service.ts";
import { setLogo } from "../../status-pages/logos/service.ts";
import { checkMirrors, copiesOf, isMirrorDue, mirrorInWords, mirrorPages } from "./service.ts";
import { signed } from "./signature-v4.ts";

const world = await openWorld(t);
const { sql, clock, log } = world;
clock.at = noon;
const base = t.testdir({ key: "secret\n" });
const systemWith = (...targets: MirrorTarget[]): System => ({
  ...world.system,
  config: { ...world.system.config, mirror: { targets } },
});
const acme = await newOrg(world.system);
const monitor = await newTarget(acme, "Checkout");
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** A page with one component. */
async function publish(slug: string, more: object = {}): Promise<string> {
  const page = await createPage(acme, { slug, name: `Acme ${slug}`, ...more });
  await addComponent(acme, page.id, { target_id: monitor });
  return page.id;
}
const filesIn = (folder: string): string[] =>
  (existsSync(folder) ? readdirSync(folder, { recursive: true, withFileTypes: true }) : [])
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();
const event = async (incident: string) => sql`
  insert into incident_events (id, org_id, incident_id, at, kind, actor_type, detail)
  values (gen_random_uuid(), ${acme.orgId}, ${incident}, ${new Date(clock.now())}, 'opened', 'engine', '{}')`;
/** One look of the job, five seconds later. */
async function look(system: System): Promise<number> {
  clock.advance(5 * second);
  return (await isTrue(system, isMirrorDue)) ? await mirrorPages(system) : 0;
}

t.beforeEach(async () => {
  clock.advance(10 * minute);
  await sql`truncate incidents, mirrors cascade`;
  await setStatus(world.system, monitor, "up");
});

t.test("requests to S3 are signed as AWS publishes it", (t) => {
  // https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
  const keys = {
    accessKeyId: "AKIAIOSFODNN7EXAMPLE",
    secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    region: "us-east-1",
  };
  const origin = "https://examplebucket.s3.amazonaws.com";
  const at = Date.UTC(2013, 4, 24);
  const signatureOf = (method: string, path: string, headers: Record<string, string>, body = "") =>
    signed({ method, url: new URL(origin + path), headers, body: Buffer.from(body) }, keys, at)["authorization"]!.slice(
      -64,
    );
  t.equal(
    signatureOf("GET", "/test.txt", { Range: "bytes=0-9" }),
    "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
  );
  t.equal(
    signatureOf(
      "PUT",
      "/test%24file.text",
      { Date: "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY" },
      "Welcome to Amazon S3.",
    ),
    "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
  );
  t.equal(
    signatureOf("GET", "/?max-keys=2&prefix=J", {}),
    "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
  );
  t.end();
});

t.test("a page is copied with every language, its links lead to files, and nothing is written twice", async (t) => {
  const folder = join(base, "languages");
  const page = await publish("languages", { branding: { language: "auto", languages: ["en", "de", "ar"] } });
  await setLogo(acme, page, "light", pixel);
  const incident = await addIncident(acme, monitor, { started: clock.now() - minute, title: "Checkout <fails>" });
  await event(incident);
  const system = systemWith({ page: "languages", directory: folder });
  t.equal(await isTrue(system, isMirrorDue), true, "a new copy");
  t.equal(await mirrorPages(system), 1);
  const files = filesIn(folder);
  for (const own of ["", "de/", "en/", "ar/"])
    for (const path of ["index.html", `incidents/${incident}/index.html`, "incidents/index.html"])
      t.ok(files.includes(own + path), own + path);
  for (const path of ["status.json", "incidents.rss", "badge.svg", "heartbeat.json", "maintenance.ics"])
    t.ok(files.includes(path), path);
  t.strictSame(
    files.filter((path) => path.endsWith(".part")),
    [],
  );
  for (const path of files.filter((one) => one.endsWith(".html"))) {
    const text = readFileSync(join(folder, path), "utf8");
    const links = [...text.matchAll(/ (?:href|src|srcset|data-[a-z]+)="([^"]*[./][^"]*)"/g)].map(([, link]) => link!);
    for (const link of links.filter((one) => !/^(?:https:|\{|#|\d)/.test(one.trim())))
      t.ok(files.includes(posix.join(posix.dirname(path), link)), `${path} leads to ${link}`);
    t.notMatch(text, /copy-of-page|href="\/|src="\//, path);
    t.notMatch(text, /subscribe/, "nobody can subscribe at a copy");
  }
  const index = () => readFileSync(join(folder, "index.html"), "utf8");
  t.match(index(), /Checkout &lt;fails&gt;/);
  t.match(index(), /Copy of the status page\. Last change: <time datetime="2026-11-20T13:2/, "right without a script");
  t.match(readFileSync(join(folder, "de/index.html"), "utf8"), /Kopie der Statusseite/);
  matchObject(t, JSON.parse(readFileSync(join(folder, "status.json"), "utf8")), { overall: { state: "major_outage" } });

  await sql`update incidents set ended_at = ${new Date(clock.now())}, outage_since = null where id = ${incident}`;
  await event(incident);
  t.equal(await look(system), 1, "within ten seconds");
  t.notMatch(index(), /class="banner down"/);
  clock.advance(minute);
  await mirrorPages(system);
  const times = () => filesIn(folder).map((path) => `${path} ${statSync(join(folder, path)).mtimeMs}`);
  const before = times();
  for (let looks = 0; looks < 13; looks++) await look(system);
  const written = times().filter((one, at) => one !== before[at]);
  t.strictSame(
    written.map((one) => one.split(" ")[0]),
    ["heartbeat.json"],
    "while nothing changes, once a minute",
  );
  t.match(JSON.parse(readFileSync(join(folder, "heartbeat.json"), "utf8")).at, /^2026-11-20T13:/);
  matchObject(t, await copiesOf({ ...acme, config: system.config }, page), [{ kind: "Folder", problem: null }]);
  t.match(await mirrorInWords(system), /^languages at .*, last update \d+ s ago$/);
  await sql`update incidents set public_title = 'Another title' where id = ${incident}`;
  await event(incident);
  await look(system);
  t.match(readFileSync(join(folder, `incidents/${incident}/index.html`), "utf8"), /Another title/);
});

t.test("what is not public any more leaves", async (t) => {
  const folder = join(base, "gone");
  const page = await publish("gone", { branding: { language: "de" } });
  const incident = await addIncident(acme, monitor, { started: clock.now() - minute, title: "A secret" });
  const system = systemWith({ page: "gone", directory: folder });
  await mirrorPages(system);
  const shown = () =>
    filesIn(folder)
      .map((path) => readFileSync(join(folder, path), "utf8"))
      .join("\n");
  t.match(shown(), /A secret/);
  await setPublished(acme, incident, false, {});
  await look(system);
  t.notMatch(shown(), /A secret|incidents\/[0-9a-f-]{36}/, "an incident that was withdrawn");
  t.strictSame(
    filesIn(folder).filter((path) => path.includes(incident)),
    [],
  );
  const rest = /^(?:assets\/.*|index\.html)$/;
  const isGone = (path: string) => {
    t.match(shown(), /Diese Seite ist nicht mehr öffentlich/);
    t.strictSame(
      filesIn(folder).filter((one) => !rest.test(one)),
      [],
      path,
    );
    t.notMatch(shown(), /Acme gone|Checkout/);
  };
  await updatePage(acme, page, { access: { mode: "members" } });
  await look(system);
  isGone("private");
  await t.rejects(mirrorInWords(system), /gone at .*: the page is not public, or there is none/);
  clock.advance(6 * minute);
  await mirrorPages(systemWith({ page: "gone", directory: folder, allow_private: true }));
  t.match(shown(), /Checkout/, "where the operator allows it");
  await updatePage(acme, page, { access: { mode: "public" }, enabled: false });
  await look(system);
  isGone("draft");
  await updatePage(acme, page, { enabled: true });
  await look(system);
  t.match(shown(), /Checkout/, "and back");
  await deletePage(acme, page);
  await look(system);
  isGone("deleted");
  const globex = await newOrg(world.system);
  t.strictSame(await copiesOf({ ...globex, config: system.config }, page), []);
  await createPage(globex, { slug: "gone", name: "Page of Globex" });
  await look(system);
  t.notMatch(shown(), /Globex/, "a page of another organisation with that name is not copied");
});

t.test("one replica writes; a failure is kept, told and tried again; a damaged file is found", async (t) => {
  const folder = join(base, "taken");
  writeFileSync(folder, "a file in place of the folder");
  await publish("taken");
  const system = systemWith({ page: "taken", directory: folder });
  await mirrorPages(system);
  await t.rejects(mirrorInWords(system), /^taken at .*: (?:ENOTDIR|EEXIST)/);
  matchObject(t, log.lines.at(-1), { level: "warn", message: "a copy of a status page could not be written" });
  t.equal(await look(system), 0, "not at once");
  rmSync(folder);
  clock.advance(30 * second);
  let inside = 0;
  await sql.begin(async (tx) => {
    t.equal(await takeJobLock(tx, "mirror"), true);
    await runAlone(system, { name: "mirror", everyMs: 1, run: async () => inside++ });
  });
  t.equal(inside, 0, "while another replica writes");
  t.equal(await mirrorPages(system), 1);
  const said: string[] = [];
  t.equal(await checkMirrors(system, (line) => said.push(line)), true);
  t.match(said.join(), /^ok {5}taken at .* files are as written$/);
  writeFileSync(join(folder, "index.html"), "damaged");
  rmSync(join(folder, "badge.svg"));
  t.equal(await checkMirrors(system, (line) => said.push(line)), false);
  t.match(said.at(-1), /badge\.svg is missing/);
  t.match(said.at(-1), /index\.html differs/);
  clock.advance(6 * minute);
  await t.rejects(mirrorInWords(system), /last update \d+ s ago/);
});

t.test("a bucket gets the same, with types and the index last", async (t) => {
  await publish("bucket");
  const objects = new Map<string, Buffer>();
  const puts: string[] = [];
  const heads = new Map<string, object>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const path = request.url!;
      if (!/^AWS4-HMAC-SHA256 Credential=AKID\/\d{8}\/eu-central-1\/s3\//.test(request.headers.authorization ?? "")) {
        response.writeHead(403).end("<Error><Code>InvalidAccessKeyId</Code></Error>");
        return;
      }
      if (request.method === "PUT") {
        objects.set(path, Buffer.concat(chunks));
        puts.push(path);
        heads.set(path, { type: request.headers["content-type"], cache: request.headers["cache-control"] });
      } else if (request.method === "DELETE") objects.delete(path);
      const found = request.method === "GET" ? objects.get(path) : Buffer.alloc(0);
      response.writeHead(found === undefined ? 404 : 200).end(found);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.teardown(() => server.close());
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const s3 = {
    endpoint,
    bucket: "status",
    prefix: "pages/acme",
    region: "eu-central-1",
    access_key_id: "AKID",
    secret_access_key_file: join(base, "key"),
  };
  const system = systemWith({ page: "bucket", s3 });
  await mirrorPages(system);
  t.equal(puts.at(-2), "/status/pages/acme/index.html", "the index after everything that it names");
  t.equal(puts.at(-1), "/status/pages/acme/heartbeat.json");
  t.strictSame(heads.get("/status/pages/acme/index.html"), { type: "text/html; charset=utf-8", cache: "no-cache" });
  const sheet = [...heads.keys()].find((path) => path.endsWith("status.css"))!;
  matchObject(t, heads.get(sheet), { type: "text/css; charset=utf-8", cache: /immutable/ });
  t.equal(await checkMirrors(system, () => undefined), true);
  const sent = puts.length;
  clock.advance(5 * minute + second);
  await mirrorPages(system);
  t.strictSame(puts.slice(sent), ["/status/pages/acme/heartbeat.json"], "unchanged files are not sent again");

  await mirrorPages(systemWith({ page: "bucket", s3: { ...s3, prefix: "b", access_key_id: "OTHER" } }));
  await t.rejects(
    mirrorInWords(systemWith({ page: "bucket", s3: { ...s3, prefix: "b", access_key_id: "OTHER" } })),
    /answered 403 InvalidAccessKeyId/,
  );
  const absent = { ...s3, prefix: "c", secret_access_key_file: join(base, "absent") };
  await mirrorPages(systemWith({ page: "bucket", s3: absent }));
  await t.rejects(mirrorInWords(systemWith({ page: "bucket", s3: absent })), /absent cannot be read \(ENOENT\)/);
});
