import { fork, type ChildProcess } from "node:child_process";
import { matchObject } from "@statusmesh/shared/testing";
import { once } from "node:events";
import type { Socket } from "node:net";
import { httpCheck, outcomeOf, tcpServer, testRunner } from "../testing.ts";

/*
 * What an agent holds while servers send it more than it asked for. The checks run in a process of their own with a
 * heap of 48 MB; what they hold outside of it (buffers) is measured while they run, against what the process had
 * before.
 */

interface Order {
  url: string;
  contains: string | null;
}
interface Measured {
  status: string;
  error: string | null;
  /** The most that was held at any time above the beginning, in bytes: resident, and in buffers. */
  rss: number;
  external: number;
}

const mib = 1024 * 1024;
const limit = 32 * mib;

if (process.send !== undefined && process.argv[2] === "checks") {
  const runner = testRunner();
  process.on("message", (order: Order) => {
    const check = httpCheck(order.url, { timeout: 1000, expected_body_contains: order.contains });
    const before = process.memoryUsage();
    const most = { rss: 0, external: 0 };
    const look = (): void => {
      const { rss, external } = process.memoryUsage();
      most.rss = Math.max(most.rss, rss - before.rss);
      most.external = Math.max(most.external, external - before.external);
    };
    const timer = setInterval(look, 2);
    void outcomeOf(runner.run("org", { ...check })).then(({ measurement: { status, error } }) => {
      look();
      clearInterval(timer);
      process.send?.({ status, error, ...most } satisfies Measured);
    });
  });
  process.once("disconnect", () => process.exit(0));
} else {
  // Not for the process of the checks, where it would take memory and speak to us.
  const { default: t } = await import("tap");
  const child = fork(new URL(import.meta.url), ["checks"], { execArgv: ["--max-old-space-size=48"] });
  t.teardown(() => child.kill());
  const ask = async (to: ChildProcess, order: Order): Promise<Measured> => {
    to.send(order);
    for (;;) {
      const [measured] = (await once(to, "message")) as [Measured | object];
      if ("rss" in measured) return measured;
    }
  };
  /** Sends a head, and then the same block again and again until so many bytes are through or nobody takes them. */
  const flood =
    (head: string, block: Buffer, bytes: number) =>
    (socket: Socket): void => {
      socket.once("data", () => {
        let left = bytes;
        const more = (): void => {
          while (left > 0 && !socket.destroyed) {
            left -= block.length;
            if (!socket.write(block)) return void socket.once("drain", more);
          }
        };
        socket.write(head);
        more();
      });
    };
  const ok = "HTTP/1.1 200 OK\r\n";
  const block = Buffer.alloc(64 * 1024, "a");
  const headers = Buffer.from("X-A: b\r\n".repeat(8 * 1024));
  const gigabyte = 1024 * mib;
  const cases: [string, (socket: Socket) => void, string | null, string, string | RegExp | null][] = [
    [
      "a small answer, for the pages that any check touches",
      flood(`${ok}Content-Length: 65536\r\n\r\n`, block, 65536),
      "b",
      "down",
      'the body does not contain "b"',
    ],
    [
      "a body of a gigabyte",
      flood(`${ok}Content-Length: ${gigabyte}\r\n\r\n`, block, gigabyte),
      "b",
      "down",
      'the first MiB of the body does not contain "b"',
    ],
    ["a body of a gigabyte that nobody looks into", flood(`${ok}\r\n`, block, gigabyte), null, "up", null],
    ["headers of 100 MB", flood(ok, headers, 100 * mib), null, "down", "the response head is larger than 64 KiB"],
    [
      "one header of 100 MB",
      flood(`${ok}X-A: `, block, 100 * mib),
      null,
      "down",
      "the response head is larger than 64 KiB",
    ],
    [
      "a chunk extension of 10 MB",
      flood(`${ok}Transfer-Encoding: chunked\r\n\r\n1;`, block, 10 * mib),
      null,
      "down",
      "the response body has chunk extensions larger than 16 KiB",
    ],
    [
      "100 MB in chunks of one byte",
      flood(`${ok}Transfer-Encoding: chunked\r\n\r\n`, Buffer.from("1\r\n.\r\n".repeat(10_000)), 100 * mib),
      "needle",
      "down",
      /^(the first MiB of the body does not contain "needle"|response body timed out after 1\.0 s)$/,
    ],
    [
      "trailers of 100 MB",
      flood(`${ok}Transfer-Encoding: chunked\r\n\r\n0\r\n`, headers, 100 * mib),
      null,
      "down",
      "the response trailers are larger than 64 KiB",
    ],
    [
      "100 MB of interim answers",
      flood("", Buffer.from("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(1000)), 100 * mib),
      null,
      "down",
      "more than 32 interim (1xx) responses",
    ],
    ["100 MB before the status", flood("", block, 100 * mib), null, "down", /^the answer is not valid HTTP/],
    [
      "a reason of 100 MB",
      flood("HTTP/1.1 200 ", block, 100 * mib),
      null,
      "down",
      /^(the response head is larger than 64 KiB|response head timed out after 1\.0 s)$/,
    ],
  ];
  t.test("an endless response costs a check less than 32 MB", async (t) => {
    for (const [what, serve, contains, status, error] of cases) {
      const { port } = await tcpServer(t, serve);
      const order = { url: `http://127.0.0.1:${port}/`, contains };
      let measured = await ask(child, order);
      // On a loaded machine, which is no answer about the response.
      for (let n = 0; n < 30 && measured.error?.startsWith("the agent was suspended"); n++)
        measured = await ask(child, order);
      matchObject(t, measured, { status, error }, what);
      t.ok(measured.rss < limit, `${what}: ${(measured.rss / mib).toFixed(1)} MiB resident`);
      t.ok(measured.external < limit / 2, `${what}: ${(measured.external / mib).toFixed(1)} MiB of buffers`);
    }
    t.equal(child.exitCode, null, "a heap of 48 MB was enough for all of them");
  });
  t.test("the end", async (t) => {
    child.disconnect();
    t.strictSame(await once(child, "exit"), [0, null]);
  });
}
