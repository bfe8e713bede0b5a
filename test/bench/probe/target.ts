import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

// The server that is checked: as small an answer as there is, on every loopback address, its port on the first line.
const server = createServer((_request, response) => response.end("ok"));
server.keepAliveTimeout = 1;
server.listen(0, "0.0.0.0", 1024, () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
process.on("SIGTERM", () => process.exit(0));
