import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { existsSync, readdirSync } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { hash } from "node:crypto";
import { AppError } from "@statusmesh/shared/errors";
import type { OwnFile } from "@statusmesh/shared/declared/named-files";
import { type Mistake, mistakeLine } from "@statusmesh/shared/declared/position";
import type { ApiFault } from "@statusmesh/shared/declared/project";
import { messageOf, stackOf } from "@statusmesh/shared/thrown";
import { minuteMs } from "@statusmesh/shared/time";
import { ownerOfOrg } from "../../../access/auth/service.ts";
import { actingAsOwner, type System } from "../../../platform/context.ts";
import { failureOf } from "../../../platform/db/client/failures.ts";
import { mapsIn, readMaps } from "../../../platform/http/body/json-maps.ts";
import { fileActor, storeFile } from "../queries.ts";
import type { FileJob, FilesRead } from "./file-thread.ts";
import { maxBytes, PlanRequest } from "../schema.ts";
import { planAndApply } from "../service.ts";

/*
 * declared.path: every replica follows its own copy of the files and applies them at start and on change. Applies of a
 * project exclude each other, and the second one finds nothing left to do. A file that cannot be applied changes
 * nothing: what was applied before stays.
 */

/** Interval between two checks of the files. A change is read once two checks have found the same. */
const lookMs = 1_000;
/** After a failure that the files alone did not cause, the apply is tried again. */
const retryMs = minuteMs;
const maxStale = 5;
/** Of reading, and the memory of the thread: 16 MiB of files take 6 s and 600 MB. */
const readingMs = 60_000;
const readingMb = 1_024;
const loggedMistakes = 20;

export interface FollowedFiles {
  /** Null before the first outcome. */
  isOk(): boolean | null;
  /** Starts no further apply, and waits for the one that has begun. */
  stop(): Promise<void>;
}

/** What became of the files. `retry`: the same files may be applied later. */
type Outcome =
  | { readonly ok: true; readonly applied: boolean; readonly orgId: string }
  | {
      readonly ok: false;
      readonly mistakes: readonly Mistake[];
      readonly orgId: string | null;
      readonly retry: boolean;
    };

/** Follows `declared.path` until it is stopped. `env` has the variables that the files may name. */
export function followFiles(system: System, env: FileJob["env"], everyMs: number = lookMs): FollowedFiles {
  const stopping = new AbortController();
  let ok: boolean | null = null;
  const { path } = system.config.declared;
  let said = "";

  /** Keeps the outcome for all who ask. */
  const settle = async (outcome: Outcome): Promise<true> => {
    ok = outcome.ok;
    const mistakes = outcome.ok ? [] : outcome.mistakes;
    const text = mistakes.slice(0, loggedMistakes).map(mistakeLine).join("\n");
    if (text !== said && text !== "")
      system.log.warn({ path, errors: text.split("\n") }, "declared.path cannot be applied");
    if (text === "" && said !== "") system.log.info({ path }, "declared.path is applied again");
    said = text;
    const [first = null] = mistakes;
    const more = mistakes.length > 1 ? ` (and ${mistakes.length - 1} more: see the log)` : "";
    await storeFile(
      system.sql,
      {
        org_id: outcome.orgId,
        path,
        ok: outcome.ok,
        error: first === null ? null : { ...first, message: first.message + more },
        read_at: new Date(system.clock.now()),
      },
      outcome.ok && outcome.applied,
    );
    return true;
  };

  const follow = async (): Promise<void> => {
    let before = await fingerprintOf(path);
    let done: string | null | undefined;
    let retryAt = Infinity;
    while (!stopping.signal.aborted) {
      const seen = await fingerprintOf(path);
      const isSettled = seen === before;
      before = seen;
      if (isSettled && (seen !== done || performance.now() >= retryAt)) {
        const outcome = await attempt(system, { path, env, seen });
        if (outcome !== "changed") {
          done = seen;
          const stored = await settle(outcome).catch(() => false);
          retryAt =
            stored && (outcome.ok || !outcome.retry) ? Infinity : performance.now() + Math.max(retryMs, everyMs);
        }
      }
      await sleep(everyMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  };
  const following = follow().catch((error: unknown) =>
    system.log.error({ err: stackOf(error) }, "declared.path is not followed any more"),
  );
  return {
    isOk: () => ok,
    async stop() {
      stopping.abort();
      await following;
    },
  };
}

/** Reads and applies the files; `changed` when they are others by now than those that were `seen`. */
async function attempt(
  system: System,
  { path, env, seen }: Pick<FileJob, "path" | "env"> & { seen: string | null },
): Promise<Outcome | "changed"> {
  const { project, org } = system.config.declared;
  const failed = (mistakes: readonly Mistake[], orgId: string | null, retry: boolean): Outcome => ({
    ok: false,
    mistakes,
    orgId,
    retry,
  });
  let orgId: string | null = null;
  const reader = openReader({ path, project, env, refused: ownFiles(env, system.config.data.dir) });
  try {
    const owner = await ownerOfOrg(system, org === "" ? null : org);
    orgId = owner?.orgId ?? null;
    if (owner === null)
      return failed(
        [{ message: org === "" ? "There is no organisation yet." : `There is no organisation ${org} (declared.org).` }],
        null,
        true,
      );
    if (seen === null)
      return failed([{ message: `There is nothing at ${path}. What was applied before stays.` }], orgId, false);
    const { mistakes, body } = await reader.read();
    // A mount that is replaced while it is read gives half of each.
    if ((await fingerprintOf(path)) !== seen) return "changed";
    if (body === null) return failed(mistakes, orgId, false);
    const request = await requestOf(body);
    const ctx = actingAsOwner(system, owner, fileActor);
    const { prune, max_delete: most } = system.config.declared;
    const applied = await unlessStale(() =>
      planAndApply(ctx, { ...request, prune, max_delete: most < 0 ? null : most }),
    );
    if (applied !== null) {
      const { summary, warnings } = applied;
      system.log.info({ path, project: request.project, summary, warnings }, "applied declared.path");
    }
    return { ok: true, applied: applied !== null, orgId: owner.orgId };
  } catch (error) {
    if (error instanceof AppError) return failed(await reader.placesOf(error), orgId, true);
    const failure = failureOf(error);
    if (failure === null) system.log.error({ err: stackOf(error) }, "declared.path could not be applied");
    return failed([{ message: failure === null ? messageOf(error) : "The database cannot be used." }], orgId, true);
  } finally {
    reader.close();
  }
}

/**
 * What declared files must not read: files that settings name, whose text is a secret, and the data folder with the
 * passwords of the database and of the built-in agent. Its entries count too: they may be mounted elsewhere.
 */
function ownFiles(env: FileJob["env"], dataDir: string): OwnFile[] {
  const named = Object.entries(env).flatMap(([name, file]) =>
    /^SM_.+_FILE$/.test(name) && file !== undefined && file !== ""
      ? [{ path: resolve(file), why: `It is the server's own: ${name} names it.` }]
      : [],
  );
  const why = "It is in data.dir, the server's own folder.";
  const entries = existsSync(dataDir) ? readdirSync(dataDir).map((name) => join(dataDir, name)) : [];
  return [...named, ...[dataDir, ...entries].map((path) => ({ path, why }))];
}

/** The request for a plan, parsed in slices. */
async function requestOf(bytes: Uint8Array): Promise<PlanRequest> {
  if (bytes.length > maxBytes)
    throw new AppError(
      "PAYLOAD_TOO_LARGE",
      `The files have more than ${maxBytes / 1_048_576} MiB with their variables.`,
    );
  return (await readMaps(
    Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength),
    PlanRequest,
    mapsIn(PlanRequest)!,
  )) as PlanRequest;
}

/** Repeats what somebody else's write made stale. */
async function unlessStale<T>(apply: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++)
    try {
      return await apply();
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== "PLAN_STALE" || tries === maxStale) throw error;
    }
}

interface Reader {
  read(): Promise<FilesRead>;
  /** Faults of the document with their places in the files. */
  placesOf(error: AppError): Promise<readonly Mistake[]>;
  close(): void;
}

/** A thread for one reading of the files. It has neither the settings of the server nor its memory. */
function openReader(job: FileJob): Reader {
  let thread: Worker | null = null;
  const start = (): Worker => {
    thread = new Worker(new URL("./file-thread.js", import.meta.url), {
      workerData: job,
      resourceLimits: { maxOldGenerationSizeMb: readingMb },
      execArgv: [],
      env: {},
    });
    // An error between two answers is of no interest.
    thread.on("error", () => {});
    return thread;
  };
  const answer = async (open: Worker): Promise<FilesRead> => {
    const late = AbortSignal.timeout(readingMs);
    try {
      // Rejects when the thread fails, out of memory or by a defect.
      const [read] = (await once(open, "message", { signal: late })) as [FilesRead];
      return read;
    } catch (error) {
      throw new Error(
        late.aborted ? "Reading the files takes too long." : `The files cannot be read: ${messageOf(error)}.`,
        { cause: error },
      );
    }
  };
  return {
    read: () => answer(start()),
    async placesOf({ code, field, message, details }) {
      const faults = details?.["errors"] ?? ([{ code, field, message }] satisfies ApiFault[]);
      if (thread === null) return [{ message }];
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      thread.postMessage(faults);
      const read = await answer(thread).catch(() => null);
      return read?.mistakes ?? [{ message }];
    },
    close: () => void thread?.terminate(),
  };
}

const maxFolders = 32;
const maxEntries = 20_000;

/**
 * Digest of the files at or below a path: it differs once one is changed, replaced, added or removed. Null when there
 * is nothing at the path. Links are followed: Kubernetes replaces the link `..data` of a mount, and with it every file.
 * Polled, because neither that nor a network file system reports every change.
 */
async function fingerprintOf(path: string): Promise<string | null> {
  const seen: string[] = [];
  const visit = async (at: string, depth: number): Promise<void> => {
    if (seen.length >= maxEntries) return;
    const found = await stat(at).catch(() => null);
    if (found === null) return void seen.push(`${at} -`);
    const { ino, dev, size, mtimeMs, ctimeMs } = found;
    if (!found.isDirectory()) return void seen.push(`${at} ${dev}:${ino} ${size} ${mtimeMs} ${ctimeMs}`);
    if (depth >= maxFolders) return;
    const names = await readdir(at).catch(() => null);
    if (names === null) return void seen.push(`${at} -`);
    for (const name of names.sort()) if (!name.startsWith(".")) await visit(join(at, name), depth + 1);
  };
  if ((await stat(path).catch(() => null)) === null) return null;
  await visit(path, 0);
  return hash("sha256", seen.join("\n"));
}
