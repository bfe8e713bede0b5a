// Packs smctl for publishing: a tarball in .build/ that has every library inside and depends on nothing. A start loads
// two files, the declarations of the commands; what a command does is in files of its own. Parsing all takes 50 ms.
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { build, transform } from "esbuild";
import { describedIn, emptyFolder, lateLibraries, licensesOf, packed } from "./pack.mjs";
import { prepare, root } from "./prepare.mjs";

/** Commander without what it needs for commands that are programs of their own: 4 ms of a start. */
const inProcess = {
  name: "in-process",
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]commander[\\/]lib[\\/]command\.js$/ }, ({ path }) => {
      const text = readFileSync(path, "utf8");
      const contents = text.replace("const childProcess = require('node:child_process');", "const childProcess = {};");
      if (contents === text) throw new Error(`${path} has another form than this script expects`);
      return { contents, resolveDir: dirname(path) };
    });
  },
};

/** Socket.IO's modules without their logging, which is a tenth of the size. */
const quietSockets = {
  name: "quiet-sockets",
  setup({ onResolve, resolve }) {
    onResolve({ filter: /^(?:socket|engine)\.io-(?:client|parser)$/ }, async ({ path, pluginData, ...from }) => {
      if (pluginData === "resolved") return null;
      const found = await resolve(path, { ...from, pluginData: "resolved" });
      return { ...found, path: found.path.replace("/esm-debug/", "/esm/") };
    });
  },
};

/** The modules that a start needs: those that `program` imports statically. */
async function modulesOfStart(program) {
  const lazy = {
    name: "lazy",
    setup: ({ onResolve }) =>
      onResolve({ filter: /^/ }, ({ kind, path }) => (kind === "dynamic-import" ? { path, external: true } : null)),
  };
  const { metafile } = await build({
    entryPoints: [program],
    absWorkingDir: root,
    bundle: true,
    write: false,
    metafile: true,
    format: "esm",
    platform: "node",
    plugins: [lazy],
    logLevel: "warning",
  });
  return new Set(Object.keys(metafile.inputs).map((file) => join(root, file)));
}

/**
 * Has every other module import the program, which is loaded by then. esbuild puts modules that the same entries need
 * into one file: a start would load eleven files otherwise, at 2 ms each.
 */
const besideProgram = (program, start) => ({
  name: "beside-program",
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]packages[\\/]cli[\\/]dist[\\/].*\.js$/ }, ({ path }) =>
      start.has(path) || path.endsWith("/cli.js")
        ? null
        : {
            contents: `import ${JSON.stringify(program)};\n${readFileSync(path, "utf8")}`,
            resolveDir: dirname(path),
          },
    );
  },
});

/** A module as CommonJS: the loader of ES modules takes 15 ms of a start. */
async function asCommonJs(text) {
  const isPlaced = text.includes("import.meta.url");
  const { code } = await transform(text, {
    format: "cjs",
    platform: "node",
    target: "node20",
    minify: true,
    legalComments: "none",
    supported: { "dynamic-import": false },
    ...(isPlaced
      ? {
          define: { "import.meta.url": "placeOfFile" },
          banner: 'const placeOfFile = require("node:url").pathToFileURL(__filename).href;',
        }
      : {}),
  });
  return code;
}

/** Creates the tarball from compiled output and returns its path. */
export async function packCli() {
  const source = "packages/cli";
  const program = join(root, source, "dist/program.js");
  const {
    exports: _exports,
    dependencies: _,
    devDependencies: _dev,
    type: _module,
    ...described
  } = describedIn(source);
  const out = emptyFolder("smctl", source);
  const { metafile, outputFiles } = await build({
    entryPoints: { smctl: join(root, source, "dist/cli.js") },
    outdir: join(out, "bin"),
    absWorkingDir: root,
    // Dynamic imports stay separate files.
    splitting: true,
    bundle: true,
    write: false,
    minify: true,
    format: "esm",
    platform: "node",
    // They are in THIRD-PARTY-LICENSES.
    legalComments: "none",
    target: "node20",
    plugins: [besideProgram(program, await modulesOfStart(program)), inProcess, lateLibraries, quietSockets],
    metafile: true,
    logLevel: "warning",
  });
  for (const { path, text } of outputFiles) writeFileSync(path, await asCommonJs(text));
  chmodSync(join(out, "bin/smctl.js"), 0o755);
  mkdirSync(join(out, "dist"));
  copyFileSync(join(root, source, "dist/request-bodies.json"), join(out, "dist/request-bodies.json"));
  const compiled = (file) => import(pathToFileURL(join(root, "packages/control-plane/dist/interfaces", file)).href);
  const [{ ConfigDocument }, { publishedSchema }] = await Promise.all([
    compiled("declared/document/schema.js"),
    compiled("openapi/schemas.js"),
  ]);
  writeFileSync(join(out, "config.schema.json"), `${JSON.stringify(publishedSchema(ConfigDocument), null, 2)}\n`);
  writeFileSync(join(out, "bin/THIRD-PARTY-LICENSES"), licensesOf(Object.keys(metafile.inputs)));
  return packed(out, { ...described, files: ["bin", "dist", "config.schema.json"] });
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  prepare({ tests: false });
  process.stdout.write(`${await packCli()}\n`);
}
