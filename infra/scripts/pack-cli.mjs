// Packs smctl for publishing: a tarball in .build/ with one file that has every library inside and depends on nothing.
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { prepare, root } from "./prepare.mjs";

/** Libraries that the checks load on first use, which esbuild would not see. */
const lateLibraries = {
  name: "late-libraries",
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]shared[\\/]dist[\\/]checks[\\/].*\.js$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8").replaceAll("createRequire(import.meta.url)(", "require("),
      resolveDir: dirname(path),
    }));
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

/** Creates the tarball from compiled output and returns its path. */
export async function packCli() {
  const source = join(root, "packages/cli");
  const {
    files: _files,
    exports: _exports,
    dependencies: _dependencies,
    ...described
  } = JSON.parse(readFileSync(join(source, "package.json"), "utf8"));

  const out = join(root, ".build/smctl");
  rmSync(out, { recursive: true, force: true });
  mkdirSync(join(out, "bin"), { recursive: true });
  const { metafile } = await build({
    entryPoints: { smctl: join(source, "dist/cli.js") },
    outdir: join(out, "bin"),
    absWorkingDir: root,
    bundle: true,
    minify: true,
    format: "esm",
    platform: "node",
    // They are in THIRD-PARTY-LICENSES.
    legalComments: "none",
    target: "node20",
    // The CommonJS of commander asks for what Node has built in.
    banner: {
      js: 'import { createRequire as requireOf } from "node:module"; const require = requireOf(import.meta.url);',
    },
    plugins: [lateLibraries, quietSockets],
    metafile: true,
    logLevel: "warning",
  });
  chmodSync(join(out, "bin/smctl.js"), 0o755);
  mkdirSync(join(out, "dist"));
  copyFileSync(join(source, "dist/request-bodies.json"), join(out, "dist/request-bodies.json"));
  const files = ["bin", "dist", "config.schema.json"];
  writeFileSync(join(out, "package.json"), `${JSON.stringify({ ...described, files }, null, 2)}\n`);
  const compiled = (file) => import(pathToFileURL(join(root, "packages/control-plane/dist/interfaces", file)).href);
  const [{ ConfigDocument }, { publishedSchema }] = await Promise.all([
    compiled("declared/document-schema.js"),
    compiled("openapi/schemas.js"),
  ]);
  writeFileSync(join(out, "config.schema.json"), `${JSON.stringify(publishedSchema(ConfigDocument), null, 2)}\n`);
  copyFileSync(join(root, "LICENSE"), join(out, "LICENSE"));
  copyFileSync(join(source, "README.md"), join(out, "README.md"));
  writeFileSync(join(out, "bin/THIRD-PARTY-LICENSES"), licensesOf(Object.keys(metafile.inputs)));

  const [{ filename }] = JSON.parse(
    execFileSync("npm", ["pack", "--json", "--pack-destination", join(root, ".build")], {
      cwd: out,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }),
  );
  return join(root, ".build", filename);
}

/** The licences of the libraries that these files are of. */
function licensesOf(inputs) {
  const folders = new Set(
    inputs.flatMap((file) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(join(root, file)) ?? []),
  );
  return [...folders]
    .sort()
    .map((folder) => {
      const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
      const files = readdirSync(folder);
      const file = files.find((one) => /^licen[cs]e/i.test(one));
      return `${name} ${version} (${license})\n\n${file === undefined ? "" : readFileSync(join(folder, file), "utf8")}`;
    })
    .join(`\n${"-".repeat(80)}\n`);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  prepare({ tests: false });
  process.stdout.write(`${await packCli()}\n`);
}
