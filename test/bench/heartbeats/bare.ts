import type { AddressInfo } from "node:net";
import { createRequire } from "node:module";
import type Koa from "koa";
import { openEmbedded } from "../../harness/targets.ts";

// The yardstick: a bare Koa handler that inserts a row for each request, in a process without other work.
// Arguments: folder of the control plane, id of a heartbeat monitor.
const [, , folder = "", targetId = ""] = process.argv;
// Koa is the control plane's library, so it is found from there.
const fromControlPlane = createRequire(createRequire(import.meta.url).resolve("@statusmesh/control-plane/app"));
const App = fromControlPlane("koa") as typeof Koa;
const sql = openEmbedded({ teardown: () => undefined }, folder);

const app = new App();
let made = 0;
app.use(async (http) => {
  made += 1;
  await sql`
    insert into heartbeat_pings (target_id, number, at, kind, source_ip, user_agent)
    values (${targetId}, ${2_000_000_000 + made}, ${new Date()}, 'success', '127.0.0.1', 'bare')`;
  http.type = "text/plain; charset=utf-8";
  http.body = "OK";
});
const server = app.listen(0, "127.0.0.1", () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
process.on("SIGTERM", () => process.exit(0));
