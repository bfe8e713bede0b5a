// Packs sm-agent for publishing: one tarball in .build/ that installs by itself on a machine that has nothing of this
// workspace. What is shared with the control plane is bundled in; published libraries stay dependencies.
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { prepare, root } from "./prepare.mjs";

/** Makes the tarball from compiled output and returns its path. */
export async function packAgent() {
  const source = join(root, "packages/agent");
  const {
    bin: _bin,
    files: _files,
    exports: _exports,
    ...described
  } = JSON.parse(readFileSync(join(source, "package.json"), "utf8"));
  const { "@statusmesh/shared": _shared, ...dependencies } = described.dependencies;

  const out = join(root, ".build/sm-agent");
  rmSync(out, { recursive: true, force: true });
  mkdirSync(join(out, "bin"), { recursive: true });
  await build({
    entryPoints: { "sm-agent": join(source, "dist/cli.js") },
    outdir: join(out, "bin"),
    // What the program loads late stays a file of its own.
    splitting: true,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20",
    external: Object.keys(dependencies).flatMap((name) => [name, `${name}/*`]),
    logLevel: "warning",
  });
  chmodSync(join(out, "bin/sm-agent.js"), 0o755);
  writeFileSync(
    join(out, "package.json"),
    `${JSON.stringify({ ...described, bin: { "sm-agent": "bin/sm-agent.js" }, files: ["bin"], dependencies }, null, 2)}\n`,
  );
  copyFileSync(join(root, "LICENSE"), join(out, "LICENSE"));
  copyFileSync(join(source, "README.md"), join(out, "README.md"));

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
  // An image builds the agent alone, and has done so before.
  if (!process.argv.includes("--built")) prepare({ tests: false });
  process.stdout.write(`${await packAgent()}\n`);
}
