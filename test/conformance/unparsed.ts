import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import type { Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { addressList } from "@statusmesh/shared/net/address";
import { readerPace, serveGuarded } from "@statusmesh/control-plane/platform/http/limits/connections";
import type { ErrorCode } from "@statusmesh/shared/errors";
import type { Answer } from "../harness/api.ts";
import type { TestDatabase } from "../harness/database.ts";
import { serveHere } from "../harness/in-process.ts";
import { isRefused } from "./refused.ts";

/** Sends these bytes and reads the answer, after which the service closes the connection. */
async function sendRaw(port: number, bytes: string): Promise<Answer> {
  const socket = connect(port, "127.0.0.1");
  let all = "";
  socket.setEncoding("utf8").on("data", (chunk: string) => (all += chunk));
  socket.write(bytes);
  await new Promise<void>((resolve, reject) => socket.once("close", () => resolve()).once("error", reject));
  const [head = "", text = ""] = all.split("\r\n\r\n");
  const [first = "", ...lines] = head.split("\r\n");
  const headers = Object.fromEntries(
    lines.map((line) => [line.split(":", 1)[0]!.toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
  );
  return { status: Number(first.split(" ")[1]), headers, text, body: text === "" ? null : JSON.parse(text) };
}

/** Input that never becomes a request of the application is refused with the same envelope. */
export async function provokeParser(t: Test, url: string, database: TestDatabase): Promise<void> {
  const port = Number(new URL(url).port);
  const end = "Connection: close\r\n\r\n";
  const cases: [string, string, ErrorCode][] = [
    ["headers of 20 KB", `GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${"x".repeat(20_000)}\r\n${end}`, "HEADERS_TOO_LARGE"],
    ["an unknown method", `FROB / HTTP/1.1\r\nHost: x\r\n${end}`, "INVALID_REQUEST"],
    [
      "two lengths",
      `POST /api/v1/targets HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n${end}0\r\n\r\n`,
      "INVALID_REQUEST",
    ],
    ["no host", `GET /healthz HTTP/1.1\r\n${end}`, "INVALID_HOST"],
    ["an empty host", `GET /api/v1/targets HTTP/1.1\r\nHost:\r\n${end}`, "INVALID_HOST"],
  ];
  for (const [title, bytes, code] of cases) isRefused(t, await sendRaw(port, bytes), { title, code });

  const impatient = createServer({ connectionsCheckingInterval: 20 });
  impatient.headersTimeout = 100;
  const limits = { max: 10, perAddress: 0, proxies: addressList([]), classOf: () => "api" as const, ...readerPace };
  serveGuarded(impatient, limits, () => () => {});
  await new Promise<void>((resolve) => impatient.listen(0, "127.0.0.1", resolve));
  t.teardown(() => impatient.close());
  const late = await sendRaw((impatient.address() as AddressInfo).port, "GET / HTTP/1.1\r\nHost: x\r\n");
  isRefused(t, late, { title: "headers that never end", code: "REQUEST_TIMEOUT" });

  const small = Number(new URL(await serveHere(t, database, { SM_SERVER__MAX_CONNECTIONS: "10" })).port);
  const held = Array.from({ length: 10 }, () => connect(small, "127.0.0.1"));
  t.teardown(() => held.forEach((socket) => socket.destroy()));
  await Promise.all(held.map((socket) => new Promise((resolve) => socket.once("connect", resolve))));
  const request = `GET /api/v1/targets HTTP/1.1\r\nHost: 127.0.0.1\r\n${end}`;
  // Silent connections hold all but the share of each class, which is one of ten.
  const [last] = held;
  last!.write(`GET /api/v1/targets HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`);
  await new Promise((resolve) => last!.once("data", resolve));
  const first = connect(small, "127.0.0.1");
  held.push(first);
  first.write(`GET /api/v1/targets HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`);
  await new Promise((resolve) => first.once("data", resolve));
  isRefused(t, await sendRaw(small, request), { title: "one connection too many", code: "TOO_MANY_CONNECTIONS" });
  matchObject(t, await sendRaw(small, request.replace("/api/v1/targets", "/healthz")), {
    status: 200,
    body: { status: "ok" },
  });
}
