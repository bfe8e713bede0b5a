import { connect } from "node:net";

const headEnd = Buffer.from("\r\n\r\n");

/**
 * Requests one resource over keep-alive connections for `ms`, each request after the response to the one before.
 * Looks at bytes and parses no more than it must: the core that it shares with the server is for the server. Returns
 * the number of answers; throws when one is not a 200.
 */
export async function countAnswers(options: {
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
  const until = performance.now() + ms;
  let answers = 0;
  const oneAfterAnother = async (): Promise<void> =>
    await new Promise((settle, reject) => {
      const socket = connect(port, "127.0.0.1", () => socket.write(request)).setNoDelay();
      let missing = 0;
      socket.on("data", (chunk) => {
        if (missing === 0) missing = answerLength(chunk);
        missing -= chunk.length;
        if (Number.isNaN(missing) || missing < 0) return socket.destroy(new Error(chunk.toString("latin1")));
        if (missing > 0) return;
        answers++;
        if (performance.now() < until) socket.write(request);
        else socket.destroy();
      });
      // A settled promise ignores the second.
      const closed = () => reject(new Error("the server closed the connection"));
      socket.on("error", reject).on("close", () => (performance.now() < until ? closed() : settle()));
    });
  await Promise.all(Array.from({ length: connections }, oneAfterAnother));
  return answers;
}

/** Bytes of the answer that begins with this chunk; NaN where it is no 200 or its head is not whole. */
function answerLength(chunk: Buffer): number {
  const end = chunk.indexOf(headEnd);
  const head = chunk.toString("latin1", 0, end);
  const length = /^content-length: (\d+)/im.exec(head)?.[1];
  return head.startsWith("HTTP/1.1 200 ") ? end + headEnd.length + Number(length) : Number.NaN;
}
