import { createHash } from "node:crypto";
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

/** The last cycle of a process: one that finds the same asks whether its document is still applied. */
export interface CycleMemory {
  last: { digest: string; outcome: Outcome } | null;
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
  memory: CycleMemory = { last: null },
): Promise<Outcome> {
  const { project } = source;
  const { writer, graceSecs, maxDelete, isDryRun } = options;
  const { all, seen, remarks } = await source.read(signal);
  const findings = declare(all, options);
  findings.wrong.push(...remarks);
  const request = { project, max_delete: maxDelete, source: { writer, grace_secs: graceSecs, seen } };
  const digest = digestOf(source, findings, request);
  const report = async (outcome: Outcome, more: Json): Promise<Json> =>
    await api.post(
      "/api/v1/config/source",
      { ...reportOf(source, writer, { ...outcome, error: null }), ...more },
      signal,
    );
  const { last } = memory;
  if (!isDryRun && last?.digest === digest) {
    const { unchanged: before, ...outcome } = unchangedOf(last.outcome, all.length);
    const { current } = await report(outcome, { applied: { digest, objects: before }, unchanged: true });
    if (current === true) return outcome;
  }
  memory.last = null;
  const plan = await planned(source, api, findings, signal, isDryRun ? "plan" : "apply", request);
  const { wrong, ignored, wanted } = findings;
  const { summary, changes, warnings } = plan as unknown as Pick<Outcome, "summary" | "changes" | "warnings">;
  const outcome = { objects: all.length, monitors: wanted.size, summary, changes, warnings, wrong, ignored };
  if (isDryRun) return outcome;
  const objects = objectsAfter(summary);
  await report(outcome, { applied: { digest, objects } });
  memory.last = { digest, outcome };
  return outcome;
}

/** Monitors of the project after an apply. */
const objectsAfter = ({ delete: _, drift: _drift, ...others }: Outcome["summary"]): number =>
  Object.values(others).reduce((sum, count) => sum + count, 0);

/** The outcome of a cycle that changes nothing, after one with this outcome. */
function unchangedOf({ summary, ...others }: Outcome, objects: number): Outcome & { unchanged: number } {
  const unchanged = objectsAfter(summary);
  return { ...others, objects, summary: { unchanged }, changes: [], unchanged };
}

/** A digest of all that decides about the plan. */
function digestOf(source: Source, { wanted, wrong, kept }: Findings, request: Json): string {
  const hash = createHash("sha256").update(JSON.stringify([request, [...kept], wrong]));
  for (const { key, json, found } of wanted.values())
    hash.update(JSON.stringify([key, json, source.words, found.words, found.scope]));
  return hash.digest("base64url");
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

/** Plans or applies what is found, without the objects that the server refuses. */
async function planned(
  source: Source,
  api: ControlPlane,
  findings: Findings,
  signal: AbortSignal,
  action: "plan" | "apply",
  request: { source: Json } & Json,
): Promise<Json> {
  const refused = new Map<Found, number>();
  for (let tries = 1; ; tries++) {
    const of = { ...request, source: { ...request.source, kept: [...findings.kept].slice(0, mostKept) } };
    const body = `${JSON.stringify(of).slice(0, -1)},"document":${documentOf(source, findings)}}`;
    try {
      return await api.post(`/api/v1/config/${action}`, body, signal);
    } catch (error) {
      if (!(error instanceof ApiRefusal) || tries === mostPlans || !leaveOut(findings, error, refused)) throw error;
    }
  }
}

/** The document as JSON. Members that are left out are no members of a group. */
function documentOf({ project, words }: Source, { wanted }: Findings): string {
  const withMembers = (fields: Json): string => {
    const check = asObject(fields["check"]);
    const members = (check["members"] as unknown[]).filter((one) => wanted.has(String(asObject(one)["monitor"])));
    return JSON.stringify({ ...fields, check: { ...check, members } });
  };
  const monitors = [...wanted.values()].map((one) => {
    const source = { object: `${words}, ${one.found.words}`.slice(0, 300), scope: one.found.scope };
    const json = one.members === null ? one.json : withMembers(one.fields);
    return `${JSON.stringify(one.key)}:${json.slice(0, -1)},"source":${JSON.stringify(source)}}`;
  });
  return `{"version":1,"project":${JSON.stringify(project)},"monitors":{${monitors.join(",")}}}`;
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
