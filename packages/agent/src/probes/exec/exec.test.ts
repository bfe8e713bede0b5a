import { execFileSync } from "node:child_process";
import { appendFileSync, chmodSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { outcomeOf, testRunner } from "../../testing.ts";
import type { Command } from "./commands.ts";
import { splitLine } from "./perfdata.ts";

const shell = (script: string, more: Partial<Command> = {}): Command => ({
  argv: ["/bin/sh", "-c", script],
  env: {},
  ...more,
});
const run = async (command: Command | null, timeout = 5000) =>
  await outcomeOf(
    testRunner({ commands: () => (command === null ? null : new Map([["it", command]])) }).run("org", {
      type: "exec",
      command: "it",
      timeout,
    }),
  );
const isThere = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};
const gone = async (t: Test, pid: number) => {
  while (isThere(pid)) await new Promise((settle) => setTimeout(settle, 10));
  t.pass(`${pid} is gone`);
};
/** The process id that a script wrote to a file of the test. */
const written = (file: string): number => Number(readFileSync(file, "utf8"));

t.test("the exit code is the status, the first line the error", async (t) => {
  const cases: [string, string, string | null][] = [
    ["echo OK - fine; exit 0", "up", null],
    ["echo 'DISK WARNING - 9% free'; echo more; exit 1", "degraded", "DISK WARNING - 9% free"],
    ["echo 'CRITICAL - 1% free | /=99%'; exit 2", "down", "CRITICAL - 1% free"],
    ["echo 'UNKNOWN - no such disk'; exit 3", "error", "UNKNOWN - no such disk (exit code 3)"],
    ["exit 2", "down", "exit code 2"],
    ["exit 77", "error", "exit code 77"],
    ["echo 'missing library' >&2; exit 2", "down", "missing library"],
    ["printf '\\n\\nlate line\\033[31m'; exit 2", "down", "late line [31m"],
    ["kill -SEGV $$", "error", "ended by SIGSEGV"],
    ["printf '%2000s' | tr ' ' x; exit 2", "down", "x".repeat(1000)],
  ];
  for (const [script, status, error] of cases)
    matchObject(t, await run(shell(script)), { skip: false, measurement: { status, error } }, script);
});

t.test("a program that cannot run is an error; a key that the agent lacks is no evidence", async (t) => {
  matchObject(t, await run({ argv: ["/nonexistent/plugin"], env: {} }), {
    skip: false,
    measurement: { status: "error", error: "/nonexistent/plugin, or the folder that it runs in, does not exist" },
  });
  matchObject(t, await run({ argv: ["/etc/passwd"], env: {} }), {
    measurement: { error: "/etc/passwd may not be executed" },
  });
  matchObject(t, await run(null), { skip: true, measurement: { error: /^the agent has no file of commands/ } });
  const other = testRunner({ commands: () => new Map() });
  matchObject(t, await outcomeOf(other.run("org", { type: "exec", command: "disk", timeout: 1000 })), {
    skip: true,
    measurement: { status: "error", error: /no \[disk\]/ },
  });
});

t.test("its surroundings: no shell, a fixed environment, empty input, a group of its own", async (t) => {
  const folder = t.testdir({});
  process.env["SM_AGENT_TOKEN"] = "sm_agent_secret";
  t.teardown(() => delete process.env["SM_AGENT_TOKEN"]);
  const show = "env > env; cat > input; cut -d' ' -f5 /proc/$$/stat > group; echo $$ > pid; pwd > cwd";
  await run(shell(show, { cwd: folder, env: { DB: "a b" } }));
  const of = (name: string): string => readFileSync(join(folder, name), "utf8").trim();
  t.strictSame(
    of("env")
      .split("\n")
      .filter((line) => !/^(?:PWD|_|OLDPWD|SHLVL)=/.test(line))
      .sort(),
    ["DB=a b", "LANG=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
  );
  t.equal(of("input"), "");
  t.equal(of("group"), of("pid"));
  t.equal(of("cwd"), folder);
  const literal = await run({ argv: ["/bin/echo", "$(id); `id` | x"], env: {} });
  matchObject(t, literal.measurement, { status: "up" });
});

t.test("a descriptor that the agent inherited does not reach its commands", (t) => {
  const folder = t.testdir({ "commands.toml": '[fds]\nargv = ["/bin/sh", "-c", "ls /proc/self/fd > fds"]\n' });
  const agent = fileURLToPath(new URL("../../../bin/sm-agent.js", import.meta.url));
  const file = join(folder, "commands.toml");
  chmodSync(file, 0o600);
  appendFileSync(file, `cwd = "${folder}"\n`);
  // 40 lies behind a gap: Node itself closes those before it only.
  execFileSync("/bin/bash", [
    "-c",
    `exec 40</etc/hostname; "$0" "$1" check exec fds --commands "$2"`,
    process.execPath,
    agent,
    file,
  ]);
  t.strictSame(readFileSync(join(folder, "fds"), "utf8").trim().split("\n"), ["0", "1", "2", "3"]);
  t.end();
});

t.test("one that hangs is killed at the deadline with its whole group", async (t) => {
  const folder = t.testdir({});
  const script = "trap '' TERM; sleep 600 & echo $! > child; echo $$ > pid; echo half; wait";
  matchObject(t, await run(shell(script, { cwd: folder }), 700), {
    skip: false,
    measurement: { status: "error", error: "timed out after 0.7 s" },
  });
  await gone(t, written(join(folder, "pid")));
  await gone(t, written(join(folder, "child")));
});

t.test("one that floods: 64 KiB are read, and beyond 16 MiB it is killed", async (t) => {
  matchObject(t, (await run(shell("head -c 1000000 /dev/zero | tr '\\0' x; exit 1"))).measurement, {
    status: "degraded",
    error: "x".repeat(1000),
  });
  const folder = t.testdir({});
  matchObject(t, (await run(shell("echo $$ > pid; exec yes", { cwd: folder }))).measurement, {
    status: "error",
    error: "/bin/sh failed: it wrote more than 16 MiB",
  });
  await gone(t, written(join(folder, "pid")));
});

t.test("one that forks and leaves: the result comes at the exit, not at the end of its pipes", async (t) => {
  const folder = t.testdir({});
  // The child holds both outputs. Without the rule the run would end at its deadline.
  const { measurement } = await run(
    shell("sleep 600 & echo $! > child; echo 'WARNING - left a child'; exit 1", { cwd: folder }),
    60_000,
  );
  matchObject(t, measurement, { status: "degraded", error: "WARNING - left a child" });
  await gone(t, written(join(folder, "child")));
});

t.test("performance data follow the last | of the first line", (t) => {
  const cases: [string, string, object[]][] = [
    [
      "DISK OK - free space: / 3326 MB (56%); | /=2643MB;5948;@10:20;0;5968",
      "DISK OK - free space: / 3326 MB (56%);",
      [{ label: "/", value: 2643, uom: "MB", warn: "5948", crit: "@10:20", min: 0, max: 5968 }],
    ],
    [
      "a | b | 'it''s here'=1.5s 'x y'=-2e3%;; time=U c=0.000291s;;;0.000000",
      "a | b",
      [
        { label: "it's here", value: 1.5, uom: "s", warn: null },
        { label: "x y", value: -2000, uom: "%" },
        { label: "time", value: null, uom: "" },
        { label: "c", value: 0.000291, uom: "s", min: 0, max: null },
      ],
    ],
    ["no data", "no data", []],
    ["odd | = =1 x= y=1.2.3 'open=1 z=abc ok=1", "odd", [{ label: "open" }, { label: "ok" }]],
    [
      `many | ${Array.from({ length: 80 }, (_, at) => `l${at}=1`).join(" ")}`,
      "many",
      Array.from({ length: 50 }, () => ({})),
    ],
    [`long | ${"y".repeat(101)}=1 ${"'".repeat(60_000)}`, "long", []],
  ];
  for (const [line, text, perfdata] of cases) {
    const found = splitLine(line);
    t.equal(found.text, text);
    t.equal(found.perfdata.length, perfdata.length, line.slice(0, 60));
    matchObject(t, found.perfdata, perfdata);
  }
  t.end();
});

t.test("hostile output: a result always arrives, and shows nothing but text", async (t) => {
  const smile = "\u{1f600}";
  const cases: [output: string, error: string, labels: string[]][] = [
    ["NUL \\000 | 'a\\000b'=1\\000s;\\001;2 c=1", "NUL", ["a\ufffdb", "c"]],
    ["BYTES \\377\\376 | '\\377'=1", "BYTES \ufffd\ufffd", ["\ufffd"]],
    ["TERM \\033]0;x\\007\\033[31m | '\\033[31m'=1s;\\033", "TERM  ]0;x  [31m", ["\ufffd[31m"]],
    ["BIDI \u202egnp\u2028 | '\u202ex\u2029'=1", "BIDI  gnp", ["\ufffdx\ufffd"]],
    ["TAGS <b onload=x> | '<img src=x>'=1<b>;<i>", "TAGS <b onload=x>", ["<img src=x>"]],
    ["PROTO | __proto__=1 constructor=2", "PROTO", ["__proto__", "constructor"]],
    ["BIG | c64=18446744073709551615c big=1e300 inf=1e999 min=-9e15;;;-1e300;1e300", "BIG", ["c64", "big", "min"]],
    [`LONG ${"x".repeat(994)}${smile} | ${smile.repeat(51)}=1 'a'=1`, `LONG ${"x".repeat(994)}\ufffd`, ["a"]],
    ["FORGED\\nOK | all=1\\nexit code 0 | x=1", "FORGED", []],
    ["|||| | = |", "||||", []],
  ];
  for (const [output, error, labels] of cases) {
    const { measurement, skip } = await run({ argv: ["/bin/sh", "-c", 'printf "$0"; exit 2', output], env: {} });
    matchObject(t, { ...measurement, skip }, { status: "down", skip: false }, error.slice(0, 4));
    matchObject(
      t,
      measurement.error!.startsWith(error),
      true,
      JSON.stringify(measurement.error!.slice(0, 40)).replaceAll(/[^ -~]/g, "?"),
    );
    const { perfdata } = (measurement.details ?? { perfdata: [] }) as { perfdata: { label: string; value: unknown }[] };
    t.strictSame(
      perfdata.map(({ label }) => label),
      labels,
      error.slice(0, 4),
    );
    // As the control plane reads the body of a report.
    const unstorable = JSON.stringify(measurement).match(
      /\\u0000|\\ud[89a-f]|[\p{Cc}\u202a-\u202e\u2028]|e\+|\d{17}/iu,
    );
    t.equal(unstorable, null, "nothing that cannot be stored or shown");
  }
});

t.test("a run reports them as details", async (t) => {
  const { measurement } = await run(shell("echo 'LOAD OK | load1=0.5;1;2;0'; exit 0"));
  t.strictSame(measurement.details, {
    perfdata: [{ label: "load1", value: 0.5, uom: "", warn: "1", crit: "2", min: 0, max: null }],
  });
});
