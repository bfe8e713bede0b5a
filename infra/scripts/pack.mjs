// What the packages have in common: an empty folder for each, their package.json, libraries that load late, the
// licences of bundled ones, and the tarball.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { root } from "./prepare.mjs";

/** Libraries that the checks load on first use, which esbuild would not see. */
export const lateLibraries = {
  name: "late-libraries",
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]shared[\\/]dist[\\/]checks[\\/].*\.js$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8").replaceAll("createRequire(import.meta.url)(", "require("),
      resolveDir: dirname(path),
    }));
  },
};

/** The package.json of a package of this workspace. */
export const describedIn = (folder) => JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));

/** An empty folder in .build/ with the licence, and the readme of the package where it has one. */
export function emptyFolder(name, source) {
  const out = join(root, ".build", name);
  rmSync(out, { recursive: true, force: true });
  mkdirSync(join(out, "bin"), { recursive: true });
  copyFileSync(join(root, "LICENSE"), join(out, "LICENSE"));
  const readme = join(root, source, "README.md");
  copyFileSync(existsSync(readme) ? readme : join(root, "README.md"), join(out, "README.md"));
  return out;
}

/** Writes package.json into the folder, makes the tarball in .build/ and returns its path. Same files, same bytes. */
export function packed(out, described) {
  writeFileSync(join(out, "package.json"), `${JSON.stringify(described, null, 2)}\n`);
  const [{ filename }] = JSON.parse(
    execFileSync("npm", ["pack", "--json", "--pack-destination", join(root, ".build")], {
      cwd: out,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
      maxBuffer: 64 * 1_048_576,
    }),
  );
  return join(root, ".build", filename);
}

/** The licences of the libraries that these files are of, relative to the root. */
export function licensesOf(inputs) {
  const folders = new Set(
    inputs.flatMap((file) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(join(root, file)) ?? []),
  );
  return [...folders]
    .sort()
    .map((folder) => {
      const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
      const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
      return `${name} ${version} (${license})\n\n${file === undefined ? "" : readFileSync(join(folder, file), "utf8")}`;
    })
    .join(`\n${"-".repeat(80)}\n`);
}
