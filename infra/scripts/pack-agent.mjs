// Packs sm-agent for publishing: a tarball in .build/ that installs without this workspace. The shared package is
// bundled, and typebox, whose 683 files take half of a start to load; other libraries stay dependencies.
import { chmodSync, copyFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { describedIn, emptyFolder, packed } from "./pack.mjs";
import { prepare, root } from "./prepare.mjs";

/** Creates the tarball from compiled output and returns its path. */
export async function packAgent() {
  const source = "packages/agent";
  const { exports: _exports, devDependencies: _dev, ...described } = describedIn(source);
  const { "@statusmesh/shared": _shared, typebox: _typebox, ...dependencies } = described.dependencies;
  const out = emptyFolder("sm-agent", source);
  await build({
    entryPoints: {
      "sm-agent": join(root, source, "dist/cli.js"),
      // A thread is started by the path of its file, which is beside the file that starts it.
      "judging-thread": join(root, source, "dist/probes/http/judging-thread.js"),
    },
    outdir: join(out, "bin"),
    // Dynamic imports stay separate files.
    splitting: true,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20",
    external: Object.keys(dependencies).flatMap((name) => [name, `${name}/*`]),
    // A tenth less to download. Names stay, and lines short enough for the traces of errors to say where.
    minifyWhitespace: true,
    lineLimit: 500,
    logLevel: "warning",
  });
  chmodSync(join(out, "bin/sm-agent.js"), 0o755);
  copyFileSync(join(root, source, "node_modules/typebox/license"), join(out, "bin/typebox.LICENSE"));
  return packed(out, {
    ...described,
    bin: { "sm-agent": "bin/sm-agent.js" },
    // The package of the server starts it.
    exports: { "./cli": "./bin/sm-agent.js" },
    files: ["bin"],
    dependencies,
  });
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  // The build of an image has compiled the agent already.
  if (!process.argv.includes("--built")) prepare({ tests: false });
  process.stdout.write(`${await packAgent()}\n`);
}
