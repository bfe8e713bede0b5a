import { chmodSync, chownSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { CommandsError, readCommands } from "./commands.ts";

const write = (t: Test, text: string, mode = 0o600): string => {
  const file = join(t.testdir({}), "commands.toml");
  writeFileSync(file, text, { mode });
  chmodSync(file, mode);
  return file;
};
const refused = (t: Test, file: string, message: RegExp) =>
  t.throws(() => readCommands(file), { name: CommandsError.name, message }, String(message));

t.test("a table for each key", (t) => {
  const file = write(
    t,
    `# Nagios plugins
[disk]
argv = ["/usr/lib/nagios/plugins/check_disk", "-w", "10%"]

[my-script_2]
argv = ["/opt/it"]
cwd = "/opt"
env = { HOME = "/opt", EMPTY = "" }
`,
  );
  t.strictSame(
    [...readCommands(file)],
    [
      ["disk", { argv: ["/usr/lib/nagios/plugins/check_disk", "-w", "10%"], env: {} }],
      ["my-script_2", { argv: ["/opt/it"], env: { HOME: "/opt", EMPTY: "" }, cwd: "/opt" }],
    ],
  );
  t.strictSame([...readCommands(write(t, ""))], [], "an empty file has none");
  const me = process.getuid!() === 0 ? "root" : null;
  if (me !== null)
    matchObject(t, readCommands(write(t, `[a]\nargv = ["/x"]\nuser = "root"\n`)).get("a"), { uid: 0, gid: 0 });
  t.end();
});

t.test("a mistake is refused with file and line", (t) => {
  const cases: [string, RegExp][] = [
    ["[disk]\nargv = [", /commands\.toml:2: column \d+ is not valid TOML: /],
    [`[ok]\nargv = ["/x"]\n\n[Disk]\nargv = ["/x"]`, /commands\.toml:4: "Disk" cannot be a key/],
    [`disk = "/x"`, /commands\.toml:1: "disk" is no command: write a table \[disk\]/],
    [`[disk]\ncwd = "/"`, /commands\.toml:1: \[disk\] lacks argv/],
    [`[disk]\n\nargv = "/bin/true"`, /commands\.toml:3: argv is a list of texts/],
    [`[disk]\nargv = []`, /commands\.toml:2: argv is a list/],
    [`[disk]\nargv = ["/x", 3]`, /commands\.toml:2: argv is a list/],
    [`[disk]\nargv = ["check_disk"]`, /commands\.toml:2: the program of argv is an absolute path/],
    [`[disk]\nargv = ["/x"]\ncwd = "tmp"`, /commands\.toml:3: cwd is an absolute path/],
    [`[disk]\nargv = ["/x"]\nenv = { "A-B" = "1" }`, /commands\.toml:3: env is a table/],
    [`[disk]\nargv = ["/x"]\n[disk.env]\nA = 1`, /commands\.toml:3: env is a table/],
    [`[disk]\nargv = ["/x"]\nshell = true`, /commands\.toml:3: there is no field "shell"/],
    [`[disk]\nargv = ["/x"]\nuser = "no-such-account"`, /commands\.toml:3: this machine has no account/],
    [`[a]\nargv = ["/x"]\n[b]\nargv = ["y"]`, /commands\.toml:4: the program/],
  ];
  for (const [text, message] of cases) refused(t, write(t, text), message);
  t.end();
});

t.test("a file that somebody else could change is refused", (t) => {
  const good = `[disk]\nargv = ["/x"]\n`;
  for (const mode of [0o622, 0o660, 0o606])
    refused(t, write(t, good, mode), /commands\.toml: others may write it \(mode 06\d\d\)\. Run: chmod go-w/);
  t.ok(readCommands(write(t, good, 0o644)), "others may read it");
  refused(t, "/nonexistent/commands.toml", /cannot be read \(ENOENT\)/);
  refused(t, t.testdir({}), /is no regular file|EISDIR/);
  const folder = t.testdir({ loose: {} });
  const file = join(folder, "loose", "commands.toml");
  writeFileSync(file, good, { mode: 0o600 });
  chmodSync(join(folder, "loose"), 0o777);
  refused(t, file, /others may replace it in .*loose \(mode 0777\)/);
  chmodSync(join(folder, "loose"), 0o1777);
  t.ok(readCommands(file), "with the sticky bit they cannot");
  if (process.getuid!() === 0) {
    mkdirSync(join(folder, "own"));
    const foreign = join(folder, "own", "commands.toml");
    writeFileSync(foreign, good, { mode: 0o600 });
    chownSync(foreign, 65_534, 65_534);
    refused(t, foreign, /belongs to another account/);
  }
  refused(t, write(t, `#${"x".repeat(1_048_576)}`), /at most 1048576 are read/);
  t.end();
});
