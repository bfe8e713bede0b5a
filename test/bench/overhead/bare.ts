import type { AddressInfo } from "node:net";
import { createRequire } from "node:module";
import type Koa from "koa";

// The yardstick: a bare Koa handler that answers the same body with the same relevant headers.
const [body = ""] = process.argv.slice(2);
// Koa is the control plane's library, so it is found from there.
const fromControlPlane = createRequire(createRequire(import.meta.url).resolve("@statusmesh/control-plane/app"));
const App = fromControlPlane("koa") as typeof Koa;

const app = new App();
app.use((http) => {
  http.set("Cache-Control", "private, max-age=5");
  http.body = body;
  http.type = "application/json; charset=utf-8";
});
const server = app.listen(0, "127.0.0.1", () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
process.on("SIGTERM", () => process.exit(0));
