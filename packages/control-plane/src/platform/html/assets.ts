import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, extname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { Middleware } from "koa";
import { LRUCache } from "lru-cache";
import { AppError } from "@statusmesh/shared/errors";
import { getOrMake } from "../caches.ts";
import { atRoute } from "../http/exchange.ts";
import { answerOtherMethod } from "../http/methods.ts";
import { brandSheet } from "./brand.ts";

const types: Record<string, string> = {
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json; charset=utf-8",
  ".svg": "image/svg+xml; charset=utf-8",
  ".txt": "text/plain; charset=utf-8",
  ".webmanifest": "application/manifest+json",
  ".png": "image/png",
  ".woff2": "font/woff2",
  ".ico": "image/x-icon",
};

interface Asset {
  body: Buffer;
  /** Made once, at the first request. Null where compressing does not make it smaller. */
  packed(): Promise<Buffer | null>;
  etag: string;
  type: string;
}

/** The files that pages refer to, all of them in memory. */
export interface Assets {
  /** The address of an asset. Throws for a name that does not exist: a template's slip must not reach a reader. */
  url(name: string): string;
  /** The bytes of an asset. */
  body(name: string): Buffer;
  /** The text of an asset. */
  text(name: string): string;
  /** The modules that a script imports, directly and through others, in alphabetical order. */
  modules(name: string): readonly string[];
  readonly serve: Middleware;
}

const require = createRequire(import.meta.url);

const assetsFolder = fileURLToPath(new URL("../../../assets", import.meta.url));

/** Files of packages that are served beside our own. The banner of the bundle names its licenses as a neighbour. */
const packaged: readonly string[] = [
  require.resolve("rapidoc/dist/rapidoc-min.js"),
  require.resolve("rapidoc/dist/rapidoc-min.js.LICENSE.txt"),
];

/** Sheets of the public pages, made of other sheets and of sections: one request each, without comments. */
const composed: Readonly<Record<string, readonly string[]>> = {
  "status.css": ["tokens.css", "base.css", "public.css"],
  "share.css": ["tokens.css", "base.css", "public.css", "console.css/5-figures.css", "share-view.css"],
};
/** The sheet of a status page with a brand colour: an inline style would need an exception in the security policy. */
const branded = /^status-([0-9a-f]{6})\.css$/;
/** The service worker is registered for the whole console, at an address that stays the same. */
const serviceWorker = "push-worker.js";
/** A branded sheet is made in a millisecond; anybody may ask for any colour. */
const keptBrands = 100;

/**
 * The product's files, read and compressed once. All of them share one hash, which is a folder in their address
 * (`/assets/<hash>/console.js`): relative imports and references carry it too, so all may be cached for a year.
 */
export const loadAssets = (): Assets => (own ??= assetsIn(assetsFolder));
let own: Assets | undefined;

function assetsIn(folder: string): Assets {
  const files = new Map<string, Asset>();
  for (const [name, parts] of partsOf(folder)) files.set(name, read(name, parts));
  for (const path of packaged) files.set(basename(path), read(basename(path), [path]));
  const bodyOf = (part: string): Buffer | null => {
    const section = join(folder, part);
    return files.get(part)?.body ?? (existsSync(section) ? readFileSync(section) : null);
  };
  for (const [name, parts] of Object.entries(composed)) {
    const bodies = parts.map(bodyOf);
    if (!bodies.includes(null)) files.set(name, asset(name, Buffer.from(compact(bodies.join("")))));
  }
  const brands = new LRUCache<string, Asset>({ max: keptBrands });
  const find = (name: string): Asset | undefined => {
    const color = branded.exec(name)?.[1];
    const base = files.get("status.css");
    if (color === undefined || base === undefined) return files.get(name);
    return getOrMake(brands, name, () => {
      const tokens = files.get("tokens.css")!.body.toString();
      const [light, dark] = tokens.split('[data-theme="dark"]').map(backgroundsOf) as [string[], string[]];
      return asset(name, Buffer.from(base.body + brandSheet(`#${color}`, light, dark)));
    });
  };
  const modules = new Map<string, readonly string[]>();
  const hash = fingerprint([...files].map(([name, file]) => `${name} ${file.etag}`).join("\n"));

  return {
    url(name) {
      if (!files.has(name) && !branded.test(name)) throw new Error(`there is no asset called ${name}`);
      return `/assets/${hash}/${name}`;
    },
    body: (name) => find(name)!.body,
    text: (name) => files.get(name)!.body.toString(),
    modules: (name) => getOrMake(modules, name, () => modulesOf(files, name)),
    async serve(http, next) {
      if (!http.path.startsWith("/assets/")) return next();
      atRoute(http, "/assets/{file}");
      if (http.method !== "GET" && http.method !== "HEAD") return answerOtherMethod(http, ["GET", "HEAD", "OPTIONS"]);
      const asked = http.path.slice("/assets/".length);
      const hashed = asked.startsWith(`${hash}/`);
      // A lookup by exact name: no path of the request ever reaches the file system.
      const file = find(hashed ? asked.slice(hash.length + 1) : asked);
      if (file === undefined) throw new AppError("NOT_FOUND", `There is nothing at ${http.path}.`);
      http.set("Cache-Control", hashed ? "public, max-age=31536000, immutable" : "no-cache");
      http.set("Vary", "Accept-Encoding");
      // Its pages are outside of /assets (Service Workers, section 4.4.4).
      if (asked === serviceWorker) http.set("Service-Worker-Allowed", "/");
      http.set("ETag", `"${file.etag}"`);
      http.status = 200;
      if (http.fresh) {
        http.status = 304;
        return;
      }
      http.type = file.type;
      const packed = http.acceptsEncodings("gzip") === "gzip" ? await file.packed() : null;
      if (packed !== null) http.set("Content-Encoding", "gzip");
      http.body = packed ?? file.body;
    },
  };
}

/** The modules that a module imports, directly or not, in the order of their names. */
function modulesOf(files: ReadonlyMap<string, Asset>, name: string): string[] {
  const found = new Set<string>();
  const follow = (at: string): void => {
    const imports = files
      .get(at)!
      .body.toString()
      .split("\n")
      .filter((line) => line.startsWith("import ") && line.endsWith('";'))
      .flatMap((line) => line.slice(0, -2).split('"./')[1] ?? []);
    for (const next of imports) {
      if (!files.has(next)) throw new Error(`${at} imports ${next}, which does not exist`);
      if (!found.has(next)) follow((found.add(next), next));
    }
  };
  follow(name);
  return [...found].sort();
}

/** The files of each asset in the order of their names. A folder `x.css` is one sheet: its files are its sections. */
function partsOf(folder: string): Map<string, string[]> {
  const parts = new Map<string, string[]>();
  const paths = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.startsWith("."))
    .map((entry) => join(entry.parentPath, entry.name));
  for (const path of paths.sort()) {
    const steps = relative(folder, path).split(sep);
    const sheet = steps.findIndex((step) => step.endsWith(".css"));
    const name = (sheet < 0 ? steps : steps.slice(0, sheet + 1)).join("/");
    parts.set(name, [...(parts.get(name) ?? []), path]);
  }
  return parts;
}

/** A colour of both themes. Its parts may have parentheses themselves. */
const themed = /light-dark\(((?:[^(),]|\([^)]*\))+), ((?:[^()]|\([^)]*\))+)\)/g;

/**
 * The tokens for browsers without `light-dark()`: the light theme, and the dark one for readers who choose it and for
 * those whose system asks for it. Paper is light.
 */
function withThemes(tokens: string): string {
  const both = tokens
    .split(/(?<=;\n)/)
    .filter((part) => part.includes("light-dark("))
    .map((part) => part.slice(part.search(/^ *--/m)))
    .join("");
  const dark = (root: string) => `${root} {\n${both.replaceAll(themed, "$2")}  color-scheme: dark;\n}\n`;
  return (
    tokens.replaceAll(themed, "$1").replace("light dark;", "light;") +
    `@media screen {\n${dark(':root[data-theme="dark"]')}}\n` +
    `@media screen and (prefers-color-scheme: dark) {\n${dark(':root:not([data-theme="light"])')}}\n`
  );
}

function read(name: string, paths: readonly string[]): Asset {
  const whole = Buffer.concat(paths.map((path) => readFileSync(path)));
  if (name === "tokens.css") return asset(name, Buffer.from(withThemes(whole.toString())));
  return asset(name, extname(name) === ".css" ? Buffer.from(compact(whole.toString())) : whole);
}

/** A sheet without comments, and without spaces that mean nothing. Values with operators keep theirs. */
const compact = (sheet: string): string =>
  sheet
    .replaceAll(/\/\*[^]*?\*\//g, "")
    .replaceAll(/\s+/g, " ")
    .replaceAll(/ ?([{};,]) ?/g, "$1")
    .replaceAll(/: /g, ":")
    .replaceAll(";}", "}");

/** Colours of page and panel in a part of the tokens. */
const backgroundsOf = (tokens: string): string[] =>
  [...tokens.matchAll(/--(?:bg|panel): (#[0-9a-f]{6});/g)].slice(0, 2).map(([, color]) => color!);

function asset(name: string, body: Buffer): Asset {
  let packed: Promise<Buffer | null> | undefined;
  return {
    body,
    packed: () => (packed ??= packedOf(body)),
    etag: fingerprint(body),
    type: types[extname(name)] ?? "application/octet-stream",
  };
}

async function packedOf(body: Buffer): Promise<Buffer | null> {
  const packed = await promisify(gzip)(body, { level: 9 });
  return packed.length < body.length ? packed : null;
}

const fingerprint = (content: Buffer | string): string =>
  createHash("sha256").update(content).digest("base64url").slice(0, 12);
