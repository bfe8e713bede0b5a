import { checkKinds, type CheckSpec } from "@statusmesh/shared/checks";
import { validate } from "@statusmesh/shared/validate";
import { hostOf } from "./hosts.ts";

/**
 * Measured kinds: each has its server and its check. `https` is an http check over TLS.
 */
export type Measurable = "http" | "https" | "tcp" | "dns";

/** Name and address of the dns checks. */
export const zone = { name: "www.example.org", address: "192.0.2.1" };

/** The nth check of a server on `port` of every loopback address. */
export function specOf(kind: Measurable, n: number, port: number): CheckSpec {
  const host = hostOf(n, kind === "https");
  const timeout = 10_000;
  if (kind === "tcp") return { type: "tcp", host, port, timeout };
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
    url: `${kind}://${host}:${port}/health?check=${n}`,
    timeout,
  });
}
