import { checkKinds, type CheckSpec } from "@statusmesh/shared/checks";
import { validate } from "@statusmesh/shared/schema/validate";
import { hostOf } from "./hosts.ts";

/**
 * Measured kinds: each has its server and its check. `https` is an http check over TLS, `http_expectations` one with
 * five expectations.
 */
export type Measurable = "http" | "http_expectations" | "https" | "tcp" | "dns" | "grpc" | "websocket" | "ping";

/** Packets of the ping checks, and the time between them, ms. */
export const packets = { count: 3, intervalMs: 200 };

/** Request and response of the grpc checks: no service, SERVING. */
export const health = {
  path: "/grpc.health.v1.Health/Check",
  ask: Buffer.from("0000000000", "hex"),
  serving: Buffer.from("00000000020801", "hex"),
};

/** Name and address of the dns checks. */
export const zone = { name: "www.example.org", address: "192.0.2.1" };

/** Reply of the http servers. */
export const reply = JSON.stringify({
  status: "ok",
  version: "3.12.1",
  queue: { length: 12 },
  parts: ["database", "cache", "mail"],
});

const expectations = {
  expected_body_absent: "Exception",
  expected_body_matches: "version.*[0-9]+",
  expected_json: [
    { path: "$.status", op: "eq", value: "ok" },
    { path: "$.queue.length", op: "lt", value: 100 },
  ],
  expected_headers: [{ name: "content-type", op: "contains", value: "json" }],
};

/** The nth check of a server on `port` of every loopback address. */
export function specOf(kind: Measurable, n: number, port: number): CheckSpec {
  const host = hostOf(n, kind === "https");
  const timeout = 10_000;
  if (kind === "tcp") return { type: "tcp", host, port, timeout };
  if (kind === "grpc") return validate(checkKinds.grpc.schema, { type: "grpc", host, port, tls: false, timeout });
  if (kind === "websocket")
    return validate(checkKinds.websocket.schema, { type: "websocket", url: `ws://${host}:${port}/`, timeout });
  if (kind === "ping") return validate(checkKinds.ping.schema, { type: "ping", host, timeout, packets: packets.count });
  if (kind === "dns")
    return {
      type: "dns",
      domain: zone.name,
      record_type: "A",
      resolver: `127.0.0.1:${port}`,
      expected_contains: zone.address,
      timeout,
    };
  return validate(checkKinds.http.schema, {
    type: "http",
    url: `${kind === "https" ? kind : "http"}://${host}:${port}/health?check=${n}`,
    timeout,
    ...(kind === "http_expectations" ? expectations : {}),
  });
}
