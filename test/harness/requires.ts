import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Programs that a test may need beside Node.js. */
export type Requirement =
  | "chromium"
  | "container_socket"
  | "redis"
  | "dovecot"
  | "dpkg"
  | "exim"
  | "mount"
  | "nagios"
  | "namespace"
  | "pgbouncer"
  | "podman"
  | "prometheus"
  | "prosody"
  | "proxies"
  | "slapd"
  | "systemd"
  | "vsftpd";

/** Folder of Debian's package monitoring-plugins-basic. */
export const nagiosPlugins = "/usr/lib/nagios/plugins";

/** Reverse proxies, where Debian's packages put their programs. */
export const proxyPrograms = {
  caddy: "/usr/bin/caddy",
  nginx: "/usr/sbin/nginx",
  haproxy: "/usr/sbin/haproxy",
  apache2: "/usr/sbin/apache2",
};

/** The part of a tap test that this module uses. */
interface Skippable {
  fail(message: string): unknown;
  pass(message: string, extra: { skip: string }): unknown;
}

/** The headless shell takes two thirds of the CPU time of the whole browser, with the same engine. */
const chromiumPlaces = [
  "/usr/bin/chromium-headless-shell",
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
];

/** Path of Chromium: SM_TEST_CHROMIUM, or a usual path; null when there is none. */
export function findChromium(): string | null {
  const named = process.env["SM_TEST_CHROMIUM"];
  return [...(named === undefined ? [] : [named]), ...chromiumPlaces].find((place) => existsSync(place)) ?? null;
}

/** Path of PgBouncer; null when it is not installed. */
export const findPgbouncer = (): string | null =>
  ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"].find((place) => existsSync(place)) ?? null;

/** The Redis to test with: SM_TEST_REDIS, or the default port of this machine. */
const redisUrl = process.env["SM_TEST_REDIS"] ?? "redis://127.0.0.1:6379";

async function redisAnswers(): Promise<boolean> {
  const { hostname, port } = new URL(redisUrl);
  return await new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port || 6379) });
    const done = (there: boolean): void => {
      socket.destroy();
      resolve(there);
    };
    socket.setTimeout(1000, () => done(false));
    socket.on("connect", () => done(true));
    socket.on("error", () => done(false));
  });
}

/**
 * Mounts an empty file system of `bytes` at an existing folder and returns what unmounts it; throws where that is not
 * allowed.
 */
export function mountSmall(folder: string, bytes: number): () => void {
  const { status, stderr, error } = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${bytes}`, "tmpfs", folder], {
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(error?.message ?? stderr.trim());
  return () => void spawnSync("umount", ["-l", folder]);
}

function mountTrouble(): string | null {
  const folder = mkdtempSync(join(tmpdir(), "sm-mount-"));
  try {
    mountSmall(folder, 65_536)();
    return null;
  } catch (error) {
    return (
      `no file system can be mounted (${error instanceof Error ? error.message : String(error)}): run as ` +
      "root on Linux"
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Why a server is not there. */
const server =
  (name: string, packages: string, file = `/usr/sbin/${name}`) =>
  async (): Promise<string | null> =>
    existsSync(file) ? null : `there is no ${name}: install ${packages}`;

const missing: Record<Requirement, () => Promise<string | null>> = {
  chromium: async () =>
    findChromium() === null ? "there is no Chromium: install it, or name it in SM_TEST_CHROMIUM" : null,
  pgbouncer: async () => (findPgbouncer() === null ? "there is no PgBouncer: install it" : null),
  nagios: async () =>
    existsSync(`${nagiosPlugins}/check_disk`)
      ? null
      : `${nagiosPlugins} has no plugins: install monitoring-plugins-basic`,
  prometheus: async () =>
    spawnSync("prometheus", ["--version"]).status === 0 ? null : "there is no Prometheus: install prometheus",
  proxies: async () => {
    const absent = Object.entries(proxyPrograms).filter(([, program]) => !existsSync(program));
    return absent.length === 0 ? null : `there is no ${absent.map(([name]) => name).join(", ")}: install it`;
  },
  dpkg: async () => (spawnSync("dpkg-deb", ["--version"]).status === 0 ? null : "there is no dpkg-deb: install dpkg"),
  podman: async () => {
    const absent = ["podman", "buildah", "runc", "mmdebstrap"].filter((name) => spawnSync(name, ["--version"]).error);
    if (process.getuid?.() !== 0) return "systemd runs in a container of root only: run as root";
    return absent.length === 0 ? null : `there is no ${absent.join(", ")}: install what infra/docker/try.sh names`;
  },
  container_socket: async () =>
    spawnSync("podman", ["--version"]).status === 0 && spawnSync("runc", ["--version"]).status === 0
      ? null
      : "there is no podman with runc: install podman and runc",
  dovecot: server(
    "dovecot",
    "dovecot-imapd, dovecot-pop3d and dovecot-managesieved",
    "/usr/lib/dovecot/managesieve-login",
  ),
  exim: server("exim4", "exim4-daemon-light"),
  prosody: server("prosody", "prosody", "/usr/bin/prosody"),
  slapd: server("slapd", "slapd"),
  vsftpd: server("vsftpd", "vsftpd"),
  systemd: async () =>
    spawnSync("systemd-analyze", ["--version"]).status === 0 ? null : "there is no systemd-analyze: install systemd",
  mount: () => Promise.resolve(mountTrouble()),
  namespace: () => {
    const { status, stderr, error } = spawnSync("unshare", ["--net", "ip", "link", "set", "lo", "up"], {
      encoding: "utf8",
    });
    const why = `no network can be made (${error?.message ?? stderr.trim()}): run as root on Linux, with iproute2`;
    return Promise.resolve(status === 0 ? null : why);
  },
  redis: async () =>
    (await redisAnswers()) ? null : `no Redis answers at ${redisUrl}: start one, or name it in SM_TEST_REDIS`,
};

/** The words of SM_TEST_REQUIRE; those of tests of the packages are in these tests. */
export const requirementWords: readonly string[] = [...Object.keys(missing), "bind", "curl", "openssl"];

/**
 * False, and the test is skipped with the reason, when a requirement is missing. Where SM_TEST_REQUIRE names it
 * (`chromium,redis`), its absence is a failure: a pipeline must not pass because a program is not installed.
 */
export async function requires(t: Skippable, ...needed: Requirement[]): Promise<boolean> {
  const demanded = (process.env["SM_TEST_REQUIRE"] ?? "").split(",").map((name) => name.trim());
  for (const name of needed) {
    const why = await missing[name]();
    if (why === null) continue;
    if (demanded.includes(name)) t.fail(`${name} is required: ${why}`);
    else t.pass(`needs ${name}`, { skip: why });
    return false;
  }
  return true;
}
