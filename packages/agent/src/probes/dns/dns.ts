import { askedName, type DnsCheck, nameServer } from "@statusmesh/shared/checks/dns";
import { DialError, wordsFor } from "@statusmesh/shared/net/dial-error";
import { insideName } from "@statusmesh/shared/net/inside-name";
import { resolveGuarded } from "@statusmesh/shared/net/resolve-guarded";
import { judge } from "./answers.ts";
import { ask, ownServers, QueryError, type Server } from "./query.ts";
import { down, oncePer, type Probe, type ProbeContext, type Verdict } from "../probe.ts";

const questionOf = oncePer((spec: DnsCheck) => ({ name: askedName(spec), server: nameServer(spec) }));

/** Addresses of a name server that are asked, of those that its name has. */
const maxServers = 4;

/** One question to a name server, judged by its answers. */
export const dns: Probe<DnsCheck> = {
  timeoutStatus: "error",
  answersForOthers: true,
  transport: "udp",
  async run(spec, context) {
    const { signal, trace, allowPrivate } = context;
    const { name, server } = questionOf(spec);
    const isMasked = server === null && !allowPrivate;
    const inside = isMasked ? insideName(name) : null;
    if (inside !== null) throw new DialError("guard", `${name} is not a name of the public DNS (${inside})`, "BLOCKED");
    const servers = server === null ? ownServers() : await serversOf(server, spec, context);
    const asked = server === null ? "the agent's name server" : `the name server ${spec.resolver}`;
    trace.overdue = `no answer from ${asked} within`;
    const started = performance.now();
    try {
      const onTruncated = (): void => {
        trace.overdue = `${asked} sent a truncated answer, and none over TCP within`;
      };
      const reply = await ask(servers, { name, type: spec.record_type }, signal, { onTruncated });
      // A reply with an error code is a reply: its time counts.
      trace.dns_ms = performance.now() - started;
      return judge(spec, name, reply, isMasked);
    } catch (error) {
      if (!(error instanceof QueryError)) throw error;
      return failure(spec, asked, error);
    }
  },
};

/** The addresses of the name server, past the guard. */
async function serversOf(
  { host, port }: { host: string; port: number },
  { resolver, ip_version: ipVersion }: DnsCheck,
  { signal, trace, allowPrivate, lookup }: ProbeContext,
): Promise<Server[]> {
  try {
    const found = await resolveGuarded({ host, allowPrivate, ipVersion, signal, lookup, trace });
    trace.dns_ms = null;
    return found.slice(0, maxServers).map((address) => ({ address, port }));
  } catch (error) {
    if (!(error instanceof DialError) || error.phase !== "dns") throw error;
    throw new DialError(error.phase, `the name server ${resolver}: ${error.message}`, error.code, error);
  }
}

function failure(spec: DnsCheck, asked: string, error: QueryError): Verdict {
  // The system resolver is not part of the check: its failure is no evidence about the name.
  const isOwn = spec.resolver === null;
  if (error.code === "ENOSERVER" || (isOwn && error.code === "ECONNREFUSED" && !error.overTcp))
    return { status: "error", error: "the agent's machine has no name server that answers", skip: true };
  if (error.code === "EBADRESP") return down("the name server sent a malformed answer");
  const why = wordsFor(error);
  if (error.overTcp) {
    const words = `${asked} sent a truncated answer, and TCP port ${nameServer(spec)?.port ?? 53} failed: ${why}`;
    return isOwn ? { status: "error", error: words, skip: true } : down(words);
  }
  const { local } = new DialError("connect", why, error.code);
  if (local || isOwn) return { status: "error", error: why, skip: true };
  return { ...down(`nothing answers at ${asked}: ${why}`), transportFailed: true };
}
