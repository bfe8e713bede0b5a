import type { AddressInfo } from "node:net";
import { createRequire } from "node:module";
import type Koa from "koa";

// The yardstick: a bare Koa handler that answers the same bytes with the same relevant headers.
const body = Buffer.from(process.argv[2] ?? "", "base64");
// Koa is the control plane's library, so it is found from there.
const fromControlPlane = createRequire(createRequire(import.meta.url).resolve("@statusmesh/control-plane/app"));
const App = fromControlPlane("koa") as typeof Koa;

const app = new App();
app.use((http) => {
  http.set("Cache-Control", "public, max-age=10, stale-while-revalidate=30");
  http.set("Content-Encoding", "gzip");
  http.type = "text/html; charset=utf-8";
  http.body = body;
});
const server = app.listen(0, "127.0.0.1", () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
process.on("SIGTERM", () => process.exit(0));
