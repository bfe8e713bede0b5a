import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { castIn, sessionOf, tokenOf } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { tempFolder } from "../harness/folder.ts";
import { serveHere } from "../harness/in-process.ts";
import { freePort } from "../harness/processes.ts";
import { proxyPrograms, requires } from "../harness/requires.ts";
import { waitFor } from "../harness/wait.ts";

/* The settings of docs/reverse-proxy.md, each run by the proxy that it is for, without TLS and on a port. */

const documented = readFileSync(join(import.meta.dirname, "../../../docs/reverse-proxy.md"), "utf8");
const snippet = (language: string): string => new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, "s").exec(documented)![1]!;

type Proxy = keyof typeof proxyPrograms;

/** Returns the files of each proxy, by name, and its arguments. */
function setUp(
  proxy: Proxy,
  at: { port: number; folder: string; upstream: string },
): [Record<string, string>, string[]] {
  const { port, folder, upstream } = at;
  const here = (text: string) => text.replaceAll("127.0.0.1:8080", upstream);
  const file = (name: string) => join(folder, name);
  switch (proxy) {
    case "caddy": {
      const sites = here(snippet("Caddyfile")).replace(/[a-z]+\.example\.org/g, `http://$&:${port}`);
      const text = `{\n\tadmin off\n\tauto_https off\n}\n${sites}`;
      return [{ Caddyfile: text }, ["run", "--config", file("Caddyfile")]];
    }
    case "nginx": {
      const server = here(snippet("nginx"))
        .replace("443 ssl", `127.0.0.1:${port}`)
        .replace(/^ *ssl_.*\n/gm, "");
      const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${folder};`);
      const text = `daemon off; pid ${file("pid")}; error_log stderr; events {}
        http { access_log off; ${paths.join(" ")} ${server} }`;
      return [{ "nginx.conf": text }, ["-e", "stderr", "-c", file("nginx.conf")]];
    }
    case "haproxy": {
      const text = here(snippet("haproxy")).replace(/bind .*/, `bind 127.0.0.1:${port}`);
      return [{ "haproxy.cfg": text }, ["-db", "-f", file("haproxy.cfg")]];
    }
    case "apache2": {
      const host = here(snippet("apache"))
        .replace("*:443", `127.0.0.1:${port}`)
        .replace(/^ *SSL.*\n/gm, "");
      const modules = ["mpm_event", "authz_core", "proxy", "proxy_http"].map(
        (name) => `LoadModule ${name}_module /usr/lib/apache2/modules/mod_${name}.so`,
      );
      const user = process.getuid?.() === 0 ? "User www-data\nGroup www-data\n" : "";
      const own = `ServerRoot ${folder}\nServerName localhost\nPidFile ${file("pid")}\nDefaultRuntimeDir ${folder}`;
      const lines = [...modules, own, `ErrorLog ${file("error.log")}`, `Listen 127.0.0.1:${port}`];
      const text = `${lines.join("\n")}\n${user}${host}`;
      return [{ "apache.conf": text }, ["-f", file("apache.conf"), "-DFOREGROUND"]];
    }
  }
}

t.test("sign-in, MCP, addresses of visitors and large bodies behind the documented proxies", async (t) => {
  if (!(await requires(t, "proxies"))) return;
  const database = await cloneDatabase(t);
  const { olga } = await castIn(database.sql);
  const token = await tokenOf(database.sql, olga);
  const session = await sessionOf(database.sql, olga);
  const port = await freePort();
  const [site, other] = [`status.example.org:${port}`, `mcp.example.org:${port}`];
  const url = await serveHere(t, database, {
    SM_SERVER__PUBLIC_URL: `http://${site}`,
    SM_SERVER__TRUSTED_PROXIES: "127.0.0.1",
    SM_MCP__ENABLED: "true",
  });
  /** A request as a browser sends it to a page that is no secure context: with Origin, without Fetch Metadata. */
  const ask = async (host: string, path: string, body: string | object, headers: Record<string, string> = {}) =>
    await new Promise<{ status: number; text: string }>((resolve, reject) => {
      const sent = request({ host: "127.0.0.1", port, path, method: "POST", localAddress: "127.0.0.2" }, (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("data", (part: string) => (text += part));
        answer.on("end", () => resolve({ status: answer.statusCode!, text }));
      });
      sent.on("error", reject);
      const all = { host, origin: `http://${host}`, "content-type": "application/json", ...headers };
      for (const [name, value] of Object.entries(all)) sent.setHeader(name, value);
      sent.end(typeof body === "string" ? body : JSON.stringify(body));
    });

  const direct = await fetch(`${url}/api/v1/sessions`, {
    method: "POST",
    headers: { "content-type": "application/json", origin: `http://${site}` },
    body: JSON.stringify({ code: "x".repeat(43) }),
  });
  matchObject(
    t,
    await direct.json(),
    { error: { code: "SIGN_IN_LINK_INVALID" } },
    "server.public_url is no other site",
  );

  for (const proxy of Object.keys(proxyPrograms) as Proxy[])
    await t.test(proxy, async (t) => {
      const folder = tempFolder(t, proxy);
      const [files, args] = setUp(proxy, { port, folder, upstream: new URL(url).host });
      mkdirSync(join(folder, "logs"));
      for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
      const { said, stop } = run(proxyPrograms[proxy], args, folder);
      t.teardown(stop);
      await waitFor(`${proxy} to answer`, async () => {
        if (said.ended) throw new Error(said.text);
        return (await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => null))?.ok;
      });

      const code = { code: "x".repeat(43) };
      const forged = { "x-forwarded-for": "203.0.113.9" };
      const signIn = await ask(site, "/api/v1/sessions", code, forged);
      t.match(signIn.text, "SIGN_IN_LINK_INVALID", "a sign-in from the console's own page is judged");
      t.equal(signIn.status, 400);
      const [attempt] = await database.sql`select ip from login_attempts order by at desc limit 1`;
      t.equal(attempt?.["ip"], "127.0.0.2", "from the client's address, not the proxy's and not a forged one");
      const foreign = await ask(site, "/api/v1/sessions", code, { origin: "http://evil.example.org" });
      t.match(foreign.text, "CSRF_REJECTED", "another site's is refused");

      const cookie = { cookie: `_sm_session=${session}` };
      const check = { type: "tcp", host: "example.org", port: 443 };
      const written = await ask(site, "/api/v1/targets", { name: proxy, check, interval: 60 }, cookie);
      t.equal(written.status, 201, `a write of the console: ${written.text}`);

      const client = { authorization: `Bearer ${token}`, accept: "application/json, text/event-stream", origin: "" };
      const hello = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "test", version: "1" } };
      const message = { jsonrpc: "2.0", id: 1, method: "initialize", params: hello };
      const initialized = await ask(site, "/mcp", message, client);
      t.equal(initialized.status, 200, `the MCP server is at its host: ${initialized.text}`);
      t.equal((await ask(other, "/mcp", message, client)).status, 403, "and at no other");

      const large = `{"files": [], "padding": "${"x".repeat(3 << 20)}"}`;
      const plan = await ask(site, "/api/v1/config/plan", large, { authorization: `Bearer ${token}` });
      t.match(plan.text, /"trace_id"/, `a body of 3 MiB arrives: ${plan.text.slice(0, 300)}`);
    });
});

/** Starts a proxy in the foreground. */
function run(
  program: string,
  args: string[],
  cwd: string,
): { said: { text: string; ended: boolean }; stop(): unknown } {
  const child: ChildProcess = spawn(program, args, { cwd, env: { HOME: cwd, PATH: process.env["PATH"] } });
  const said = { text: "", ended: false };
  for (const stream of [child.stdout!, child.stderr!])
    stream.setEncoding("utf8").on("data", (text: string) => (said.text += text));
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  void ended.then(() => (said.ended = true));
  return {
    said,
    stop: async () => {
      child.kill("SIGTERM");
      await ended;
    },
  };
}
