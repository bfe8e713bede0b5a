import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { Server } from "socket.io";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { importKuma } from "../kuma.ts";
import { countOf, faultsOf, objectsOf } from "../testing.ts";
import type { Row } from "@statusmesh/shared/foreign/values";
import { readRunningKuma } from "./kuma-socket.ts";
import { noProgress } from "../../shell/output.ts";

/* An instance that says what a real Uptime Kuma 2.5 said: see test/fixtures/kuma/README.md. */

const fixture = join(import.meta.dirname, "../../../../../test/fixtures/kuma/socket.json.gz");
const said = JSON.parse(gunzipSync(readFileSync(fixture)).toString("utf8")) as Record<string, Row>;

const site = createServer((request, response) => {
  const slug = /^\/api\/status-page\/(\w+)$/.exec(request.url ?? "")?.[1];
  const page = slug === "acme" ? said["public"] : { config: {}, publicGroupList: [], incidents: [] };
  response.end(JSON.stringify(page));
});
const server = new Server(site);
const asked: string[] = [];
server.on("connection", (socket) => {
  socket.onAny((event: string) => void asked.push(event));
  // The handlers are there a moment after the connection: a request before is lost.
  let isLost = true;
  socket.on("login", (data: Record<string, string>, done: (reply: object) => void) => {
    if (isLost) {
      isLost = false;
      return;
    }
    if (data["password"] !== "moving-day-2026") return done({ ok: false, msg: "authIncorrectCreds" });
    if (data["username"] === "two" && data["token"] === "") return done({ tokenRequired: true });
    done({ ok: true, token: "jwt" });
    for (const name of ["monitorList", "notificationList", "statusPageList", "maintenanceList", "proxyList"])
      setTimeout(() => socket.emit(name, said[name]), 5);
  });
  socket.on("getMonitorMaintenance", (id: number, done: (reply: unknown) => void) =>
    done(said["monitorMaintenance"]![id]),
  );
  socket.on("getSettings", (done: (reply: unknown) => void) => done(said["settings"]));
  socket.on("getMonitorChartData", (id: number, _period: number, done: (reply: unknown) => void) =>
    done(id === 3 ? said["chart"] : { ok: true, data: [] }),
  );
  socket.on(
    "monitorImportantHeartbeatListPaged",
    (id: number, _from: number, _most: number, done: (reply: unknown) => void) =>
      done(id === 3 ? said["important"] : { ok: true, data: [] }),
  );
});
await new Promise<void>((resolve) => site.listen(0, "127.0.0.1", resolve));
t.teardown(() => server.close());
const url = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
const options = { history: true };

t.test("a running instance: the same monitors, channels, pages and windows as in its database", async (t) => {
  Object.assign(process.env, { KUMA_USERNAME: "admin", KUMA_PASSWORD: "moving-day-2026" });
  const data = await readRunningKuma(url, options, noProgress);
  const made = importKuma(data, "kuma");
  t.strictSame(faultsOf(made), []);
  t.equal(countOf(made), 23 + 8 + 2 + 6 + 1);
  matchObject(t, objectsOf(made, "monitors")["shop"], {
    tags: ["group/Web", "env:production", "team"],
    alert_confirmations: 3,
  });
  matchObject(t, objectsOf(made, "monitors")["backup"], { heartbeat_addresses: [{ kind: "kuma" }] });
  matchObject(t, objectsOf(made, "status_pages")["acme"], {
    components: [{ monitor: "shop", public_group: "Shop" }, {}, {}],
  });
  matchObject(t, objectsOf(made, "maintenance")["weekly"], {
    recurrence: { rule: "FREQ=WEEKLY;BYDAY=MO,TH" },
    monitors: ["shop"],
  });
  matchObject(t, made.history?.items, [{ monitor: "flaky", days: [{ up: 4, down: 16 }], incidents: [{}, {}] }]);
  const reads = [
    "login",
    "getMonitorMaintenance",
    "getSettings",
    "getMonitorChartData",
    "monitorImportantHeartbeatListPaged",
  ];
  t.strictSame([...new Set(asked)].sort(), reads.sort(), "nothing but reads");
});

t.test("what it refuses, in words", async (t) => {
  process.env["KUMA_PASSWORD"] = "wrong";
  await t.rejects(readRunningKuma(url, options, noProgress), /refuses the sign-in \(authIncorrectCreds\)/);
  Object.assign(process.env, { KUMA_USERNAME: "two", KUMA_PASSWORD: "moving-day-2026" });
  await t.rejects(readRunningKuma(url, options, noProgress), /set KUMA_TOTP/);
  await t.rejects(readRunningKuma("http://192.0.2.1", options, noProgress), /would be sent unencrypted/);
  await t.rejects(readRunningKuma("http://127.0.0.1:9", options, noProgress), /does not answer as Uptime Kuma/);
  delete process.env["KUMA_PASSWORD"];
  await t.rejects(readRunningKuma(url, options, noProgress), /set KUMA_USERNAME and KUMA_PASSWORD/);
});
