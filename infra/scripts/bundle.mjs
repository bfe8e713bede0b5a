// Bundles compiled modules with the libraries they import: a program that loads 5 files instead of 1,900 starts with a
// third of the CPU time. Called by prepare.mjs after the compiler, and by the runner for test files.
import * as fs from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

// esbuild reads it when it starts: with the default a fifth of its time collects garbage.
process.env["GOGC"] ??= "400";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** CommonJS modules in a bundle call require for what Node has built in. */
const requireBanner = {
  js: 'import { createRequire as requireOf } from "node:module"; const require = requireOf(import.meta.url);',
};

/** Native code, and tools that find files of their own beside them. */
const external = ["sharp", "tap", "@tapjs/*", "playwright-core", "axe-core", "esbuild", "openapi-typescript"];

/** Names in our own files that depend on the place of the compiled file: views, assets, migrations. */
const ownPlaces = (out) => ({
  name: "own-places",
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]dist[\\/].*\.js$/ }, ({ path }) => {
      const text = path.includes("node_modules") ? "" : fs.readFileSync(path, "utf8");
      if (!/\bimport\.meta\./.test(text)) return null;
      const url = `new URL(${JSON.stringify(relative(out, path))}, import.meta.url)`;
      const contents = text
        .replaceAll("import.meta.url", `${url}.href`)
        .replaceAll("import.meta.dirname", `decodeURIComponent(new URL(".", ${url}).pathname)`);
      return { contents, resolveDir: dirname(path) };
    });
  },
});

const replaced = (files) => ({
  name: "replaced",
  setup({ onResolve }) {
    for (const [name, path] of Object.entries(files))
      onResolve({ filter: new RegExp(`^${name}$`) }, () => ({ path, external: true }));
  },
});

/**
 * Bundles `entries` (name to compiled file) into `outdir`, all relative to the root. Shared modules become chunks;
 * those of earlier builds are kept for `keptMs`, because a running process loads some of its modules late. `place` is
 * where the bundle will be, for a package. `instead` has the files that are imported in place of packages.
 */
export async function bundle(entries, outdir, options = {}) {
  const { keptMs = 7 * 86_400_000, place = outdir, sourcemap = true, instead = {} } = options;
  const out = join(root, outdir);
  const { metafile } = await build({
    entryPoints: Object.fromEntries(Object.entries(entries).map(([name, file]) => [name, join(root, file)])),
    outdir: out,
    absWorkingDir: root,
    splitting: true,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20",
    external,
    plugins: [ownPlaces(join(root, place)), replaced(instead)],
    banner: requireBanner,
    sourcemap,
    sourcesContent: false,
    metafile: true,
    logLevel: "error",
  });
  const written = new Set(Object.keys(metafile.outputs).map((file) => relative(outdir, file)));
  for (const name of fs.readdirSync(out)) {
    const file = join(out, name);
    if (!written.has(name) && Date.now() - fs.statSync(file).mtimeMs > keptMs) fs.rmSync(file);
  }
  return Object.keys(metafile.inputs);
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  await Promise.all([
    bundle({ cli: "packages/agent/dist/cli.js" }, "packages/agent/dist/bundle"),
    bundle({ cli: "packages/cli/dist/cli.js" }, "packages/cli/dist/bundle"),
    bundle({ main: "packages/control-plane/dist/main.js" }, "packages/control-plane/dist/bundle"),
  ]);
