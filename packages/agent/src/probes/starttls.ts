import type { Socket } from "node:net";
import type { TcpCheck } from "@statusmesh/shared/checks/tcp";
import { shortened } from "./http-expectations.ts";
import type { ProbeContext, Verdict } from "./probe.ts";
import { unlessClosed } from "./unless-closed.ts";

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
export async function startTls(
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

const down = (error: string): Verdict => ({ status: "down", error });
