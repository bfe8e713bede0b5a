import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/** Below the ports that systems give to outgoing connections (Linux: 32768, IANA: 49152). */
const [lowest, highest] = [15_000, 32_000];
const given = new Set<number>();

/**
 * A port of 127.0.0.1 that nothing listens on, for a server that starts later or comes back on the same port. Neither
 * an outgoing connection nor a server that asks for any port takes it meanwhile.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(lowest, highest);
    if (given.has(port) || !(await isFree(port))) continue;
    given.add(port);
    return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const free = await new Promise<boolean>((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => resolve(true));
  });
  if (free) await new Promise((resolve) => server.close(resolve));
  return free;
}
