// Packs smctl for publishing: a tarball in .build/ with one file that has every library inside and depends on nothing.
import { chmodSync, copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { requireBanner } from "./bundle.mjs";
import { describedIn, emptyFolder, lateLibraries, licensesOf, packed } from "./pack.mjs";
import { prepare, root } from "./prepare.mjs";

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
  const source = "packages/cli";
  const { exports: _exports, dependencies: _, devDependencies: _dev, ...described } = describedIn(source);
  const out = emptyFolder("smctl", source);
  const { metafile } = await build({
    entryPoints: { smctl: join(root, source, "dist/cli.js") },
    outdir: join(out, "bin"),
    absWorkingDir: root,
    bundle: true,
    minify: true,
    format: "esm",
    platform: "node",
    // They are in THIRD-PARTY-LICENSES.
    legalComments: "none",
    target: "node20",
    banner: requireBanner,
    plugins: [lateLibraries, quietSockets],
    metafile: true,
    logLevel: "warning",
  });
  chmodSync(join(out, "bin/smctl.js"), 0o755);
  mkdirSync(join(out, "dist"));
  copyFileSync(join(root, source, "dist/request-bodies.json"), join(out, "dist/request-bodies.json"));
  const compiled = (file) => import(pathToFileURL(join(root, "packages/control-plane/dist/interfaces", file)).href);
  const [{ ConfigDocument }, { publishedSchema }] = await Promise.all([
    compiled("declared/document-schema.js"),
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
