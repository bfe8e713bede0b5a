import { extname } from "node:path";
import type { System } from "../../../platform/context.ts";
import { type Assets, loadAssets } from "../../../platform/html/assets.ts";
import { mapInTurns, takeTurns } from "../../../platform/process/turns.ts";
import { openViews } from "../../../platform/html/views.ts";
import type { Language } from "../../languages/schema.ts";
import { languageOf, textsOf } from "../../languages/service.ts";
import { logoFile } from "../../status-pages/logos/service.ts";
import type { PageRow } from "../../status-pages/visits/service.ts";
import { pageBadge } from "../feeds/badges.ts";
import type { ServedStatus } from "../page/compute.ts";
import { maintenanceCalendar } from "../feeds/ics.ts";
import { blankFrame, computeData, frameAt, historyData } from "../pages.ts";
import { listedUpdates } from "../queries.ts";
import { incidentsFeed } from "../feeds/rss.ts";
import { componentsOf, statusJson } from "../service.ts";
import { inLanguage } from "../page/translated.ts";
import { PageWords } from "../words.ts";
import { mark, withRelativeLinks } from "./links.ts";
import { sha256 } from "./signature-v4.ts";
import type { FileHead } from "./store.ts";

/** A file of a copy. It is made where its key differs from that of the file that was written. */
export interface CopyFile extends FileHead {
  path: string;
  key: string;
  make(): Promise<Buffer> | Buffer;
}

/** The file that says when the source was last alive. */
export const beatFile = "heartbeat.json";
export const indexFile = "index.html";

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json; charset=utf-8",
  ".rss": "application/rss+xml; charset=utf-8",
  ".ics": "text/calendar; charset=utf-8",
  ".svg": "image/svg+xml; charset=utf-8",
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".webp": "image/webp",
};
export const headOf = (path: string): FileHead => ({
  type: types[extname(path)] ?? "application/octet-stream",
  immutable: path.startsWith("assets/"),
});

/** The views, with assets at the mark. Their names are noted in `used` of the copy that is rendered. */
let views: { render: ReturnType<typeof openViews>["render"]; used: Set<string>; assets: Assets } | undefined;

function openCopyViews() {
  if (views !== undefined) return views;
  const own = loadAssets();
  const used = new Set<string>();
  const url = (name: string) => {
    used.add(name);
    return `${mark}/assets/${own.url(name).split("/")[2]}/${name}`;
  };
  const { render } = openViews({ assets: { ...own, url } });
  return (views = { render, used, assets: own });
}

/** The sentence in place of a page that is not public any more. */
export function goneFiles(language: Language, live: string): CopyFile[] {
  const { render } = openCopyViews();
  const { noLongerPublic } = textsOf(language).page;
  const words = wordsFor(language, "UTC");
  const data = { ...blankFrame, base: mark, data: mark, words, ...noLongerPublic, frame: null };
  const { html, assets } = linked(render("public/notice", data, 0), indexFile, {
    live,
    fileOf: () => null,
    inLanguage: () => indexFile,
  });
  return [...assets, fileOfText(indexFile, html)];
}

/** Dates instead of hours and `today`: nobody knows when a copy is read. */
const wordsFor = (language: Language, timezone: string): PageWords =>
  new PageWords(language, timezone, { dated: true });

const fileOfText = (path: string, text: string): CopyFile => ({
  path,
  ...headOf(path),
  key: sha256(text),
  make: () => Buffer.from(text),
});

interface Links {
  live: string;
  fileOf(path: string): string | null;
  inLanguage(tag: string): string;
}

/** Rendered HTML with relative links, and the assets that it names. */
function linked(rendered: string, file: string, links: Links): { html: string; assets: CopyFile[] } {
  const { used, assets } = openCopyViews();
  const folder = assets.url("status.js").split("/")[2]!;
  const isAsset = (path: string) => path.startsWith("/assets/");
  const fileOf = (path: string) => (isAsset(path) ? path.slice(1) : links.fileOf(path));
  const html = withRelativeLinks(rendered, file, { ...links, fileOf });
  const names = [...used];
  used.clear();
  const made = names.map((name) => ({
    path: `assets/${folder}/${name}`,
    ...headOf(`assets/${folder}/${name}`),
    key: folder,
    make: () => assets.body(name),
  }));
  return { html, assets: made };
}

/**
 * The files of a copy of a page, in the order in which they are written: assets and incidents before the pages that
 * lead to them, the index last. `live`: address of the page itself.
 */
export async function copyOf(system: System, page: PageRow, computed: ServedStatus, live: string): Promise<CopyFile[]> {
  const own = languageOf(page.branding);
  const logos = await logoFiles(system, computed);
  const files = [...logos.files, ...(await dataOf(system, computed, live))];
  const others = (page.branding.languages ?? []).map((tag) => ({ language: tag, folder: `${tag}/` }));
  for (const { language, folder } of [...others, { language: own, folder: "" }]) {
    const surroundings = { folder, live, logos: logos.paths, now: system.clock.now() };
    files.push(...(await pagesOf(inLanguage(computed, language), surroundings)));
  }
  const unique = [...new Map(files.map((file) => [file.path, file])).values()];
  return unique.toSorted((a, b) => rankOf(a.path) - rankOf(b.path));
}

/** What is named by others comes before them: assets, data, incidents, then the pages, of other languages first. */
function rankOf(path: string): number {
  if (path.startsWith("assets/")) return 0;
  if (!path.endsWith(indexFile)) return 1;
  return path.includes("incidents/") ? 2 : path === indexFile ? 4 : 3;
}

interface Surroundings {
  folder: string;
  live: string;
  logos: ReadonlyMap<string, string>;
  now: number;
}

/** The pages of one language, and the assets that they name. */
async function pagesOf(served: ServedStatus, { folder, live, logos, now }: Surroundings) {
  const { render } = openCopyViews();
  const { language, branding, entries } = served;
  const words = wordsFor(language, branding.timezone);
  const ids = new Set(entries.flatMap(({ incidents }) => incidents.map(({ id }) => id)));
  const entryOf = new Map(entries.flatMap((entry) => entry.incidents.map(({ id }) => [id, entry.id] as const)));
  const dataFiles: Record<string, string> = {
    [`/${beatFile}`]: beatFile,
    "/api/public/v1/incidents.rss": "incidents.rss",
    "/api/public/v1/status": "status.json",
    "/maintenance.ics": "maintenance.ics",
  };
  const fileOf = (path: string): string | null => {
    if (path === "" || path.startsWith("?")) return `${folder}${indexFile}`;
    if (path === "/incidents") return `${folder}incidents/${indexFile}`;
    const id = path.startsWith("/incidents/") ? path.slice("/incidents/".length) : "";
    if (ids.has(id)) return `${folder}incidents/${entryOf.get(id)!}/${indexFile}`;
    return dataFiles[path] ?? logos.get(path) ?? null;
  };
  const mirror = { changed: new Date(0), beat: `${mark}/${beatFile}` };
  const links = { base: mark, data: `${mark}/api/public/v1` };
  const frame = { ...frameAt({ ...served, subscribe: false }, links), words, mirror };
  const { branding: look } = frame;
  const at = (image: typeof look.logo) => image && { ...image, src: `${mark}${image.src}` };
  const shown = { ...frame, branding: { ...look, logo: at(look.logo), logoDark: at(look.logoDark) }, frame: null };
  const files: CopyFile[] = [];
  const html = (view: string, data: object, path: string): CopyFile => {
    const inOther = (tag: string) => `${tag}/${path.slice(folder.length)}`;
    const made = linked(render(view, data, now), path, { live, fileOf, inLanguage: inOther });
    files.push(...made.assets);
    return stamped(path, made.html, words, now);
  };
  const turns = await takeTurns();
  const status = computeData({ ...served, checkedAt: null }, words);
  await mapInTurns(componentsOf(served.status), (component) => words.strip(component));
  // The key of an incident is what it is made of: of 500 in 14 languages few change at a time.
  const program = loadAssets().url("status.js");
  const look1 = JSON.stringify([shown.pageName, branding, served.logo, served.logoDark, language, program]);
  for (const entry of entries) {
    const path = `${folder}incidents/${entry.id}/${indexFile}`;
    const cut = { ...entry, updates: entry.updates.slice(0, listedUpdates) };
    const minute = entry.state === "open" ? Math.floor(now / 60_000) : 0;
    const make = () => html("public/incident", { ...shown, entry: cut }, path).make();
    files.push({ path, ...headOf(path), key: sha256(`${look1} ${minute} ${JSON.stringify(entry)}`), make });
  }
  const history = historyData(served, words);
  if (turns.over()) await turns.next();
  const list = html("public/history", { ...shown, ...history }, `${folder}incidents/${indexFile}`);
  await turns.next();
  const index = html("public/status", { ...status, ...shown, live: mark }, `${folder}${indexFile}`);
  return [...files, list, index];
}

/** A page with the time of its writing. Its key does not count that time. */
function stamped(path: string, html: string, words: PageWords, now: number): CopyFile {
  const [none, time] = [new Date(0), new Date(now)];
  const [blank, written] = [String(words.time(none, now)), String(words.time(time, now))];
  const make = () =>
    Buffer.from(html.replaceAll(blank, written).replaceAll(`"${none.toISOString()}"`, `"${time.toISOString()}"`));
  return { path, ...headOf(path), key: sha256(html), make };
}

/** Data of the page, in its own language. */
async function dataOf(system: System, computed: ServedStatus, live: string): Promise<CopyFile[]> {
  const json = await statusJson(computed);
  const calendar = await maintenanceCalendar(system, computed, live);
  return [
    {
      path: "status.json",
      ...headOf("status.json"),
      // Computed every few minutes although nothing has changed.
      key: sha256(json.toString().replace(/"generated_at":"[^"]*"/, "")),
      make: () => json,
    },
    fileOfText("incidents.rss", incidentsFeed(computed, live)),
    fileOfText("maintenance.ics", calendar),
    fileOfText("badge.svg", await pageBadge(computed.status)),
  ];
}

/** The logos, and the file of each by its path on the page. */
async function logoFiles(system: System, { logo, logoDark }: ServedStatus) {
  const files: CopyFile[] = [];
  const paths = new Map<string, string>();
  for (const path of new Set([logo, logoDark])) {
    const hash = path?.split("/").at(-1);
    const found = hash === undefined ? null : await logoFile(system, hash);
    if (path === null || found === null) continue;
    const ending = Object.keys(types).find((one) => types[one] === found.media_type) ?? "";
    const file = `assets/logo-${hash}${ending}`;
    paths.set(path, file);
    files.push({ path: file, ...headOf(file), key: hash!, make: () => found.bytes });
  }
  return { files, paths };
}
