import { askedName, type DnsCheck, nameServer, type RecordType } from "@statusmesh/shared/checks/dns";
import { blockedRange } from "@statusmesh/shared/net/address";
import { insideName, withoutInside } from "@statusmesh/shared/net/inside-name";
import { DialError, wordsFor } from "@statusmesh/shared/net/dial-error";
import { codeOf } from "@statusmesh/shared/thrown";
import { ask } from "./dns-query.ts";
import { rareReturnCode } from "./dns-return-code.ts";
import { down, oncePer, type Probe, up, type Verdict } from "./probe.ts";

const questionOf = oncePer((spec: DnsCheck) => ({ name: askedName(spec), server: nameServer(spec) }));

/** One question to a name server, judged by its answers. */
export const dns: Probe<DnsCheck> = {
  timeoutStatus: "error",
  answersForOthers: true,
  async run(spec, { signal, trace, allowPrivate }) {
    const { name, server } = questionOf(spec);
    const range = server === null || allowPrivate ? null : blockedRange(server.address);
    if (server !== null && range !== null)
      throw new DialError("guard", `address ${server.address} is blocked (${range})`, "BLOCKED");
    const isMasked = server === null && !allowPrivate;
    const inside = isMasked ? insideName(name) : null;
    if (inside !== null) throw new DialError("guard", `${name} is not a name of the public DNS (${inside})`, "BLOCKED");
    const asked = server === null ? "the agent's name server" : `the name server ${spec.resolver}`;
    trace.overdue = `no answer from ${asked} within`;
    const started = performance.now();
    try {
      const answers = await ask(server, name, spec.record_type, signal);
      trace.dns_ms = performance.now() - started;
      return isMasked ? judgeMasked(spec, answers) : judge(spec, name, answers);
    } catch (error) {
      if (signal.aborted) throw error;
      // A reply with an error code is a reply: its time counts.
      if (refusals.has(codeOf(error))) trace.dns_ms = performance.now() - started;
      if (codeOf(error) === "ENODATA") {
        trace.verdict = failure(spec, name, error);
        const rare = await rareReturnCode(server, name, spec.record_type, signal);
        if (rare !== null) return down(`the name server did not resolve ${name} (${rare})`);
      }
      return failure(spec, name, error);
    }
  },
};

/** What the replies with an error code say, by the code of the resolver. */
const refusals: ReadonlyMap<string, (name: string, type: RecordType) => string> = new Map([
  ["ENOTFOUND", (name: string) => `${name} does not exist (NXDOMAIN)`],
  ["ENODATA", noRecord],
  ["ESERVFAIL", (name: string) => `the name server failed to resolve ${name} (SERVFAIL)`],
  ["EREFUSED", (name: string) => `the name server refused to resolve ${name} (REFUSED)`],
  ["ENOTIMP", (_: string, type: RecordType) => `the name server does not answer questions for ${type} (NOTIMP)`],
  ["EFORMERR", (name: string) => `the name server reported a format error for ${name} (FORMERR)`],
  ["EBADRESP", () => "the name server sent a malformed answer"],
]);

/**
 * The verdict of a query that the operator's own resolver answers for another tenant. Internal addresses are removed
 * before the expected text is compared: a match would disclose as much as the listed answer.
 */
export const judgeMasked = (spec: DnsCheck, answers: readonly string[]): Verdict =>
  judge(
    spec,
    askedName(spec),
    answers.map((answer) => withoutInside(answer, pointers.has(spec.record_type))),
  );

/** Record types whose fields are names and numbers. */
const pointers: ReadonlySet<RecordType> = new Set<RecordType>(["CNAME", "MX", "NS", "SOA", "PTR", "SRV"]);

function judge(
  { expected_contains: expected, record_type }: DnsCheck,
  name: string,
  answers: readonly string[],
): Verdict {
  if (answers.length === 0) return down(noRecord(name, record_type));
  if (expected === null || answers.some((answer) => contains(answer, expected, record_type))) return up;
  return down(`no ${record_type} record of ${name} contains "${shortened(expected)}"; found: ${listed(answers)}`);
}

/**
 * Names and addresses are compared without case and final dot, TXT records exactly.
 */
function contains(answer: string, expected: string, type: RecordType): boolean {
  if (answer.includes(expected)) return true;
  if (type === "TXT") return false;
  const wanted = expected.toLowerCase().replace(/(?<=[a-z0-9])\.$/, "");
  return answer.toLowerCase().includes(wanted);
}

function noRecord(name: string, type: RecordType): string {
  return `${name} has no ${type} record`;
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

function failure(spec: DnsCheck, name: string, error: unknown): Verdict {
  const code = codeOf(error);
  const refusal = refusals.get(code);
  if (refusal !== undefined) return down(refusal(name, spec.record_type));
  if (code !== "ECONNREFUSED") return { status: "error", error: wordsFor(error) };
  // The system resolver is not part of the check: its failure is no evidence about the name.
  if (spec.resolver === null)
    return { status: "error", error: "the agent's machine has no name server that answers", skip: true };
  return {
    ...down(`nothing answers at the name server ${spec.resolver}: connection refused`),
    transportFailed: true,
  };
}
