import { connect, type Socket } from "node:net";

const headEnd = Buffer.from("\r\n\r\n");

/**
 * Requests one resource over keep-alive connections for `ms`, each request after the response to the one before.
 * Writes bytes and counts them, so that a core of load generator keeps a core of server busy. Returns answers per
 * second; throws when one is not a 200.
 */
export async function requestsPerSecond(options: {
  port: number;
  path: string;
  headers: Record<string, string>;
  connections: number;
  ms: number;
}): Promise<number> {
  const { port, path, connections, ms } = options;
  const lines = Object.entries({ host: `127.0.0.1:${port}`, ...options.headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  const request = Buffer.from(`GET ${path} HTTP/1.1\r\n${lines.join("")}\r\n`);
  const began = performance.now();
  let answers = 0;
  await Promise.all(
    Array.from({ length: connections }, async () => {
      const socket = connect(port, "127.0.0.1").setNoDelay();
      try {
        while (performance.now() - began < ms) {
          await answered(socket, request);
          answers++;
        }
      } finally {
        socket.destroy();
      }
    }),
  );
  return answers / ((performance.now() - began) / 1000);
}

/** Sends the request and waits for the last byte of its answer. */
async function answered(socket: Socket, request: Buffer): Promise<void> {
  await new Promise<void>((settle, reject) => {
    let seen: Buffer = Buffer.alloc(0);
    const onData = (chunk: Buffer): void => {
      seen = seen.length === 0 ? chunk : Buffer.concat([seen, chunk]);
      const end = seen.indexOf(headEnd);
      if (end < 0) return;
      const head = seen.toString("latin1", 0, end);
      const length = /^content-length: (\d+)$/im.exec(head)?.[1];
      if (!head.startsWith("HTTP/1.1 200 ") || length === undefined) return finish(new Error(seen.toString()));
      if (seen.length >= end + headEnd.length + Number(length)) finish(null);
    };
    const finish = (error: Error | null): void => {
      socket.off("data", onData).off("error", finish).off("close", closed);
      if (error === null) settle();
      else reject(error);
    };
    const closed = (): void => finish(new Error("the connection was closed"));
    socket.on("data", onData).on("error", finish).on("close", closed);
    socket.write(request);
  });
}
