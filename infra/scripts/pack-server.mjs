// Packs the server for publishing: a tarball in .build/ that runs with npx. npm installs the libraries; inside is what
// npm lacks: the patched database client, the shared package and the agent, which the server starts. The viewer of the
// API is inside too: its bundle is the only file that is used, and npm would install 120 packages with it.
import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { bundle } from "./bundle.mjs";
import { packAgent } from "./pack-agent.mjs";
import { describedIn, emptyFolder, licensesOf, packed } from "./pack.mjs";
import { prepare, root } from "./prepare.mjs";

const source = "packages/control-plane";
const inside = ["@statusmesh/shared", "postgres", "rapidoc", "sm-agent"];

/** Creates the tarball from compiled output and returns its path. */
export async function packServer() {
  await packAgent();
  const { exports: _exports, devDependencies: _dev, ...described } = describedIn(source);
  const agent = describedIn("packages/agent");
  const shared = describedIn("packages/shared");
  const out = emptyFolder("statusmesh", source);
  for (const folder of ["bin", "migrations", "views", "assets"]) copy(join(source, folder), join(out, folder));
  copy(join(source, "dist"), join(out, "dist"));
  const inputs = await bundle({ main: `${source}/dist/main.js` }, ".build/statusmesh/dist/bundle", {
    place: `${source}/dist/bundle`,
    sourcemap: false,
  });
  writeFileSync(join(out, "dist/bundle/THIRD-PARTY-LICENSES"), licensesOf(inputs));

  const modules = join(out, "node_modules");
  copy("packages/shared/dist", join(modules, "@statusmesh/shared/dist"));
  // Their libraries are those of the package.
  const { dependencies: _of, devDependencies: _, ...plain } = shared;
  writeFileSync(join(modules, "@statusmesh/shared/package.json"), `${JSON.stringify(plain, null, 2)}\n`);
  copy(join(source, "node_modules/postgres"), join(modules, "postgres"));
  copy(".build/sm-agent", join(modules, "sm-agent"));
  const { name, version, license } = describedIn(`${source}/node_modules/rapidoc`);
  const viewer = { name, version, license };
  for (const file of ["rapidoc-min.js", "rapidoc-min.js.LICENSE.txt"])
    copy(`${source}/node_modules/rapidoc/dist/${file}`, join(modules, "rapidoc/dist", file));
  writeFileSync(join(modules, "rapidoc/package.json"), `${JSON.stringify(viewer, null, 2)}\n`);

  const dependencies = Object.fromEntries(
    Object.entries({ ...shared.dependencies, ...agent.dependencies, ...described.dependencies })
      .map(([name, version]) => [name, version === "workspace:*" ? described.version : version])
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );
  return packed(out, {
    ...described,
    name: "statusmesh",
    files: ["bin", "dist", "migrations", "views", "assets"],
    dependencies,
    bundleDependencies: inside,
  });
}

/** Copies what a program needs: neither tests nor what compilers and editors read. */
function copy(from, to) {
  cpSync(join(root, from), to, {
    recursive: true,
    dereference: true,
    filter: (path) =>
      !/\/dist\/(?:testing|bundle)(?:\/|$)|\.test\.|\/testing[^/]*$|\.d\.ts$|\.map$|\.tsbuildinfo$/.test(path),
  });
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  prepare({ tests: false });
  process.stdout.write(`${await packServer()}\n`);
}
