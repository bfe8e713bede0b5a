import type { Socket } from "node:net";
import type { StartTlsProtocol } from "@statusmesh/shared/checks/starttls";
import { Conversation, TooLong } from "../conversation.ts";
import { shortened } from "../http/http-expectations.ts";
import type { ProbeContext } from "../probe.ts";

/** STARTTLS that a server refuses or does not offer. The message is for operators. */
export class StartTlsError extends Error {
  override readonly name = "StartTlsError";
}

interface Peer {
  /** Name of the server, as for SNI. */
  host: string;
  port: number;
}

/** Asks for TLS; resolves when the server waits for the handshake. */
type Dialogue = (talk: Conversation, peer: Peer) => Promise<void>;

/**
 * Asks for TLS on a connected socket, in the protocol of the server. Rejects with {@link StartTlsError}, DialError or
 * the reason of the signal.
 */
export async function startTls(
  protocol: StartTlsProtocol,
  socket: Socket,
  peer: Peer,
  { signal, trace }: Pick<ProbeContext, "signal" | "trace">,
): Promise<void> {
  trace.overdue = "STARTTLS timed out after";
  const talk = new Conversation(socket, signal);
  try {
    await dialogues[protocol](talk, peer);
  } catch (error) {
    throw error instanceof TooLong ? new StartTlsError(error.message) : error;
  }
  // Bytes that came together with the go-ahead are not protected: RFC 3207 section 6.
  if (talk.pending > 0) throw new StartTlsError("plaintext after STARTTLS");
}

const refused = (said: string) => new StartTlsError(`STARTTLS was refused: ${shortened(JSON.stringify(said))}`);
const notOffered = () => new StartTlsError("the server does not offer STARTTLS");

/** The lines of a reply of SMTP or FTP (RFC 5321 section 4.2.1, RFC 959 section 4.2). */
async function anyReply(talk: Conversation): Promise<string[]> {
  const lines = [await talk.line()];
  const [, code, more] = /^(\d{3})(-?)/.exec(lines[0]!) ?? [];
  if (more === "-") while (!lines.at(-1)!.startsWith(`${code} `)) lines.push(await talk.line());
  return lines;
}

function accepted(lines: string[], code: string): string[] {
  if (!lines.at(-1)!.startsWith(code)) throw refused(lines.at(-1)!);
  return lines;
}

const reply = async (talk: Conversation, code: string): Promise<string[]> => accepted(await anyReply(talk), code);

/** RFC 3207. */
const smtp: Dialogue = async (talk) => {
  await reply(talk, "220");
  talk.send("EHLO statusmesh.invalid\r\n");
  const offers = await reply(talk, "250");
  if (!offers.some((line) => /^250[ -]STARTTLS\b/i.test(line))) throw notOffered();
  talk.send("STARTTLS\r\n");
  await reply(talk, "220");
};

/** RFC 4217 section 4. A server that is not ready yet says 120 before 220 (RFC 959 section 5.4). */
const ftp: Dialogue = async (talk) => {
  let greeting = await anyReply(talk);
  while (greeting[0]!.startsWith("120")) greeting = await anyReply(talk);
  accepted(greeting, "220");
  talk.send("AUTH TLS\r\n");
  await reply(talk, "234");
};

/** RFC 3501 section 6.2.1. PREAUTH: the session is signed in, and STARTTLS is no longer possible. */
const imap: Dialogue = async (talk) => {
  const greeting = await talk.line();
  if (!/^\* OK\b/i.test(greeting)) throw refused(greeting);
  talk.send("a1 STARTTLS\r\n");
  let line = await talk.line();
  while (!/^a1 /i.test(line)) line = await talk.line();
  if (!/^a1 OK\b/i.test(line)) throw refused(line);
};

/** RFC 2595 section 4. */
const pop3: Dialogue = async (talk) => {
  const ok = async () => {
    const line = await talk.line();
    if (!/^\+OK/i.test(line)) throw refused(line);
  };
  await ok();
  talk.send("STLS\r\n");
  await ok();
};

/** RFC 5804 sections 1.7 and 2.2: the greeting lists capabilities and ends with OK. */
const sieve: Dialogue = async (talk) => {
  const response = async () => {
    const lines = [await talk.line()];
    while (!/^(?:OK|NO|BYE)\b/i.test(lines.at(-1)!)) lines.push(await talk.line());
    if (!/^OK\b/i.test(lines.at(-1)!)) throw refused(lines.at(-1)!);
    return lines;
  };
  const capabilities = await response();
  if (!capabilities.some((line) => /^"STARTTLS"/i.test(line))) throw notOffered();
  talk.send("STARTTLS\r\n");
  await response();
};

/** ExtendedRequest 1.3.6.1.4.1.1466.20037 with message ID 1 (RFC 4511 section 4.14.1). */
const ldapRequest = Buffer.concat([Buffer.from("301d02010177188016", "hex"), Buffer.from("1.3.6.1.4.1.1466.20037")]);
/** https://www.rfc-editor.org/rfc/rfc4511#appendix-A.1 */
const ldapCodes: Readonly<Record<number, string>> = {
  1: "operationsError",
  2: "protocolError",
  8: "strongerAuthRequired",
  51: "busy",
  52: "unavailable",
  53: "unwillingToPerform",
};

const ldap: Dialogue = async (talk) => {
  talk.send(ldapRequest);
  const strange = () => new StartTlsError("the answer to STARTTLS is not LDAP");
  /** The length of an element, definite form of at most 4 bytes (RFC 4511 section 5.1). */
  const length = async (): Promise<number> => {
    const [first = 0] = await talk.bytes(1);
    return first < 128 ? first : (await talk.bytes(Math.min(first - 128, 4))).readUIntBE(0, Math.min(first - 128, 4));
  };
  if ((await talk.bytes(1))[0] !== 0x30) throw strange();
  const size = await length();
  if (size > 16_384) throw strange();
  const message = await talk.bytes(size);
  // Message ID 1, ExtendedResponse with a length in short or long form, and an ENUMERATED result code of one byte.
  const at = 5 + ((message[4] ?? 0) > 128 ? message[4]! - 128 : 0);
  const result = message[at + 2];
  const frame = `${message.toString("hex", 0, 4)} ${message.toString("hex", at, at + 2)}`;
  if (frame !== "02010178 0a01" || result === undefined) throw strange();
  if (result === 2) throw notOffered();
  if (result !== 0) throw refused(ldapCodes[result] ?? `result code ${result}`);
};

/** SSLRequest: https://www.postgresql.org/docs/current/protocol-message-formats.html */
const postgres: Dialogue = async (talk) => {
  talk.send(Buffer.from("0000000804d2162f", "hex"));
  const [answer] = await talk.bytes(1);
  if (answer === 0x4e) throw notOffered();
  if (answer !== 0x53) throw new StartTlsError("the answer to SSLRequest is not PostgreSQL");
};

/**
 * Protocol::SSLRequest after the server's handshake packet:
 * https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase.html
 */
const mysql: Dialogue = async (talk) => {
  const strange = () => new StartTlsError("the greeting is not MySQL");
  const size = (await talk.bytes(4)).readUIntLE(0, 3);
  if (size > 16_384) throw strange();
  const greeting = await talk.bytes(size);
  if (greeting[0] === 0xff) throw refused(greeting.toString("latin1", 3).replace(/^#...../, ""));
  // Version 10: the server's version up to a zero byte, 4 + 8 + 1 bytes, and the lower half of the capabilities.
  const at = greeting.indexOf(0, 1) + 14;
  if (greeting[0] !== 10 || at < 14 || greeting.length < at + 2) throw strange();
  const clientSsl = 0x800;
  if ((greeting.readUInt16LE(at) & clientSsl) === 0) throw notOffered();
  const request = Buffer.alloc(36);
  request.writeUIntLE(32, 0, 3);
  request[3] = 1;
  // With CLIENT_PROTOCOL_41 and CLIENT_SECURE_CONNECTION; largest packet 16 MiB, character set utf8.
  request.writeUInt32LE(0x200 | clientSsl | 0x8000, 4);
  request.writeUInt32LE(1 << 24, 8);
  request[12] = 33;
  talk.send(request);
};

/** RFC 6120 section 5; port 5269 is that between servers. */
const xmpp: Dialogue = async (talk, { host, port }) => {
  talk.send(
    `<?xml version='1.0'?><stream:stream to='${host}' xmlns='jabber:${port === 5269 ? "server" : "client"}' ` +
      "xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>",
  );
  const features = await talk.until(/<\/stream:features\s*>|<stream:features\s*\/>|<stream:error\b|<\/stream:stream/);
  if (/<stream:error$|<\/stream:stream$/.test(features)) throw refused(`<stream:error${talk.rest()}`);
  if (!/<starttls\b/.test(features)) throw notOffered();
  talk.send("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
  const answer = await talk.until(/<proceed\b[^>]*>(?:\s*<\/proceed\s*>)?|<failure\b[^>]*>|<stream:error\b[^>]*>/);
  if (!answer.includes("<proceed")) throw refused(answer.trim() + talk.rest());
};

const dialogues: Readonly<Record<StartTlsProtocol, Dialogue>> = {
  smtp,
  imap,
  pop3,
  ftp,
  ldap,
  postgres,
  mysql,
  xmpp,
  sieve,
};
