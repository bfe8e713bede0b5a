import type { Socket } from "node:net";
import { sentBytes, type TcpCheck } from "@statusmesh/shared/checks/tcp";
import { canonicalHost, serverName } from "@statusmesh/shared/checks/host";
import { dial } from "@statusmesh/shared/net/dial";
import { secure } from "@statusmesh/shared/net/tls";
import type { CancelSignal } from "@statusmesh/shared/net/cancellation";
import { DialError, wordsFor } from "@statusmesh/shared/net/dial-error";
import { codeOf } from "@statusmesh/shared/thrown";
import { shortened } from "./http-expectations.ts";
import { maskerOf } from "./masking.ts";
import { down, oncePer, type Probe, type ProbeContext, up, type Verdict } from "./probe.ts";

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
  const missing = (): Verdict =>
    down(`the answer does not contain ${JSON.stringify(expect.slice(0, 200))}; got ${got(answer, bytes)}`);
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
    () => (answer.length > 0 ? missing() : down("connection closed without an answer")),
  );
  trace.verdict = null;
  return verdict;
}

/** What came, without what was sent: servers repeat it. */
const got = (answer: Buffer, sent: Buffer): string =>
  shortened(JSON.stringify(maskerOf(sent.length === 0 ? [] : [sent.toString()])(answer.toString())));

/** Bytes of the conversation before TLS; a line of SMTP has 512, of IMAP 8 KiB. */
const maxBytes = 32 * 1024;

interface Step {
  /** Line to send before the reply; null for the greeting. */
  say: string | null;
  /** True for the last line of a good reply, false for a refusal, null for a line before the last one. */
  good: (line: string) => boolean | null;
  /** A line of the reply that must be there. */
  offers?: RegExp;
}

const smtp = (code: string) => (line: string) => (/^\d{3}-/.test(line) ? null : line.startsWith(code));
/** RFC 3207, RFC 3501 section 6.2.1, RFC 2595 section 4. */
const dialogues: Record<Exclude<NonNullable<TcpCheck["tls"]>, "none" | "tls">, readonly Step[]> = {
  starttls_smtp: [
    { say: null, good: smtp("220") },
    { say: "EHLO statusmesh.invalid", good: smtp("250"), offers: /^250[ -]STARTTLS\b/i },
    { say: "STARTTLS", good: smtp("220") },
  ],
  starttls_imap: [
    // PREAUTH: the session is signed in, and STARTTLS is no longer possible.
    { say: null, good: (line) => /^\* OK\b/i.test(line) },
    { say: "a1 STARTTLS", good: (line) => (/^a1 /i.test(line) ? /^a1 OK\b/i.test(line) : null) },
  ],
  starttls_pop3: [
    { say: null, good: (line) => /^\+OK/i.test(line) },
    { say: "STLS", good: (line) => /^\+OK/i.test(line) },
  ],
};

/** Asks for TLS on a connected socket; null when the server is ready for the handshake. */
async function startTls(
  mode: keyof typeof dialogues,
  socket: Socket,
  { signal, trace }: ProbeContext,
): Promise<Verdict | null> {
  let buffer = "";
  let bytes = 0;
  trace.overdue = "STARTTLS timed out after";
  for (const { say, good, offers } of dialogues[mode]) {
    if (say !== null) socket.write(`${say}\r\n`);
    let offered = offers === undefined;
    for (let verdict: boolean | null = null; verdict === null;) {
      while (!buffer.includes("\n")) {
        if (bytes > maxBytes) return down("the answers before TLS are larger than 32 KiB");
        const chunk = await unlessClosed<Buffer>(socket, signal, (done) => void socket.once("data", done).resume());
        // Nothing may be read beyond the go-ahead before the handshake takes over.
        socket.pause();
        bytes += chunk.length;
        buffer += chunk.toString("latin1");
      }
      const at = buffer.indexOf("\n");
      const line = buffer.slice(0, at).trimEnd();
      buffer = buffer.slice(at + 1);
      offered ||= offers!.test(line);
      verdict = good(line);
      if (verdict === false) return down(`STARTTLS was refused: ${shortened(JSON.stringify(line))}`);
    }
    if (!offered) return down("the server does not offer STARTTLS");
    // Bytes that came before they could be an answer, or after the go-ahead, are not protected: RFC 3207 section 6.
    if (buffer !== "" && say !== null && !say.startsWith("EHLO")) return down("plaintext after STARTTLS");
  }
  return null;
}

/**
 * Resolves with the value that `begin` gives to `done`, or with that of `closed` when the other side closes. Rejects
 * with a DialError when the connection breaks, and with the reason of the signal.
 */
function unlessClosed<T = void>(
  socket: Socket,
  signal: CancelSignal,
  begin: (done: (value: T) => void) => void,
  closed?: () => T,
): Promise<T> {
  return new Promise((settle, reject) => {
    const end = (conclude: () => void): void => {
      signal.removeEventListener("abort", onAbort);
      socket.off("error", onError).off("close", onClose).off("end", onClose).removeAllListeners("data");
      conclude();
    };
    const onAbort = (): void => end(() => reject(signal.reason as Error));
    const onError = (error: Error): void =>
      end(() => reject(new DialError("connect", wordsFor(error), codeOf(error), error)));
    const onClose = (): void =>
      end(() =>
        closed === undefined
          ? reject(new DialError("connect", "connection closed by peer", "ECONNRESET"))
          : settle(closed()),
      );
    if (signal.aborted) return reject(signal.reason as Error);
    signal.addEventListener("abort", onAbort, { once: true });
    socket.on("error", onError).on("close", onClose).on("end", onClose);
    begin((value) => end(() => settle(value)));
  });
}
