import type { CancelSignal } from "@statusmesh/shared/net/cancellation";
import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { Resolver } from "node:dns";
import { isIPv6 } from "node:net";
import type { RecordType } from "@statusmesh/shared/checks/dns";

/** RFC 1035 section 3.2.2, RFC 3596, RFC 2782, RFC 8659. */
const typeNumbers: { readonly [T in RecordType]: number } = {
  A: 1,
  NS: 2,
  CNAME: 5,
  SOA: 6,
  PTR: 12,
  MX: 15,
  TXT: 16,
  AAAA: 28,
  SRV: 33,
  CAA: 257,
};
/** Codes that are no answer about the name, and that c-ares passes over (IANA DNS RCODEs). */
const rareCodes: Readonly<Record<number, string>> = {
  6: "YXDOMAIN",
  7: "YXRRSET",
  8: "NXRRSET",
  9: "NOTAUTH",
  10: "NOTZONE",
  11: "DSOTYPENI",
};
const waitMs = 1000;

/**
 * The name of a rare return code with which a name server (null: the machine's own) answers a question; null where it
 * answers with another one, or not within a second. c-ares reads these as "no record", so a query without
 * records is repeated once directly: the code is in the first bytes of the answer, truncated or not.
 */
export function rareReturnCode(
  server: { address: string; port: number } | null,
  name: string,
  type: RecordType,
  signal: CancelSignal,
): Promise<string | null> {
  const at = server ?? ownServer();
  if (at === null || signal.aborted) return Promise.resolve(null);
  const id = randomInt(0x1_0000);
  return new Promise((settle) => {
    const socket = createSocket(isIPv6(at.address) ? "udp6" : "udp4");
    let over = false;
    const end = (code: string | null): void => {
      if (over) return;
      over = true;
      clearTimeout(tooLong);
      signal.removeEventListener("abort", onAbort);
      socket.close();
      settle(code);
    };
    const onAbort = (): void => end(null);
    const tooLong = setTimeout(() => end(null), waitMs);
    signal.addEventListener("abort", onAbort, { once: true });
    socket.on("error", () => end(null));
    socket.on("message", (answer, from) => {
      if (answer.length < 12 || answer.readUInt16BE(0) !== id || from.port !== at.port) return;
      end(rareCodes[(answer[3] ?? 0) & 0x0f] ?? null);
    });
    socket.send(question(id, name, type), at.port, at.address, (error) => {
      if (error !== null) end(null);
    });
  });
}

function ownServer(): { address: string; port: number } | null {
  const [first] = new Resolver().getServers();
  if (first === undefined) return null;
  const [, v6, v4, port] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(first) ?? [];
  return { address: v6 ?? v4 ?? first, port: port === undefined ? 53 : Number(port) };
}

function question(id: number, name: string, type: RecordType): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt16BE(id, 0);
  // Recursion desired, one question.
  head.writeUInt16BE(0x0100, 2);
  head.writeUInt16BE(1, 4);
  const labels = name
    .split(".")
    .map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label, "latin1")]));
  const tail = Buffer.from([0, 0, 0, 0, 1]);
  tail.writeUInt16BE(typeNumbers[type], 1);
  return Buffer.concat([head, ...labels, tail]);
}
