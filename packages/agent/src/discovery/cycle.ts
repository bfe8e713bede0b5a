import { asObject, type Json } from "@statusmesh/shared/json";
import { declare, type Dialects } from "./declare.ts";
import { ApiRefusal, type ControlPlane } from "./control-plane.ts";
import type { Findings, Found, Remark } from "./found.ts";
import type { Source } from "./source.ts";

export interface CycleOptions extends Dialects {
  readonly writer: string;
  readonly graceSecs: number;
  readonly maxDelete: number | null;
  readonly isDryRun: boolean;
}

/** What a cycle did, or would do. */
export interface Outcome {
  readonly objects: number;
  readonly monitors: number;
  readonly summary: Readonly<Record<string, number>>;
  readonly changes: readonly Json[];
  readonly warnings: readonly string[];
  readonly wrong: readonly Remark[];
  readonly ignored: readonly Remark[];
}

/** Refused plans after which wrong objects are no longer looked for. Each names up to 100. */
const mostPlans = 60;
/** Refused monitors of an object after which it is left out as a whole. */
const mostRefused = 20;
/** Keys of a request whose monitors are not gone. */
const mostKept = 20_000;
/** Remarks of a report. */
const mostRemarks = 100;

/**
 * Reads the source, and declares what it has as the project of the source. Wrong objects are left out, and their
 * monitors stay. Rejects with a SourceError, an ApiRefusal, or the error of the connection.
 */
export async function runCycle(
  source: Source,
  api: ControlPlane,
  options: CycleOptions,
  signal: AbortSignal,
): Promise<Outcome> {
  const { project } = source;
  const { writer, graceSecs, maxDelete, isDryRun } = options;
  const { all, seen, remarks } = await source.read(signal);
  const findings = declare(all, options);
  findings.wrong.push(...remarks);
  const { body, plan } = await planned(source, api, findings, signal, {
    project,
    max_delete: maxDelete,
    source: { writer, grace_secs: graceSecs, seen },
  });
  if (!isDryRun) {
    const { document, source: of } = body;
    await api.post("/api/v1/config/apply", { project, document, source: of, plan_token: plan["plan_token"] }, signal);
  }
  const { wrong, ignored, wanted } = findings;
  const { summary, changes, warnings } = plan as unknown as Pick<Outcome, "summary" | "changes" | "warnings">;
  const outcome = { objects: all.length, monitors: wanted.size, summary, changes, warnings, wrong, ignored };
  if (!isDryRun) await api.post("/api/v1/config/source", reportOf(source, writer, { ...outcome, error: null }), signal);
  return outcome;
}

const reportOf = (
  { project, words: name }: Source,
  writer: string,
  of: Partial<Pick<Outcome, "objects" | "wrong" | "ignored">> & { error: string | null },
): Json => ({
  project,
  writer,
  name,
  objects: of.objects ?? 0,
  error: of.error?.slice(0, 1000) ?? null,
  wrong: (of.wrong ?? []).slice(0, mostRemarks),
  ignored: (of.ignored ?? []).slice(0, mostRemarks),
});

/** Reports that the source cannot be read. */
export async function reportFailure(
  source: Source,
  api: ControlPlane,
  { writer, error }: { writer: string; error: string },
  signal: AbortSignal,
): Promise<void> {
  await api.post("/api/v1/config/source", reportOf(source, writer, { error }), signal);
}

/** Ends the lease, so that another process may go on at once. */
export async function release(source: Source, api: ControlPlane, writer: string, signal: AbortSignal): Promise<void> {
  const { project, words: name } = source;
  await api.post("/api/v1/config/source", { project, writer, name, release: true }, signal);
}

/** The plan of what is found, without the objects that the server refuses. */
async function planned(
  source: Source,
  api: ControlPlane,
  findings: Findings,
  signal: AbortSignal,
  request: { source: Json } & Json,
): Promise<{ body: Json; plan: Json }> {
  const refused = new Map<Found, number>();
  for (let tries = 1; ; tries++) {
    const body = {
      ...request,
      document: documentOf(source, findings),
      source: { ...request.source, kept: [...findings.kept].slice(0, mostKept) },
    };
    try {
      return { body, plan: await api.post("/api/v1/config/plan", body, signal) };
    } catch (error) {
      if (!(error instanceof ApiRefusal) || tries === mostPlans || !leaveOut(findings, error, refused)) throw error;
    }
  }
}

function documentOf({ project, words }: Source, { wanted }: Findings): Json {
  const monitors = Object.create(null) as Json;
  for (const { key, fields, found } of wanted.values()) {
    const check = asObject(fields["check"]);
    const members = check["type"] === "group" && Array.isArray(check["members"]) ? check["members"] : null;
    monitors[key] = {
      ...fields,
      // Members that are left out are no members.
      ...(members === null
        ? {}
        : {
            check: {
              ...check,
              members: members.filter((one) => wanted.has(String(asObject(one)["monitor"]))),
            },
          }),
      source: { object: `${words}, ${found.words}`.slice(0, 300), scope: found.scope },
    };
  }
  return { version: 1, project, monitors };
}

/** Moves what the server refuses to the wrong objects. False where the fault is of no object. */
function leaveOut(findings: Findings, { faults }: ApiRefusal, refused: Map<Found, number>): boolean {
  let hasSome = false;
  for (const { field, message } of faults) {
    const [, segment] = /^\/document\/monitors\/([^/]+)/.exec(field ?? "") ?? [];
    const key = segment?.replaceAll("~1", "/").replaceAll("~0", "~");
    const wanted = key === undefined ? undefined : findings.wanted.get(key);
    if (wanted === undefined) continue;
    hasSome = true;
    findings.wanted.delete(wanted.key);
    const at = field!.split("/").slice(4).join("/");
    const reason = `${wanted.key}${at === "" ? "" : `, ${at}`}: ${message}`;
    const count = (refused.get(wanted.found) ?? 0) + 1;
    refused.set(wanted.found, count);
    findings.refuse(wanted.found, wanted.key, reason);
    if (count === mostRefused)
      findings.leaveOut(wanted.found, `${count} of its monitors are refused, so it is left out; ${reason}`);
  }
  return hasSome;
}
