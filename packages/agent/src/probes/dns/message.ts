import { SocketAddress } from "node:net";
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
const optType = 41;
const internetClass = 1;
/** UDP payload that is accepted (https://www.dnsflagday.net/2020/). */
const payloadSize = 1232;

/** Return codes (IANA DNS RCODEs). */
const rcodeNames: Readonly<Record<number, string>> = {
  0: "NOERROR",
  1: "FORMERR",
  2: "SERVFAIL",
  3: "NXDOMAIN",
  4: "NOTIMP",
  5: "REFUSED",
  6: "YXDOMAIN",
  7: "YXRRSET",
  8: "NXRRSET",
  9: "NOTAUTH",
  10: "NOTZONE",
  11: "DSOTYPENI",
  16: "BADVERS",
};

export interface Question {
  /** In lower-case ASCII, without a final dot. */
  name: string;
  type: RecordType;
}

/** What a name server answered to a question. */
export interface Reply {
  /** Name of the return code: `NXDOMAIN`. */
  rcode: string;
  /** True when records are missing, which TCP has. */
  truncated: boolean;
  /** The records as zone files have them (RFC 1035 section 5.1), names without their final dot, TXT as its text. */
  records: string[];
}

/** A message that cannot be read. */
export class MalformedMessage extends Error {}

/** A question with recursion desired. `extended` allows answers of 1,232 bytes over UDP (EDNS, RFC 6891). */
export function encodeQuestion(id: number, { name, type }: Question, extended: boolean): Buffer {
  const message = Buffer.alloc(12 + name.length + 6 + (extended ? 11 : 0));
  message.writeUInt16BE(id, 0);
  message.writeUInt16BE(0x0100, 2);
  message.writeUInt16BE(1, 4);
  message.writeUInt16BE(extended ? 1 : 0, 10);
  let at = 12;
  for (const label of name.split(".")) {
    message.writeUInt8(label.length, at);
    at += 1 + message.write(label, at + 1, "latin1");
  }
  message.writeUInt16BE(typeNumbers[type], at + 1);
  message.writeUInt16BE(internetClass, at + 3);
  if (!extended) return message;
  message.writeUInt16BE(optType, at + 6);
  message.writeUInt16BE(payloadSize, at + 8);
  return message;
}

/** Reads the answer to a question; null for a message about something else. Throws {@link MalformedMessage}. */
export function readReply(message: Buffer, id: number, question: Question): Reply | null {
  try {
    return read(message, id, question);
  } catch (error) {
    if (error instanceof RangeError) throw new MalformedMessage("it ends too early", { cause: error });
    throw error;
  }
}

function read(message: Buffer, id: number, { name, type }: Question): Reply | null {
  const flags = message.readUInt16BE(2);
  if ((flags & 0x8000) === 0) throw new MalformedMessage("it is no response");
  const questions = message.readUInt16BE(4);
  const answers = message.readUInt16BE(6);
  const others = message.readUInt16BE(8) + message.readUInt16BE(10);
  const asked = message.readUInt16BE(0) === id;
  const truncated = (flags & 0x0200) !== 0;
  // Servers that cannot read a question answer with the head alone, whatever it counts.
  if (message.length === 12 && (flags & 15) !== 0)
    return asked ? { rcode: rcodeNames[flags & 15] ?? `RCODE ${flags & 15}`, truncated, records: [] } : null;
  let at = 12;
  let isOurs = questions === 0;
  for (let left = questions; left > 0; left--) {
    const found = readName(message, at);
    const number = message.readUInt16BE(found.end);
    isOurs ||= number === typeNumbers[type] && found.name.toLowerCase() === escaped(name);
    at = found.end + 4;
  }
  let code = flags & 15;
  const records: Entry[] = [];
  // The rest of a truncated message may end anywhere.
  for (let left = truncated ? 0 : answers + others; left > 0; left--) {
    const record = readRecord(message, at);
    at = record.end;
    if (record.number === optType) code |= record.extendedCode << 4;
    else if (left > others) records.push(record);
  }
  // A server that cannot read the question may leave it out; answers always repeat it (RFC 1035 section 4.1.2).
  if (!asked || !isOurs || (questions === 0 && code === 0 && !truncated)) return null;
  return {
    rcode: rcodeNames[code] ?? `RCODE ${code}`,
    truncated,
    records: answering(message, records, { name, type }),
  };
}

interface Entry {
  owner: string;
  number: number;
  class: number;
  /** Upper bits of the return code, of an OPT record (RFC 6891 section 6.1.3). */
  extendedCode: number;
  start: number;
  end: number;
}

function readRecord(message: Buffer, at: number): Entry {
  const { name: owner, end } = readName(message, at);
  const start = end + 10;
  const length = message.readUInt16BE(end + 8);
  if (start + length > message.length) throw new MalformedMessage("a record ends too late");
  return {
    owner: owner.toLowerCase(),
    number: message.readUInt16BE(end),
    class: message.readUInt16BE(end + 2),
    extendedCode: message.readUInt8(end + 4),
    start,
    end: start + length,
  };
}

/** The records of the asked name, or of a name that CNAME records lead to from it. */
function answering(message: Buffer, records: readonly Entry[], { name, type }: Question): string[] {
  const inClass = records.filter((record) => record.class === internetClass);
  const aliases = new Map(
    inClass
      .filter(({ number }) => number === typeNumbers.CNAME)
      .map(({ owner, start }) => [owner, readName(message, start).name.toLowerCase()]),
  );
  const owners = new Set<string>();
  for (let owner: string | undefined = escaped(name); owner !== undefined && !owners.has(owner);) {
    owners.add(owner);
    owner = type === "CNAME" ? undefined : aliases.get(owner);
  }
  return inClass
    .filter(({ number, owner }) => number === typeNumbers[type] && owners.has(owner))
    .map((record) => texts[type](message, record.start, record.end));
}

/** The name of a question as {@link readName} writes it. */
const escaped = (name: string): string => (name === "" ? "." : name);

/** Reads a name, with pointers to earlier ones (RFC 1035 section 4.1.4), and where it ends. The root is the dot. */
function readName(message: Buffer, at: number): { name: string; end: number } {
  const labels: string[] = [];
  let end: number | null = null;
  let length = 0;
  let limit = at;
  for (let next = at; ;) {
    const size = message.readUInt8(next);
    if (size === 0) return { name: labels.length === 0 ? "." : labels.join("."), end: end ?? next + 1 };
    if (size >= 0xc0) {
      end ??= next + 2;
      next = message.readUInt16BE(next) & 0x3fff;
      // Pointers lead backwards only, so they end.
      if (next >= limit) throw new MalformedMessage("a pointer does not lead backwards");
      limit = next;
      continue;
    }
    if (size > 63) throw new MalformedMessage("a label of an unknown kind");
    length += size + 1;
    if (length > 254 || next + 1 + size > message.length) throw new MalformedMessage("a name is too long");
    labels.push(labelText(message.toString("latin1", next + 1, next + 1 + size)));
    next += size + 1;
  }
}

/** A label with the escapes of RFC 1035 section 5.1: a dot in it is no separator. */
function labelText(text: string): string {
  if (/^[\w*-]+$/.test(text)) return text;
  return text
    .replaceAll(/[.\\"();@$]/g, String.raw`\$&`)
    .replaceAll(/[^\x21-\x7e]/g, (byte) => `\\${String(byte.charCodeAt(0)).padStart(3, "0")}`);
}

type Text = (message: Buffer, at: number, end: number) => string;

/** A record of numbers of 16 bits and one name. */
const pointer =
  (numbers: number): Text =>
  (message, at) =>
    [
      ...Array.from({ length: numbers }, (_, index) => message.readUInt16BE(at + 2 * index)),
      readName(message, at + 2 * numbers).name,
    ].join(" ");

/** UTF-8 where the bytes are valid, else latin1. */
export function decoded(bytes: Buffer): string {
  const text = bytes.toString("utf8");
  return text.includes("\ufffd") && !Buffer.from(text, "utf8").equals(bytes) ? bytes.toString("latin1") : text;
}

const texts: { readonly [T in RecordType]: Text } = {
  A: (message, at, end) => [...exactly(message, at, end, 4)].join("."),
  AAAA(message, at, end) {
    const groups = exactly(message, at, end, 16).toString("hex").match(/.{4}/g)!.join(":");
    return new SocketAddress({ address: groups, family: "ipv6" }).address;
  },
  CNAME: pointer(0),
  NS: pointer(0),
  PTR: pointer(0),
  MX: pointer(1),
  SRV: pointer(3),
  SOA(message, at) {
    const server = readName(message, at);
    const mailbox = readName(message, server.end);
    const numbers = Array.from({ length: 5 }, (_, index) => message.readUInt32BE(mailbox.end + 4 * index));
    return [server.name, mailbox.name, ...numbers].join(" ");
  },
  TXT(message, at, end) {
    const strings: Buffer[] = [];
    for (let next = at; next < end; next += 1 + message.readUInt8(next)) {
      const last = next + 1 + message.readUInt8(next);
      if (last > end) throw new MalformedMessage("a text is too long");
      strings.push(message.subarray(next + 1, last));
    }
    return decoded(Buffer.concat(strings));
  },
  CAA(message, at, end) {
    const size = message.readUInt8(at + 1);
    if (at + 2 + size > end) throw new MalformedMessage("a tag is too long");
    const tag = message.toString("latin1", at + 2, at + 2 + size);
    const value = decoded(message.subarray(at + 2 + size, end)).replaceAll(/["\\]/g, String.raw`\$&`);
    return `${message.readUInt8(at)} ${tag} "${value}"`;
  },
};

function exactly(message: Buffer, at: number, end: number, size: number): Buffer {
  if (end - at !== size) throw new MalformedMessage(`an address has ${end - at} bytes`);
  return message.subarray(at, end);
}
