import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Test } from "tap";
import type { expectedCodes, RecordType } from "@statusmesh/shared/checks/dns";

const path = `${process.env["PATH"]}:/usr/sbin:/sbin`;
const isInstalled = (program: string): boolean =>
  spawnSync(program, ["-v"], { env: { PATH: path }, stdio: "ignore" }).error === undefined;

/** False, and the test is skipped, where BIND and dig are not installed; a failure where SM_TEST_REQUIRE names bind. */
export function bindIsThere(t: Test): boolean {
  if (isInstalled("named") && isInstalled("dig")) return true;
  const why = "there is no named, or no dig: install bind9 and bind9-dnsutils";
  const demanded = (process.env["SM_TEST_REQUIRE"] ?? "").split(",").map((name) => name.trim());
  if (demanded.includes("bind")) t.fail(`bind is required: ${why}`);
  else t.pass("needs bind", { skip: why });
  return false;
}

/** A port of loopback that is free for TCP. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  const { port } = server.address() as AddressInfo;
  await new Promise<void>((settle) => server.close(() => settle()));
  return port;
}

/** Starts BIND on loopback, both families, with zones by name: text of a master file, or null for one that is lost. */
export async function startBind(t: Test, zones: Readonly<Record<string, string | null>>): Promise<number> {
  const port = await freePort();
  const names = Object.keys(zones);
  const fileOf = (zone: string): string => `${names.indexOf(zone)}.zone`;
  const folder = t.testdir({
    "named.conf": `
      options {
        directory ".";
        listen-on port ${port} { 127.0.0.1; };
        listen-on-v6 port ${port} { ::1; };
        pid-file none;
        session-keyfile none;
        recursion no;
        allow-query { any; };
        dnssec-validation no;
        notify no;
      };
      controls { };
      ${names.map((zone) => `zone "${zone}" { type primary; file "${fileOf(zone)}"; check-names ignore; };`).join("\n")}
    `,
    ...Object.fromEntries(
      names.flatMap((zone) => (zones[zone] === null ? [] : [[fileOf(zone), `${zones[zone]!.trim()}\n`]])),
    ),
  });
  const child = spawn("named", ["-g", "-c", join(folder, "named.conf"), "-n", "1"], {
    cwd: folder,
    env: { PATH: path },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let log = "";
  child.stderr.on("data", (chunk: Buffer) => (log += String(chunk)));
  t.teardown(() => ended(child));
  while (!/ running$/m.test(log)) {
    if (child.exitCode !== null) throw new Error(`named did not start:\n${log.slice(-2000)}`);
    await sleep(20);
  }
  return port;
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const gone = new Promise((settle) => child.once("exit", settle));
  child.kill("SIGKILL");
  await gone;
}

export interface Dug {
  name: string;
  type: RecordType;
  /** As `expected_rcode` has it. */
  code: (typeof expectedCodes)[number];
  /** The records of the type, as dig prints them. */
  records: string[];
}

/** What dig says to each question. */
export function dig(port: number, questions: readonly (readonly [name: string, type: RecordType])[]): Dug[] {
  const { stdout } = spawnSync(
    "dig",
    [
      "@127.0.0.1",
      "-p",
      String(port),
      "+noall",
      "+comments",
      "+answer",
      "+nocmd",
      "+tries=1",
      ...questions.flatMap(([name, type]) => [name, type]),
    ],
    { encoding: "utf8", env: { PATH: path }, maxBuffer: 16 * 1024 * 1024 },
  );
  const replies = stdout.split(/^;; Got answer:$/m).slice(1);
  if (replies.length !== questions.length) throw new Error(`dig answered ${replies.length} questions`);
  return replies.map((reply, at) => {
    const [name, type] = questions[at]!;
    const [, status = ""] = /status: (\w+)/.exec(reply) ?? [];
    const records = [...reply.matchAll(/^\S+\s+\d+\s+IN\s+(\S+)\s+(.*)$/gm)]
      .filter(([, found]) => found === type)
      .map(([, , data = ""]) => data);
    const code = status === "NOERROR" && records.length === 0 ? "NODATA" : status;
    return { name, type, code: code as Dug["code"], records };
  });
}
