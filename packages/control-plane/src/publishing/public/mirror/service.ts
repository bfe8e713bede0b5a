import { Semaphore } from "@statusmesh/shared/semaphore";
import { messageOf } from "@statusmesh/shared/thrown";
import { destinationOf, type MirrorTarget } from "../../../config/mirror-keys.ts";
import type { Config } from "../../../config/config.ts";
import { type Ctx, requireScope, type System } from "../../../platform/context.ts";
import { hostUrl, pageUrl } from "../../../platform/http/page-host.ts";
import type { Language } from "../../languages/schema.ts";
import { languageOf } from "../../languages/service.ts";
import { isPrivate } from "../../status-pages/access/service.ts";
import { pageOfSlug } from "../../status-pages/service.ts";
import { computeStatus } from "../page/compute.ts";
import { beatFile, type CopyFile, copyOf, goneFiles, headOf, indexFile } from "./files.ts";
import * as queries from "./queries.ts";
import type { MirrorRow } from "./queries.ts";
import { sha256 } from "./signature-v4.ts";
import { type Store, storeOf } from "./store.ts";

/** Files that are written at a time. */
const atOnce = 8;
/** Age of the sign of life from which visitors, and doctor, read that the source is silent, ms. */
const silentMs = 300_000;

const idsOf = ({ mirror }: Config): string[] => mirror.targets.map(destinationOf);

/** True when a copy has work. */
export const isMirrorDue = ({ sql, clock, config }: System) =>
  queries.isAnyDue(sql, new Date(clock.now()), idsOf(config));

/** Writes what has changed of the copies of status pages, and the sign of life of each. Returns how many were due. */
export async function mirrorPages(system: System, signal?: AbortSignal): Promise<number> {
  const { sql, clock, config } = system;
  const { targets } = config.mirror;
  await queries.ensureMirrors(
    sql,
    targets.map((target) => ({ id: destinationOf(target), slug: target.page })),
  );
  const due = await queries.selectDue(sql, new Date(clock.now()), idsOf(config));
  for (const { changed, ...row } of due) {
    if (signal?.aborted) break;
    await follow(
      system,
      targets.find((target) => destinationOf(target) === row.id)!,
      row,
      changed,
      signal,
    );
  }
  return due.length;
}

async function follow(
  system: System,
  target: MirrorTarget,
  row: MirrorRow,
  changed: boolean,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { sql, clock, log } = system;
  // Changes from now on are another run's.
  const now = new Date(clock.now());
  const copy: MirrorRow = { ...row, error: null, failed_at: null };
  try {
    const store = await storeOf(system, target, signal);
    if (changed) await update(system, target, copy, store);
    if (changed) copy.checked_at = now;
    if (copy.page_id !== null && isMirrored(copy)) {
      await store.put(beatFile, Buffer.from(`{"at":"${now.toISOString()}"}\n`), headOf(beatFile));
      copy.beat_at = now;
    } else copy.beat_at = null;
  } catch (error) {
    Object.assign(copy, { error: messageOf(error).slice(0, 500), failed_at: now });
    log.warn({ mirror: row.id, page: row.slug, reason: copy.error }, "a copy of a status page could not be written");
  }
  await (changed ? queries.updateMirror(sql, copy) : queries.updateBeat(sql, copy));
}

/** A copy has its data; what is left of a page that is not public has only an index. */
const isMirrored = ({ files }: MirrorRow): boolean => files["status.json"] !== undefined;

/** Brings the files of the copy up to date, and notes in it what was written. */
async function update(system: System, target: MirrorTarget, copy: MirrorRow, store: Store): Promise<void> {
  const page = await pageOfSlug(system, target.page);
  copy.page_id = page?.id ?? null;
  copy.revision = page?.revision ?? null;
  const isForeign = page !== null && copy.org_id !== null && copy.org_id !== page.org_id;
  const shown = page !== null && !isForeign && (!isPrivate(page) || target.allow_private === true) ? page : null;
  if (shown === null) {
    // Nothing was public here: there is nothing to take back.
    if (Object.keys(copy.files).length === 0) return;
    const files = goneFiles(copy.language as Language, liveAddress(system.config, target.page, null));
    return await write(system, copy, store, files, "index first");
  }
  copy.org_id = shown.org_id;
  copy.language = languageOf(shown.branding);
  const live = liveAddress(system.config, shown.slug, shown.custom_domain);
  const files = await copyOf(system, shown, await computeStatus(system, shown), live);
  await write(system, copy, store, files, "index last");
}

/** Address of the page itself, without a slash at its end. */
function liveAddress(config: Config, slug: string, domain: string | null): string {
  if (domain !== null) return `${hostUrl(domain, config)}/status`;
  const own = config.tenancy.subdomain_public_routes ? pageUrl(slug, config) : null;
  return own === null ? `${config.server.public_url}/status/${slug}` : `${own}/status`;
}

/**
 * Writes the files that differ and removes those that are gone. Indexes are written last, so that they lead to nothing
 * that is missing; the index of a page that is not public any more is written first.
 */
async function write(
  system: System,
  copy: MirrorRow,
  store: Store,
  files: readonly CopyFile[],
  order: "index first" | "index last",
): Promise<void> {
  const put = async (file: CopyFile): Promise<void> => {
    const { path, key, type, immutable } = file;
    if (copy.files[path]?.key === key) return;
    const content = await file.make();
    await store.put(path, content, { type, immutable });
    copy.files = { ...copy.files, [path]: { key, hash: sha256(content) } };
    copy.written_at = new Date(system.clock.now());
  };
  const isIndex = ({ path }: CopyFile) => path.endsWith(indexFile) && !path.includes("incidents/");
  const indexes = files.filter(isIndex);
  if (order === "index first") for (const file of indexes) await put(file);
  await each(
    files.filter((file) => !isIndex(file)),
    put,
  );
  for (const file of indexes) await put(file);
  const kept = new Set(files.map(({ path }) => path));
  const gone = Object.keys(copy.files).filter((path) => !kept.has(path));
  if (order === "index first") gone.push(beatFile);
  await each(gone, async (path) => {
    await store.remove(path);
    const { [path]: _removed, ...others } = copy.files;
    copy.files = others;
  });
}

/** Calls `work` for each item, some at a time, in their order. The first error ends it after those in flight. */
async function each<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const places = new Semaphore(atOnce);
  const done = await Promise.allSettled(items.map((item) => places.run("", () => work(item))));
  const failed = done.find((one) => one.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}

/** The state of a copy in words, and whether it is as it should be. */
function stateOf({ clock }: Pick<System, "clock">, target: MirrorTarget, row: MirrorRow | undefined) {
  const name = `${target.page} at ${destinationOf(target)}`;
  const ago = (at: Date) => `${Math.round((clock.now() - at.getTime()) / 1000)} s ago`;
  if (row === undefined) return { fine: false, words: `${name}: not written yet: is the service running?` };
  const written = row.beat_at === null ? "" : `, last update ${ago(row.beat_at)}`;
  if (row.error !== null) return { fine: false, words: `${name}: ${row.error}${written}` };
  if (row.beat_at === null) return { fine: false, words: `${name}: the page is not public, or there is none` };
  return { fine: clock.now() - row.beat_at.getTime() <= silentMs, words: name + written };
}

const rowsOf = async ({ sql, config }: Pick<System, "sql" | "config">) =>
  new Map((await queries.selectMirrors(sql, idsOf(config))).map((row) => [row.id, row]));

/** Ages and errors of the copies, for doctor. Throws where one is late or failing. */
export async function mirrorInWords(system: Pick<System, "sql" | "clock" | "config">): Promise<string> {
  const rows = await rowsOf(system);
  const states = system.config.mirror.targets.map((target) => stateOf(system, target, rows.get(destinationOf(target))));
  const words = states.map((state) => state.words).join("; ");
  if (states.some(({ fine }) => !fine)) throw new Error(words);
  return words;
}

/** A copy as the organisation of its page sees it: destination and errors are the operator's. */
export interface Copy {
  kind: "S3 bucket" | "Folder";
  problem: string | null;
  writtenAt: Date | null;
  beatAt: Date | null;
}

/** The copies of a page of the organisation. */
export async function copiesOf(ctx: Ctx, pageId: string): Promise<Copy[]> {
  requireScope(ctx, "status_page:read");
  const rows = await rowsOf(ctx);
  return ctx.config.mirror.targets.flatMap((target) => {
    const row = rows.get(destinationOf(target));
    if (row?.page_id !== pageId || row.org_id !== ctx.orgId) return [];
    const { error, beat_at: beatAt, written_at: writtenAt } = row;
    const isLate = beatAt !== null && ctx.clock.now() - beatAt.getTime() > silentMs;
    const problem = error !== null || isLate ? "Cannot be written" : beatAt === null ? "The page is not public" : null;
    return [{ kind: target.s3 === undefined ? "Folder" : "S3 bucket", problem, writtenAt, beatAt } as const];
  });
}

/** `statusmesh mirror --check`: reads every file of the copies back. Prints a line each; false where one differs. */
export async function checkMirrors(system: System, say: (line: string) => void): Promise<boolean> {
  const rows = await rowsOf(system);
  let fine = true;
  for (const target of system.config.mirror.targets) {
    const row = rows.get(destinationOf(target));
    const state = stateOf(system, target, row);
    const wrong = await differences(system, target, row?.files ?? {}).catch((error: unknown) => [messageOf(error)]);
    const files = Object.keys(row?.files ?? {}).length;
    const read = wrong.length === 0 ? `${files} files are as written` : wrong.slice(0, 5).join(", ");
    fine &&= state.fine && wrong.length === 0;
    say(`${state.fine && wrong.length === 0 ? "ok  " : "FAIL"}   ${state.words}; ${read}`);
  }
  return fine;
}

async function differences(system: System, target: MirrorTarget, files: MirrorRow["files"]): Promise<string[]> {
  const store = await storeOf(system, target);
  const found: string[] = [];
  await each(Object.entries(files), async ([path, { hash }]) => {
    const content = await store.get(path);
    if (content === null) found.push(`${path} is missing`);
    else if (sha256(content) !== hash) found.push(`${path} differs`);
  });
  return found;
}
