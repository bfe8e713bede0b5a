import type { AddressInfo } from "node:net";
import { createRequire } from "node:module";
import type Koa from "koa";

// The yardstick: a bare Koa handler that answers the same bytes with the same headers, because each header costs a Node
// server 1 to 2 µs, more on some machines than on others.
const body = Buffer.from(process.argv[2] ?? "", "base64");
const headers = JSON.parse(process.argv[3] ?? "{}") as Record<string, string>;
// Koa is the control plane's library, so it is found from there.
const fromControlPlane = createRequire(createRequire(import.meta.url).resolve("@statusmesh/control-plane/app"));
const App = fromControlPlane("koa") as typeof Koa;

const app = new App();
app.use((http) => {
  for (const [name, value] of Object.entries(headers)) http.set(name, value);
  http.body = body;
});
const server = app.listen(0, "127.0.0.1", () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
process.on("SIGTERM", () => process.exit(0));
