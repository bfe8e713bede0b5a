// Packs the server and its unit for Debian and Ubuntu, with every library inside: dpkg downloads nothing. The libraries
// with native code are those of the machine that packs: amd64 or arm64.
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { packServer } from "./pack-server.mjs";
import { describedIn } from "./pack.mjs";
import { prepare, root } from "./prepare.mjs";

const architecture = { x64: "amd64", arm64: "arm64" }[process.arch];
const program = "/opt/statusmesh/node_modules/statusmesh/bin/statusmesh.js";

/** Installs the tarball of the server into .build/deb, as npm does everywhere. Returns the folder. */
export function installed(tarball) {
  const out = join(root, ".build/deb");
  rmSync(out, { recursive: true, force: true });
  const home = join(out, "opt/statusmesh");
  mkdirSync(home, { recursive: true });
  // npm sbom wants a name and a version.
  const { version } = describedIn("packages/control-plane");
  writeFileSync(join(home, "package.json"), JSON.stringify({ name: "statusmesh-installed", version, private: true }));
  const options = ["--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"];
  execFileSync("npm", ["install", ...options, tarball], { cwd: home, stdio: ["ignore", "ignore", "inherit"] });
  return home;
}

/** Creates the package and returns its path. `at`: Unix time of its files, s. */
export async function packDeb(tarball, at) {
  const home = installed(tarball);
  // The links of PostgreSQL's libraries, which a service could not make in its read-only /opt.
  const binaries = join(home, "node_modules/statusmesh/dist/platform/db/embedded-binaries.js");
  await (await import(pathToFileURL(binaries).href)).findBinaries();
  const out = join(root, ".build/deb");
  // Both name the tarball by its place on this machine.
  for (const file of ["package.json", "package-lock.json", "node_modules/.package-lock.json"])
    rmSync(join(home, file), { force: true });
  const { version, description } = describedIn("packages/control-plane");
  const infra = (name) => readFileSync(join(root, "infra", name), "utf8");
  const put = (path, text, mode = 0o644) => {
    const file = join(out, path);
    mkdirSync(join(file, ".."), { recursive: true });
    writeFileSync(file, text);
    chmodSync(file, mode);
  };
  const moved = (text) => text.replaceAll("/opt/statusmesh/packages/control-plane/bin/statusmesh.js", program);
  put("lib/systemd/system/statusmesh.service", moved(infra("systemd/statusmesh.service")).replace(/^(?:#.*\n)+\n/, ""));
  put("usr/bin/statusmesh", moved(infra("systemd/statusmesh.sh")), 0o755);
  put("usr/lib/sysusers.d/statusmesh.conf", infra("systemd/statusmesh.sysusers.conf"));
  put("usr/lib/sysctl.d/60-statusmesh-ping.conf", infra("systemd/statusmesh-ping.conf"));
  put("etc/statusmesh/statusmesh.toml", infra("statusmesh.example.toml"));
  cpSync(join(root, "LICENSE"), join(out, "usr/share/doc/statusmesh/copyright"));
  put("DEBIAN/conffiles", "/etc/statusmesh/statusmesh.toml\n");
  put("DEBIAN/postinst", postinst, 0o755);
  put("DEBIAN/prerm", prerm, 0o755);
  put("DEBIAN/postrm", postrm, 0o755);
  const kilobytes = Number(
    execFileSync("du", ["-s", "--apparent-size", "-k", out], { encoding: "utf8" }).split("\t")[0],
  );
  put(
    "DEBIAN/control",
    [
      "Package: statusmesh",
      `Version: ${version}`,
      `Architecture: ${architecture}`,
      "Maintainer: StatusMesh",
      "Section: net",
      "Priority: optional",
      "Depends: nodejs (>= 20.19), systemd (>= 250), openssl",
      "Recommends: iputils-ping",
      `Installed-Size: ${Math.ceil(kilobytes / 100) * 100}`,
      `Description: ${description}`,
      "",
    ].join("\n"),
  );
  settle(out, at);
  const file = join(root, ".build", `statusmesh_${version}_${architecture}.deb`);
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

// DPKG_ROOT: another root than that of the machine (dpkg --root), where nothing runs.
const postinst = `#!/bin/sh
set -e
if [ "$1" = configure ]; then
  key="$DPKG_ROOT/etc/statusmesh/kek"
  if [ ! -e "$key" ]; then (umask 077; openssl rand -base64 32 > "$key"); fi
  chmod 0600 "$key"
  if [ -z "$DPKG_ROOT" ]; then
    systemd-sysusers statusmesh.conf
    if [ -d /run/systemd/system ]; then
      systemctl daemon-reload
      if [ -n "$2" ]; then systemctl try-restart statusmesh.service; fi
    fi
  fi
fi
`;
const prerm = `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  systemctl disable --now statusmesh.service
fi
`;
// The data stay: deleting them is a decision of their own.
const postrm = `#!/bin/sh
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
`;

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  prepare({ tests: false });
  process.stdout.write(`${await packDeb(await packServer(), Math.floor(Date.now() / 1000))}\n`);
}
