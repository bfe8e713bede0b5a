// Packs the server and the agent for Debian and Ubuntu, each with its unit and with every library inside: dpkg
// downloads nothing. The server's libraries with native code are those of the machine that packs: amd64 or arm64.
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { packAgent } from "./pack-agent.mjs";
import { packServer } from "./pack-server.mjs";
import { describedIn } from "./pack.mjs";
import { prepare, root } from "./prepare.mjs";

const infra = (name) => readFileSync(join(root, "infra", name), "utf8");
/** Where npm puts the program of a package. */
const programOf = (name) => `/opt/${name}/node_modules/${name}/bin/${name}.js`;
const folderOf = (name) => join(root, ".build/deb", name);
/** A unit without the instructions in its header, which the package carries out. */
const unitOf = (name) => infra(`systemd/${name}.service`).replace(/^(?:#.*\n)+\n/, "");
const moved = (text) =>
  text.replaceAll("/opt/statusmesh/packages/control-plane/bin/statusmesh.js", programOf("statusmesh"));

/** The Debian packages, by the names of their npm packages; texts of files by their places. */
const packages = {
  statusmesh: {
    source: "packages/control-plane",
    architecture: { x64: "amd64", arm64: "arm64" }[process.arch],
    depends: "nodejs (>= 20.19), systemd (>= 250), openssl",
    unit: () => moved(unitOf("statusmesh")),
    program: () => moved(infra("systemd/statusmesh.sh")),
    files: () => ({
      "usr/lib/sysusers.d/statusmesh.conf": infra("systemd/statusmesh.sysusers.conf"),
      "etc/statusmesh/statusmesh.toml": infra("statusmesh.example.toml"),
    }),
    // DPKG_ROOT: another root than that of the machine (dpkg --root), where nothing runs.
    setUp: `key="$DPKG_ROOT/etc/statusmesh/kek"
  if [ ! -e "$key" ]; then (umask 077; openssl rand -base64 32 > "$key"); fi
  chmod 0600 "$key"
  if [ -z "$DPKG_ROOT" ]; then systemd-sysusers statusmesh.conf; fi`,
    // The links of PostgreSQL's libraries, which a service could not make in its read-only /opt.
    async complete(home) {
      const binaries = join(home, "node_modules/statusmesh/dist/platform/db/embedded/binaries.js");
      await (await import(pathToFileURL(binaries).href)).findBinaries();
    },
  },
  "sm-agent": {
    source: "packages/agent",
    architecture: "all",
    depends: "nodejs (>= 20.19), systemd (>= 250)",
    unit: () => unitOf("sm-agent").replace("=/usr/local/bin/sm-agent ", "=/usr/bin/sm-agent "),
    program: null,
    files: () => ({ "etc/statusmesh/agent.env": infra("systemd/agent.env") }),
    // It runs as soon as it has a server and a token: nothing is set up before.
    setUp: ":",
    complete: () => {},
  },
};

/** The time of the commit, Unix s, or SOURCE_DATE_EPOCH: that of all files of a release. */
export const releaseTime = () =>
  Number(
    process.env["SOURCE_DATE_EPOCH"] ??
      execFileSync("git", ["log", "-1", "--format=%ct"], { cwd: root, encoding: "utf8" }),
  );

/** Installs a tarball below .build/deb, as npm does everywhere. Returns the folder. */
export function installed(name, tarball) {
  rmSync(folderOf(name), { recursive: true, force: true });
  const home = join(folderOf(name), "opt", name);
  mkdirSync(home, { recursive: true });
  // npm sbom wants a name and a version.
  const { version } = describedIn(packages[name].source);
  writeFileSync(join(home, "package.json"), JSON.stringify({ name: `${name}-installed`, version, private: true }));
  const options = ["--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"];
  execFileSync("npm", ["install", ...options, tarball], { cwd: home, stdio: ["ignore", "ignore", "inherit"] });
  return home;
}

/** Creates a package of the installed npm package and returns its path. `at`: Unix time of its files, s. */
export async function packDeb(name, home, at) {
  const { source, architecture, depends, unit, program, files, setUp, complete } = packages[name];
  await complete(home);
  const out = folderOf(name);
  // They name the tarball by its place on this machine.
  for (const file of ["package.json", "package-lock.json", "node_modules/.package-lock.json"])
    rmSync(join(home, file), { force: true });
  const { version, description } = describedIn(source);
  const put = (path, text, mode = 0o644) => {
    const file = join(out, path);
    mkdirSync(join(file, ".."), { recursive: true });
    writeFileSync(file, text);
    chmodSync(file, mode);
  };
  put(`lib/systemd/system/${name}.service`, unit());
  put(`usr/lib/sysctl.d/60-${name}-ping.conf`, infra("systemd/statusmesh-ping.conf"));
  mkdirSync(join(out, "usr/bin"), { recursive: true });
  if (program === null) symlinkSync(programOf(name), join(out, "usr/bin", name));
  else put(`usr/bin/${name}`, program(), 0o755);
  const own = files();
  for (const [path, text] of Object.entries(own)) put(path, text);
  cpSync(join(root, "LICENSE"), join(out, `usr/share/doc/${name}/copyright`));
  const conffiles = Object.keys(own).filter((path) => path.startsWith("etc/"));
  put("DEBIAN/conffiles", conffiles.map((path) => `/${path}\n`).join(""));
  put("DEBIAN/postinst", postinst(name, setUp), 0o755);
  put("DEBIAN/prerm", prerm(name), 0o755);
  put("DEBIAN/postrm", postrm, 0o755);
  const kilobytes = Number(
    execFileSync("du", ["-s", "--apparent-size", "-k", out], { encoding: "utf8" }).split("\t")[0],
  );
  put(
    "DEBIAN/control",
    [
      `Package: ${name}`,
      `Version: ${version}`,
      `Architecture: ${architecture}`,
      "Maintainer: StatusMesh",
      "Section: net",
      "Priority: optional",
      `Depends: ${depends}`,
      "Recommends: iputils-ping",
      `Installed-Size: ${Math.ceil(kilobytes / 100) * 100}`,
      `Description: ${description}`,
      "",
    ].join("\n"),
  );
  settle(out, at);
  const file = join(root, ".build", `${name}_${version}_${architecture}.deb`);
  execFileSync("dpkg-deb", ["--root-owner-group", "-Zzstd", "--build", out, file], {
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, SOURCE_DATE_EPOCH: String(at) },
  });
  return file;
}

/** Gives every file the same time, and modes that do not follow the umask of who packs. */
function settle(folder, at) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isSymbolicLink()) {
      lutimesSync(path, at, at);
      continue;
    }
    if (entry.isDirectory()) settle(path, at);
    else if (!path.includes("/DEBIAN/")) chmodSync(path, isProgram(path) ? 0o755 : 0o644);
    utimesSync(path, at, at);
  }
  chmodSync(folder, 0o755);
  utimesSync(folder, at, at);
}

const isProgram = (path) => /\/usr\/bin\/|\/bin\/[^/]+$|\/native\/bin\//.test(path);

const postinst = (name, setUp) => `#!/bin/sh
set -e
if [ "$1" = configure ]; then
  ${setUp}
  if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
    # Without it there are no ping checks until the machine starts again. A container may not set it.
    /lib/systemd/systemd-sysctl 60-${name}-ping.conf || true
    systemctl daemon-reload
    if [ -n "$2" ]; then systemctl try-restart ${name}.service; fi
  fi
fi
`;
const prerm = (name) => `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  systemctl disable --now ${name}.service
fi
`;
// The data stay: deleting them is a decision of their own.
const postrm = `#!/bin/sh
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
`;

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  prepare({ tests: false });
  const at = releaseTime();
  // The package of the server has that of the agent inside: it is packed first.
  const tarballs = { statusmesh: await packServer(), "sm-agent": await packAgent() };
  for (const [name, tarball] of Object.entries(tarballs))
    process.stdout.write(`${await packDeb(name, installed(name, tarball), at)}\n`);
}
