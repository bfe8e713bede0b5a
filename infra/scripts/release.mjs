// Builds everything that a release publishes into .build/release (or a named folder): three npm packages, two Debian
// packages, both charts, a list of components (CycloneDX) and SHA256SUMS. The same commit gives the same bytes: times
// are that of the commit, or SOURCE_DATE_EPOCH.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { packAgent } from "./pack-agent.mjs";
import { packCli } from "./pack-cli.mjs";
import { installed, packDeb, releaseTime } from "./pack-deb.mjs";
import { packServer } from "./pack-server.mjs";
import { prepare, root } from "./prepare.mjs";

const out = resolve(process.argv[2] ?? join(root, ".build/release"));
const read = (program, args, options = {}) =>
  execFileSync(program, args, { cwd: root, encoding: "utf8", maxBuffer: 64 * 1_048_576, ...options });
const at = releaseTime();

prepare({ tests: false });
rmSync(out, { recursive: true, force: true });
// Charts have the names of the npm packages.
mkdirSync(join(out, "charts"), { recursive: true });
const [server, agent, cli] = [await packServer(), await packAgent(), await packCli()];
const homes = { statusmesh: installed("statusmesh", server), "sm-agent": installed("sm-agent", agent) };
writeFileSync(join(out, "sbom.cdx.json"), components(homes.statusmesh));
const debs = [];
for (const [name, home] of Object.entries(homes)) debs.push(await packDeb(name, home, at));
for (const file of [server, agent, cli, ...debs]) copyFileSync(file, join(out, basename(file)));
for (const name of readdirSync(join(root, "infra/helm"))) chart(name);
const sums = readdirSync(out, { recursive: true })
  .filter((name) => statSync(join(out, name)).isFile())
  .sort()
  .map(
    (name) =>
      `${createHash("sha256")
        .update(readFileSync(join(out, name)))
        .digest("hex")}  ${name}\n`,
  );
writeFileSync(join(out, "SHA256SUMS"), sums.join(""));
process.stdout.write(sums.join(""));

/** The components of the server by npm, without what differs from run to run: serial number, time, place. */
function components(folder) {
  const { serialNumber: _, ...bom } = JSON.parse(
    read("npm", ["sbom", "--sbom-format", "cyclonedx", "--omit", "dev"], { cwd: folder }),
  );
  bom.metadata = { ...bom.metadata, timestamp: new Date(at * 1000).toISOString() };
  const text = JSON.stringify(bom, null, 2).replaceAll(`file:${server}`, basename(server));
  return `${text.replaceAll(/"file:[^"]*statusmesh-/g, '"statusmesh-')}\n`;
}

/** A chart as helm package writes it: NAME-VERSION.tgz with the folder inside. */
function chart(name) {
  const version = /^version: (\S+)$/m.exec(readFileSync(join(root, "infra/helm", name, "Chart.yaml"), "utf8"))[1];
  const tar = execFileSync(
    "tar",
    // GNU tar; gzip -n leaves out its name and time.
    [
      "--sort=name",
      `--mtime=@${at}`,
      "--owner=0",
      "--group=0",
      "--numeric-owner",
      "--mode=u=rwX,go=rX",
      "-cf",
      "-",
      name,
    ],
    { cwd: join(root, "infra/helm"), maxBuffer: 64 * 1_048_576 },
  );
  writeFileSync(join(out, "charts", `${name}-${version}.tgz`), execFileSync("gzip", ["-9n"], { input: tar }));
}
