import { isIP, SocketAddress } from "node:net";
import { domainToASCII } from "node:url";
import type { DnsCheck, RecordType } from "@statusmesh/shared/checks/dns";
import { withoutInside } from "@statusmesh/shared/net/inside-name";
import { decoded, type Reply } from "./message.ts";
import { down, up, type Verdict } from "../probe.ts";

/** What the return codes that are no success say. */
const refusals: Readonly<Record<string, (name: string, type: RecordType) => string>> = {
  NXDOMAIN: (name) => `${name} does not exist (NXDOMAIN)`,
  NODATA: noRecord,
  SERVFAIL: (name) => `the name server failed to resolve ${name} (SERVFAIL)`,
  REFUSED: (name) => `the name server refused to resolve ${name} (REFUSED)`,
  NOTIMP: (_, type) => `the name server does not answer questions for ${type} (NOTIMP)`,
  FORMERR: (name) => `the name server reported a format error for ${name} (FORMERR)`,
};

const known = new Set(["NXDOMAIN", "NODATA", "SERVFAIL", "REFUSED"]);

/** What the resolver said. */
const diagnosisOf = (code: string): string | null => (known.has(code) ? `dns::${code.toLowerCase()}` : null);

function noRecord(name: string, type: RecordType): string {
  return `${name} has no ${type} record`;
}

/**
 * The verdict on an answer. `isMasked`: the operator's own resolver answers another tenant. Internal addresses are
 * removed before anything is compared: a match would disclose as much as the listed answer.
 */
export function judge(spec: DnsCheck, name: string, { rcode, records }: Reply, isMasked: boolean): Verdict {
  const { record_type: type, expected_rcode: wanted = null, expected_contains: part } = spec;
  const { expected_exactly: exact = [], expected_absent: absent = [] } = spec;
  const code = rcode === "NOERROR" && records.length === 0 ? "NODATA" : rcode;
  const answers = isMasked ? records.map((record) => masked(record, type)) : records;
  if (wanted !== null && code !== wanted) {
    const found = code === "NOERROR" ? `it has ${listed(answers)}` : (refusals[code]?.(name, type) ?? code);
    return { ...down(`expected ${wanted} for ${name}: ${found}`), diagnosis: diagnosisOf(code) };
  }
  if (wanted !== null && code !== "NOERROR") return up;
  if (code !== "NOERROR") {
    const isAbsent = code === "NXDOMAIN" || code === "NODATA";
    if (isAbsent && absent.length > 0 && part === null && exact.length === 0) return up;
    const error = refusals[code]?.(name, type) ?? `the name server did not resolve ${name} (${code})`;
    return { ...down(error), diagnosis: diagnosisOf(code) };
  }
  return (
    (part === null ? null : judgePart(part, name, type, answers)) ??
    (exact.length === 0 ? null : judgeSet(exact, name, type, answers)) ??
    judgeAbsence(absent, name, type, { records, answers }) ??
    up
  );
}

function judgePart(part: string, name: string, type: RecordType, answers: readonly string[]): Verdict | null {
  if (answers.some((answer) => contains(answer, part, type))) return null;
  return down(`no ${type} record of ${name} contains "${shortened(part)}"; found: ${listed(answers)}`);
}

function judgeSet(
  wanted: readonly string[],
  name: string,
  type: RecordType,
  answers: readonly string[],
): Verdict | null {
  const missing = wanted.filter((one) => !answers.some((answer) => isSame(answer, one, type)));
  const unexpected = answers.filter((answer) => !wanted.some((one) => isSame(answer, one, type)));
  if (missing.length === 0 && unexpected.length === 0) return null;
  const parts = [
    ...(missing.length === 0 ? [] : [`missing: ${listed(missing)}`]),
    ...(unexpected.length === 0 ? [] : [`not expected: ${listed(unexpected)}`]),
  ];
  return down(`the ${type} records of ${name} are other ones; ${parts.join("; ")}`);
}

function judgeAbsence(
  absent: readonly string[],
  name: string,
  type: RecordType,
  { records, answers }: { records: readonly string[]; answers: readonly string[] },
): Verdict | null {
  for (const one of absent) {
    const found = answers.find((answer) => contains(answer, one, type));
    if (found !== undefined)
      return down(
        `the ${type} records of ${name} contain "${shortened(one)}", which is expected to be absent: ${found}`,
      );
  }
  // What was hidden was not compared, so its absence is not shown.
  if (absent.length > 0 && answers.some((answer, at) => answer !== records[at]))
    return { status: "error", error: `an answer for ${name} is private and not compared with what must be absent` };
  return null;
}

/** Record types whose fields are names and numbers. */
const pointers: ReadonlySet<RecordType> = new Set<RecordType>(["CNAME", "MX", "NS", "SOA", "PTR", "SRV"]);

const masked = (record: string, type: RecordType): string => withoutInside(record, pointers.has(type));

/**
 * Whether an answer contains a text: an address is compared as an address, names in any case and with or without their
 * final dot (a text with it ends where the name does), TXT as it is or as zone files quote it.
 */
function contains(answer: string, text: string, type: RecordType): boolean {
  if (type === "TXT") return answer.includes(text) || (unquoted(text) !== null && answer.includes(unquoted(text)!));
  const wanted = normal(text, type);
  if (type === "A" || type === "AAAA") return isIP(wanted) === 0 ? answer.includes(wanted) : answer === wanted;
  const end = pointers.has(type) && /[^\s.]\.\s*$/.test(text) ? " " : "";
  return `${normal(answer, type)} `.includes(wanted + end);
}

/** Whether an answer is what a text says, whatever its spelling. */
function isSame(answer: string, text: string, type: RecordType): boolean {
  if (type === "TXT") return answer === text || answer === unquoted(text);
  return normal(answer, type) === normal(text, type);
}

/** One spelling of a record: addresses as resolvers write them, names in lower-case ASCII without their final dot. */
function normal(text: string, type: RecordType): string {
  const bare = text.trim();
  const family = isIP(bare);
  if (family === 4) return bare;
  if (family === 6 && !bare.includes("%")) return new SocketAddress({ address: bare, family: "ipv6" }).address;
  const lower = bare.replaceAll(/\s+/g, " ").toLowerCase();
  if (!pointers.has(type)) return lower;
  return lower
    .split(" ")
    .map((word) => word.replace(/(?<=[^.])\.$/, ""))
    .map((word) => (/^[\x21-\x7e]*$/.test(word) ? word : domainToASCII(word) || word))
    .join(" ");
}

/** The text in `"quoted" "strings"` of a zone file (RFC 1035 section 5.1); null for a text without quotation marks. */
function unquoted(text: string): string | null {
  const trimmed = text.trim();
  if (!/^"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*$/s.test(trimmed)) return null;
  const bytes = [...trimmed.matchAll(/"((?:[^"\\]|\\.)*)"/gs)].flatMap(([, quoted = ""]) =>
    [...quoted.matchAll(/\\(\d{3})|\\(.)|([^\\]+)/gs)].map(([, code, escaped, plain]) =>
      code === undefined ? Buffer.from(escaped ?? plain!) : Buffer.from([Number(code) & 255]),
    ),
  );
  return decoded(Buffer.concat(bytes));
}

const shortened = (text: string, length = 200): string => (text.length > length ? `${text.slice(0, length)}…` : text);

const maxListed = 20;
/** Leaves room for the rest of the message in an error of 2,000 characters. */
const maxListLength = 1200;

function listed(answers: readonly string[]): string {
  const shown = answers.slice(0, maxListed).map((answer) => shortened(answer, 300));
  while (shown.length > 1 && shown.join(", ").length > maxListLength) shown.pop();
  const more = answers.length - shown.length;
  return `${shown.join(", ")}${more === 0 ? "" : ` and ${more} more`}`;
}
