// Packs sm-agent for publishing: a tarball in .build/ that installs without this workspace. The shared package is
// bundled, and typebox, whose 683 files take half of a start to load; other libraries stay dependencies.
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { prepare, root } from "./prepare.mjs";

/** Creates the tarball from compiled output and returns its path. */
export async function packAgent() {
  const source = join(root, "packages/agent");
  const {
    bin: _bin,
    files: _files,
    exports: _exports,
    ...described
  } = JSON.parse(readFileSync(join(source, "package.json"), "utf8"));
  const { "@statusmesh/shared": _shared, typebox: _typebox, ...dependencies } = described.dependencies;

  const out = join(root, ".build/sm-agent");
  rmSync(out, { recursive: true, force: true });
  mkdirSync(join(out, "bin"), { recursive: true });
  await build({
    entryPoints: {
      "sm-agent": join(source, "dist/cli.js"),
      // A thread is started by the path of its file, which is beside the file that starts it.
      "judging-thread": join(source, "dist/probes/judging-thread.js"),
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
  const packed = { ...described, bin: { "sm-agent": "bin/sm-agent.js" }, files: ["bin"], dependencies };
  writeFileSync(join(out, "package.json"), `${JSON.stringify(packed, null, 2)}\n`);
  copyFileSync(join(root, "LICENSE"), join(out, "LICENSE"));
  copyFileSync(join(source, "README.md"), join(out, "README.md"));
  copyFileSync(join(source, "node_modules/typebox/license"), join(out, "bin/typebox.LICENSE"));

  const [{ filename }] = JSON.parse(
    execFileSync("npm", ["pack", "--json", "--pack-destination", join(root, ".build")], {
      cwd: out,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }),
  );
  return join(root, ".build", filename);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  // The build of an image has compiled the agent already.
  if (!process.argv.includes("--built")) prepare({ tests: false });
  process.stdout.write(`${await packAgent()}\n`);
}
