import type { Socket } from "node:net";
import { sentBytes, type TcpCheck } from "@statusmesh/shared/checks/tcp";
import { canonicalHost } from "@statusmesh/shared/checks/kind";
import { serverName } from "@statusmesh/shared/checks/server-name";
import { dial } from "@statusmesh/shared/net/dial";
import { secure } from "@statusmesh/shared/net/tls";
import { shortened } from "./http-expectations.ts";
import { maskerOf } from "./masking.ts";
import { oncePer } from "./once-per.ts";
import type { Probe, ProbeContext, Verdict } from "./probe.ts";
import { startTls } from "./starttls.ts";
import { unlessClosed } from "./unless-closed.ts";

const hostOf = oncePer(({ host }: TcpCheck) => canonicalHost(host));
const bytesOf = oncePer(sentBytes);

/** Bytes of an answer in which the expected text is searched. */
const maxAnswer = 4096;
const up: Verdict = { status: "up", error: null };

/** Up when a connection is accepted and, where the check sends or expects something, the answer fits. */
export const tcp: Probe<TcpCheck> = {
  timeoutStatus: "down",
  async run(spec, context) {
    const { signal, trace, allowPrivate, lookup } = context;
    const { socket } = await dial({ host: hostOf(spec), port: spec.port, allowPrivate, signal, lookup, trace });
    try {
      const { tls = "none", verify_tls: verify = true } = spec;
      if (tls === "none") return await talk(spec, socket, context);
      if (tls !== "tls") {
        const refusal = await startTls(tls, socket, context);
        if (refusal !== null) return refusal;
      }
      const host = serverName(spec);
      const secured = await secure({ socket, host, verify, signal, trace, protocols: [], now: context.now });
      return await talk(spec, secured, context).finally(() => secured.destroy());
    } finally {
      socket.destroy();
    }
  },
};

async function talk(spec: TcpCheck, socket: Socket, { signal, trace }: ProbeContext): Promise<Verdict> {
  const { send = null, expect = null } = spec;
  if (send === null && expect === null) return up;
  trace.overdue = "sending timed out after";
  const bytes = bytesOf(spec);
  if (bytes.length > 0) await unlessClosed(socket, signal, (done) => socket.write(bytes, () => done()));
  if (expect === null) return up;
  trace.overdue = "no answer within";
  // Silence may be the server's way to wait for what was not sent.
  trace.verdict = { status: "error", error: "no answer to what was sent, or no greeting" };
  const wanted = Buffer.from(expect, "utf8");
  let answer = Buffer.alloc(0);
  const missing = (): Verdict => ({
    status: "down",
    error: `the answer does not contain ${JSON.stringify(expect.slice(0, 200))}; got ${got(answer, bytes)}`,
  });
  const verdict = await unlessClosed<Verdict>(
    socket,
    signal,
    (done) =>
      void socket.on("data", (chunk: Buffer) => {
        answer = Buffer.concat([answer, chunk.subarray(0, maxAnswer - answer.length)]);
        if (answer.includes(wanted)) done(up);
        else if (answer.length >= maxAnswer) done(missing());
        trace.verdict = missing();
      }),
    () => (answer.length > 0 ? missing() : { status: "down", error: "connection closed without an answer" }),
  );
  trace.verdict = null;
  return verdict;
}

/** What came, without what was sent: servers repeat it. */
const got = (answer: Buffer, sent: Buffer): string =>
  shortened(JSON.stringify(maskerOf(sent.length === 0 ? [] : [sent.toString()])(answer.toString())));
