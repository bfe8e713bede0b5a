import { execFileSync, spawn, spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { tempFolder } from "../harness/folder.ts";
import { requires } from "../harness/requires.ts";
import { waitFor } from "../harness/wait.ts";

/* What a release publishes: the same bytes twice, nothing of the machine, and packages that run on their own. */

t.setTimeout(1_800_000);

const root = join(import.meta.dirname, "../../..");
const port = 18_471;
// npm would take settings of the test runner for its own.
const env = Object.fromEntries(
  Object.entries(process.env).filter(
    ([name]) => !/^(?:npm_|NODE_OPTIONS|TAP)/i.test(name) || /npm_config_/i.test(name),
  ),
);

t.test("a release", async (t) => {
  if (!(await requires(t, "dpkg"))) return;
  const folder = tempFolder(t, "release");
  const build = (name: string): string => {
    const out = join(folder, name);
    execFileSync(process.execPath, [join(root, "infra/scripts/release.mjs"), out], { env, stdio: "pipe" });
    return out;
  };
  const release = build("first");
  const sums = readFileSync(join(release, "SHA256SUMS"), "utf8");
  const names = sums
    .trim()
    .split("\n")
    .map((line) => line.slice(66));
  t.match(execFileSync("sha256sum", ["--check", "--quiet", "SHA256SUMS"], { cwd: release, encoding: "utf8" }), "");

  await t.test("has everything, and nothing of this machine", (t) => {
    matchObject(t, names, [
      /^charts\/sm-agent-/,
      /^charts\/statusmesh-/,
      "sbom.cdx.json",
      /^sm-agent-.*\.tgz$/,
      /^sm-agent_.*_all\.deb$/,
      /^smctl-.*\.tgz$/,
      /^statusmesh-.*\.tgz$/,
      /^statusmesh_.*\.deb$/,
    ]);
    const bom = JSON.parse(readFileSync(join(release, "sbom.cdx.json"), "utf8")) as { components: { name: string }[] };
    for (const name of ["koa", "postgres", "sharp"])
      t.ok(
        bom.components.some((one) => one.name === name),
        `${name} is listed`,
      );
    for (const name of names) {
      const out = join(folder, "open", name);
      mkdirSync(out, { recursive: true });
      if (name.endsWith(".deb")) execFileSync("dpkg-deb", ["--raw-extract", join(release, name), out]);
      else if (name.endsWith(".tgz")) execFileSync("tar", ["xzf", join(release, name), "-C", out]);
      else execFileSync("cp", [join(release, name), out]);
      for (const word of [root, folder]) {
        const found = spawnSync("grep", ["-rlF", "--", word, out], { encoding: "utf8" });
        t.equal(found.stdout, "", `${name} has no ${word}`);
      }
    }
    t.end();
  });

  await t.test("the files of the Debian packages belong to root, and only root may write them", (t) => {
    for (const deb of names.filter((name) => name.endsWith(".deb"))) {
      const listing = execFileSync("dpkg-deb", ["--contents", join(release, deb)], {
        encoding: "utf8",
        maxBuffer: 64 * 1024 * 1024,
      }).trim();
      const files = listing.split("\n").map((line) => {
        const [mode = "", owner = ""] = line.split(/\s+/);
        return { mode, owner, path: line.slice(line.indexOf("./")) };
      });
      t.ok(files.length > 100, `${deb} has files`);
      t.strictSame(
        files.filter(({ owner }) => owner !== "root/root"),
        [],
        "all belong to root",
      );
      // Links have every bit. setuid, setgid and sticky bits show as s or t.
      const open = ({ mode }: { mode: string }) => !mode.startsWith("l") && !/^[d-]rw[x-]r-[x-]r-[x-]$/.test(mode);
      t.strictSame(files.filter(open), [], "and nobody else may write them");
      t.strictSame(
        files.filter(({ mode, path }) => mode.startsWith("-rwx") && !/^\.\/(usr\/bin|opt)\//.test(path)),
        [],
        "programs are where programs belong",
      );
    }
    t.end();
  });

  await t.test("is the same when it is built again", (t) => {
    t.equal(readFileSync(join(build("second"), "SHA256SUMS"), "utf8"), sums);
    t.end();
  });

  await t.test("the command line and the agent run with npx", (t) => {
    for (const name of ["smctl", "sm-agent"]) {
      const file = names.find((one) => one.startsWith(`${name}-`))!;
      const cwd = join(folder, `npx-${name}`);
      mkdirSync(cwd);
      // npx takes an absolute path for a program.
      copyFileSync(join(release, file), join(cwd, file));
      const ran = spawnSync("npx", ["--yes", `./${file}`, "--version"], { cwd, env, encoding: "utf8" });
      matchObject(t, ran, { status: 0, stdout: /^\d+\.\d+\.\d+$/m }, ran.stderr);
    }
    t.end();
  });

  await t.test("the Debian packages are installed, and the server answers", async (t) => {
    const other = join(folder, "root");
    mkdirSync(join(other, "var/lib/dpkg"), { recursive: true });
    for (const file of ["status", "available"]) writeFileSync(join(other, "var/lib/dpkg", file), "");
    mkdirSync(join(other, "var/lib/dpkg/info"));
    mkdirSync(join(other, "var/lib/dpkg/updates"));
    const debs = names.filter((name) => name.endsWith(".deb")).map((name) => join(release, name));
    const options = [`--root=${other}`, "--force-script-chrootless", "--force-depends", "--force-not-root"];
    const installed = spawnSync("dpkg", [...options, "--install", ...debs], { encoding: "utf8" });
    t.equal(installed.status, 0, installed.stderr);
    t.equal(statSync(join(other, "etc/statusmesh/kek")).mode & 0o777, 0o600, "a key of its own");
    for (const name of ["statusmesh.toml", "agent.env"]) {
      const { mode, uid } = statSync(join(other, "etc/statusmesh", name));
      t.strictSame([mode & 0o777, uid], [0o644, 0], `${name} is readable: it holds no secret`);
    }
    t.equal(Buffer.from(readFileSync(join(other, "etc/statusmesh/kek"), "utf8"), "base64").length, 32);
    const unit = readFileSync(join(other, "lib/systemd/system/statusmesh.service"), "utf8");
    const program = /^ExecStart=\S+ node --enable-source-maps (\S+) serve$/m.exec(unit)![1]!;
    t.ok(statSync(join(other, program)).isFile(), "the unit starts what is there");
    matchObject(t, readFileSync(join(other, "usr/bin/statusmesh"), "utf8"), program);

    const agent = readlinkSync(join(other, "usr/bin/sm-agent"));
    t.match(
      readFileSync(join(other, "lib/systemd/system/sm-agent.service"), "utf8"),
      "\nExecStart=/usr/bin/sm-agent run",
    );
    matchObject(t, spawnSync(process.execPath, [join(other, agent), "--version"], { encoding: "utf8" }), {
      status: 0,
      stdout: /^\d+\.\d+\.\d+$/m,
    });

    const data = join(folder, "data");
    mkdirSync(data, { mode: 0o711 });
    const server = spawn(process.execPath, [join(other, program), "serve"], {
      cwd: data,
      env: {
        PATH: process.env["PATH"],
        SM_SERVER__BIND: `127.0.0.1:${port}`,
        SM_SERVER__PUBLIC_URL: `http://127.0.0.1:${port}`,
        SM_DATA__DIR: join(data, "own"),
        SM_SECURITY__CREDENTIALS_KEK_BASE64_FILE: join(other, "etc/statusmesh/kek"),
      },
      stdio: ["ignore", "ignore", "pipe"],
    });
    let said = "";
    server.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
    const ended = new Promise((settle) => server.once("close", settle));
    try {
      await waitFor("the server", async () => {
        if (server.exitCode !== null) throw new Error(said);
        const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => null);
        return answer?.ok === true;
      });
      t.match(await (await fetch(`http://127.0.0.1:${port}/docs`)).text(), /rapidoc-min/);
      t.match(said, /sign-in/i, "with its own PostgreSQL, it prints the sign-in link");
    } finally {
      server.kill("SIGTERM");
      await ended;
    }
    const removed = spawnSync("dpkg", [...options, "--remove", "statusmesh", "sm-agent"], { encoding: "utf8" });
    t.equal(removed.status, 0, removed.stderr);
    for (const name of ["statusmesh", "sm-agent"])
      t.notOk(existsSync(join(other, "opt", name)), `${name} has written nothing beside its programs`);
    t.ok(statSync(join(other, "etc/statusmesh/agent.env")).isFile(), "settings stay");
    t.ok(statSync(join(other, "etc/statusmesh/kek")).isFile(), "the key stays");
  });

  await t.test("the Debian packages under systemd: start, sandbox, kill, upgrade, removal, purge", async (t) => {
    if (!(await requires(t, "podman"))) return;
    const ran = spawnSync(join(root, "infra/systemd/try.sh"), ["--deb", release], { env, encoding: "utf8" });
    t.equal(ran.status, 0, ran.stdout + ran.stderr);
    for (const line of ran.stdout.split("\n")) if (/ {2}ok {2}/.test(line)) t.comment(line);
  });
});
