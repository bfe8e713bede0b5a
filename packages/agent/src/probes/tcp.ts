import type { Socket } from "node:net";
import { greetings, sentBytes, startTlsOf, type TcpCheck } from "@statusmesh/shared/checks/tcp";
import { canonicalHost, serverName } from "@statusmesh/shared/checks/host";
import { dial } from "@statusmesh/shared/net/dial";
import { unlessClosed } from "./conversation.ts";
import { handshake } from "./tls/handshake.ts";
import { shortened } from "./http/http-expectations.ts";
import { maskerOf } from "./masking/masking.ts";
import { down, oncePer, type Probe, type ProbeContext, up, type Verdict } from "./probe.ts";
import { StartTlsError, startTls } from "./tls/starttls.ts";

const hostOf = oncePer(({ host }: TcpCheck) => canonicalHost(host));
const bytesOf = oncePer(sentBytes);

/** Bytes of an answer in which the expected text is searched. */
const maxAnswer = 4096;

/** Up when a connection is accepted and, where the check sends or expects something, the answer fits. */
export const tcp: Probe<TcpCheck> = {
  timeoutStatus: "down",
  async run(spec, context) {
    const { signal, trace, allowPrivate, lookup } = context;
    const { port, ip_version: ipVersion } = spec;
    const { socket } = await dial({ host: hostOf(spec), port, allowPrivate, ipVersion, signal, lookup, trace });
    try {
      const { tls = "none", verify_tls: verify = true } = spec;
      if (tls === "none") return await talk(spec, socket, context);
      const host = serverName(spec);
      const protocol = startTlsOf(tls);
      if (protocol !== null) await startTls(protocol, socket, { host, port }, context);
      const secured = await handshake(socket, { host, verify, protocols: [] }, context);
      return await talk(spec, secured, context).finally(() => secured.destroy());
    } catch (error) {
      if (error instanceof StartTlsError) return down(error.message);
      throw error;
    } finally {
      socket.destroy();
    }
  },
};

/** A warning for a check that speaks before a server which usually speaks first; null for another one. */
export function greetingAdvice({ port, send = null, greeting = null, tls = "none" }: TcpCheck): string | null {
  const usual = greetings.get(port);
  if (usual === undefined || send === null || greeting !== null || tls !== "none") return null;
  return `Servers of port ${port} speak first and may refuse what comes before: set greeting to "${usual}".`;
}

async function talk(spec: TcpCheck, socket: Socket, { signal, trace, warn }: ProbeContext): Promise<Verdict> {
  const { send = null, expect = null, greeting = null } = spec;
  const advice = greetingAdvice(spec);
  if (advice !== null) warn(advice);
  const bytes = bytesOf(spec);
  let answer: Buffer = Buffer.alloc(0);
  if (greeting !== null) {
    trace.overdue = `no greeting with ${JSON.stringify(greeting)} within`;
    const { verdict, after } = await greetingOf(greeting, socket, { signal, trace });
    if (verdict !== null) return verdict;
    // What came before `send` is no answer to it.
    if (send === null) answer = after;
  }
  if (send === null && expect === null) return up;
  trace.overdue = "sending timed out after";
  if (bytes.length > 0) await unlessClosed(socket, signal, (done) => socket.write(bytes, () => done()));
  if (expect === null) return up;
  trace.overdue = "no answer within";
  // Silence may be the server's way to wait for what was not sent.
  if (greeting === null) trace.verdict = { status: "error", error: "no answer to what was sent, or no greeting" };
  const wanted = Buffer.from(expect, "utf8");
  if (answer.includes(wanted)) return up;
  const missing = (): Verdict =>
    down(`the answer does not contain ${JSON.stringify(expect.slice(0, 200))}; got ${got(answer, bytes)}`);
  const verdict = await unlessClosed<Verdict>(
    socket,
    signal,
    (done) =>
      void socket
        .on("data", (chunk: Buffer) => {
          answer = Buffer.concat([answer, chunk.subarray(0, maxAnswer - answer.length)]);
          if (answer.includes(wanted)) done(up);
          else if (answer.length >= maxAnswer) done(missing());
          trace.verdict = missing();
        })
        .resume(),
    () => (answer.length > 0 ? missing() : down("connection closed without an answer")),
  );
  trace.verdict = null;
  return verdict;
}

/** What came, without what was sent: servers repeat it. */
const got = (answer: Buffer, sent: Buffer): string =>
  shortened(JSON.stringify(maskerOf(sent.length === 0 ? [] : [sent.toString()])(answer.toString())));

/**
 * Waits for the greeting of a server that speaks first. A verdict where another one came; else null, and what followed
 * its text.
 */
async function greetingOf(
  greeting: string,
  socket: Socket,
  { signal, trace }: Pick<ProbeContext, "signal" | "trace">,
): Promise<{ verdict: Verdict | null; after: Buffer }> {
  const wanted = Buffer.from(greeting, "utf8");
  let heard = Buffer.alloc(0);
  const other = (): Verdict =>
    down(`the greeting does not contain ${JSON.stringify(greeting)}; got ${got(heard, Buffer.alloc(0))}`);
  const verdict = await unlessClosed<Verdict | null>(
    socket,
    signal,
    (done) =>
      void socket
        .on("data", (chunk: Buffer) => {
          heard = Buffer.concat([heard, chunk.subarray(0, maxAnswer - heard.length)]);
          const isFull = heard.length >= maxAnswer;
          if (heard.includes(wanted)) {
            trace.verdict = null;
            if (isFull || isWhole(heard)) done(null);
          } else if (isFull || (isReply(heard) && isWhole(heard))) done(other());
          else trace.verdict = other();
        })
        .resume(),
    () => (heard.length > 0 ? other() : down("connection closed without a greeting")),
  );
  socket.pause();
  trace.verdict = null;
  return { verdict, after: heard.subarray(heard.indexOf(wanted) + wanted.length) };
}

/** True for a greeting of SMTP, FTP, IMAP or POP3. */
const isReply = (heard: Buffer): boolean => /^(?:\d{3}[- ]|\* |\+OK|-ERR)/.test(heard.toString("latin1", 0, 4));

/**
 * False while a greeting goes on: a server may count bytes that come before its end as those of a spammer (Postfix's
 * postscreen sends the first of several lines 6 s before the last). Those of SMTP and FTP end with `220 `, those of
 * IMAP and POP3 with their line, and any other one, such as a prompt, may have no end.
 */
function isWhole(heard: Buffer): boolean {
  if (!isReply(heard)) return true;
  const text = heard.toString("latin1");
  if (!/^\d{3}-/.test(text)) return text.includes("\n");
  const code = text.slice(0, 3);
  const lines = text.split("\n").slice(0, -1);
  return lines.some((line) => line.startsWith(`${code} `) || line.startsWith(`${code}\r`));
}
