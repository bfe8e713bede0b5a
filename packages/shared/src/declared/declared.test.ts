import { execFileSync, spawnSync } from "node:child_process";
import {
  linkSync,
  mkdirSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import t from "tap";
import { matchObject } from "../testing.ts";
import { checkDocument } from "./check.ts";
import { durationIn } from "../time.ts";
import { mistakeAt, readFiles } from "./files.ts";
import { namedFiles, refuseFiles } from "./named-files.ts";
import { mistakeLine, placeOf } from "./position.ts";
import { fillVariables, withoutValues } from "./variables.ts";
import { parseYaml } from "./yaml.ts";

const mistakesOf = (text: string): string[] => parseYaml(text, "f").mistakes.map(mistakeLine);

t.test("the core schema of YAML 1.2; numbers with a leading zero stay text", (t) => {
  const cases: [string, unknown][] = [
    ["no", "no"],
    ["on", "on"],
    ["Yes", "Yes"],
    ["010", "010"],
    ["-007", "-007"],
    ["01.5", "01.5"],
    ["1_000", "1_000"],
    ["12:30:45", "12:30:45"],
    ["2026-11-23", "2026-11-23"],
    ["0", 0],
    ["-5", -5],
    ["+5", 5],
    ["0o17", 15],
    ["0x1F", 31],
    ["1.5e3", 1500],
    [".5", 0.5],
    ["true", true],
    ["FALSE", false],
    ["~", null],
    ["", null],
    ["'5'", "5"],
    ['"\\u00e4"', "ä"],
    [".inf", ".inf"],
    ["|\n  a\n  b", "a\nb\n"],
  ];
  for (const [text, value] of cases) t.strictSame(parseYaml(`a: ${text}\n`, "f").value, { a: value }, text);
  t.strictSame(mistakesOf("a: 12345678901234567890"), [
    "f:1:4: 12345678901234567890 is too large for a number; put it into quotes if it is a text.",
  ]);
  t.strictSame(parseYaml("on: 1\nnull: 2\n1: 3\n", "f").value, { on: 1, null: 2, 1: 3 }, "keys are texts");
  t.strictSame(parseYaml('{\n\t"a": [1, {"b": "c\\n"}]\n}\n', "f").value, { a: [1, { b: "c\n" }] }, "JSON with tabs");
  t.strictSame(parseYaml("# nothing\n", "f").value, undefined);
  t.strictSame(parseYaml("a: &x [1, 2]\nb: *x\nc: &x 3\nd: *x\n", "f").value, { a: [1, 2], b: [1, 2], c: 3, d: 3 });
  t.end();
});

t.test("what is refused, and where", (t) => {
  const cases: [string, string, RegExp][] = [
    ["a tag", "a: !!binary abcd", /^f:1:4: Tags such as !!binary are not read\.$/],
    ["a tag of a map", "a: !foo\n  b: 1", /^f:1:4: Tags/],
    ["a directive of tags", "%TAG ! tag:x,2000:\n---\na: 1", /Tags are not read/],
    ["a key twice", "a:\n  b: 1\n  c: 2\n  b: 3", /^f:4:3: The key b stands here twice; the first one is in line 2\.$/],
    ["a key twice in JSON", '{"a": 1, "a": 2}', /^f:1:10: The key a stands here twice/],
    ["a list as a key", "? [a]\n: b", /A key must be a text/],
    ["an alias as a key", "a: &x b\n*x : c", /A key must be a text/],
    ["a merge key", "a: &x {b: 1}\nc:\n  <<: *x", /^f:3:3: YAML 1\.2 has no merge keys/],
    ["a prototype", "__proto__: 1", /^f:1:1: __proto__ is not allowed/],
    ["two documents", "a: 1\n---\nb: 2", /^f:2:1: One file has one document/],
    ["an alias without its anchor", "a: *b", /^f:1:4: The alias \*b has no anchor before it/],
    ["a schedule without quotes", "a:\n  cron: */5 * * * *", /^f:2:\d+: Put quotes around a value that begins with \*/],
    ["another one", "- * 3 * * *", /^f:1:\d+: Put quotes around a value/],
    ["one in a flow", "schedule: {cron: */5 3 * * *, timezone: UTC}", /^f:1:\d+: Put quotes around a value/],
    ["a star alone", "a: */5", /^f:1:4: Put quotes around a value/],
    ["a cycle", "a: &x\n  b: *x", /^f:2:6: The alias \*x has no anchor before it, or stands inside of it/],
    ["a list without its end", "a: [1, 2", /^f:1:9: /],
    ["an indentation that fits nothing", "a:\n    b: 1\n  c: 2", /^f:3:1: /],
    [
      "a variable without quotes",
      "a: {b: ${X}, c: 1}",
      /^f:1:9: Inside of \{ \} and \[ \] a \$\{NAME\} stands in quotes/,
    ],
    ["a tab", "a:\n\tb: 1", /^f:2:1: /],
  ];
  for (const [name, text, words] of cases) {
    const [first = "nothing", ...more] = mistakesOf(text);
    matchObject(t, first, words, name);
    t.strictSame(more, [], name);
  }
  t.equal(mistakesOf("a: *x\nb: *y\n").length, 2, "all of them at once");
  t.end();
});

t.test("hostile files are refused where they become hostile, and not read further", (t) => {
  const lots = 1_000_000;
  const laughs = ["a: &a [x,x,x,x,x,x,x,x,x]"];
  for (let at = 1; at < 9; at++) {
    const [name, last] = [String.fromCharCode(97 + at), String.fromCharCode(96 + at)];
    laughs.push(`${name}: &${name} [${`*${last},`.repeat(9)}]`);
  }
  const wide = `a: &a ${JSON.stringify("x".repeat(50_000))}\nb: [${"*a,".repeat(900)}]`;
  const cases: [string, string, RegExp][] = [
    ["billion laughs", laughs.join("\n"), /A file has at most 1000 aliases|10 times as large/],
    ["a list in a list", "[".repeat(lots), /More than 32 levels/],
    ["a map in a map", '{"a":'.repeat(lots / 5), /More than 32 levels/],
    ["blocks", Array.from({ length: 100 }, (_, at) => `${" ".repeat(at)}a:`).join("\n"), /More than 32 levels/],
    ["dashes", `${"- ".repeat(lots / 2)}a`, /More than 32 levels/],
    ["questions", `${"? ".repeat(lots / 2)}a`, /More than 32 levels/],
  ];
  for (const [name, text, words] of cases) {
    const [first] = parseYaml(text, "f").mistakes;
    matchObject(t, first?.message, words, name);
    t.ok(first!.column! < 500, `${name}: the rest is not read`);
  }

  t.match(mistakesOf(wide)[0], /more than 10 times as large/);

  // 32 levels are allowed; an alias does not lead deeper.
  const nested = (levels: number): string => `${"[".repeat(levels)}1${"]".repeat(levels)}`;
  t.strictSame(mistakesOf(nested(32)), []);
  t.match(mistakesOf(nested(33))[0], /More than 32 levels/);
  t.match(mistakesOf(`a: &a ${nested(20)}\nb: [[[[[[[[[[[[[*a]]]]]]]]]]]]]`)[0], /More than 32 levels/);

  // Comparing every key with every other one would take minutes.
  const keys = Array.from({ length: 50_000 }, (_, at) => `k${at}: 1`).join("\n");
  t.strictSame(mistakesOf(`${keys}\nk7: 1`).length, 1);
  // A position has no path, whose length would count for each item.
  const longKey = `${"k".repeat(400_000)}: [${"1,".repeat(20_000)}1]`;
  t.strictSame(mistakesOf(longKey.replace(/^k+/, (key) => `? "${key}"\n`)), []);
  t.end();
});

t.test("pointers lead to lines and columns, of keys and of values", (t) => {
  const { position } = parseYaml(
    "monitors:\n  web/~1:\n    check: {type: http, url: x}\n    tags:\n    - a\n    - b\n",
    "f",
  );
  const at = (pointer: string, ofKey = false): string => mistakeLine(mistakeAt(position, pointer, "x", ofKey));
  t.equal(at("/monitors/web~1~01/check/url"), "f:3:30: x");
  t.equal(at("/monitors/web~1~01/check/url", true), "f:3:25: x");
  t.equal(at("/monitors/web~1~01/tags/1"), "f:6:7: x");
  t.equal(at("/monitors/web~1~01/check/timeout"), "f:3:5: x", "a field that is absent: the object that lacks it");
  t.equal(placeOf(position, "/nothing").line, 1);
  t.end();
});

t.test("a link in a folder reads no file outside of the named folders", (t) => {
  const root = t.testdir({ conf: { "a.yaml": "version: 1\n" }, more: { "b.yaml": "monitors: {}\n" } });
  const [conf, more] = [join(root, "conf"), join(root, "more")];
  writeFileSync(join(root, "secret.yaml"), "secret: |SECRET\n");
  const leading = "It is a link that leads out of the named folders.";
  const mistakesOf = (...paths: string[]) => readFiles(paths).mistakes.map(({ message }) => message);
  symlinkSync("../secret.yaml", join(conf, "file.yaml"));
  t.strictSame(mistakesOf(conf), [leading], "nothing of it is quoted");
  matchObject(t, mistakesOf(join(conf, "file.yaml")), [/SECRET/], "a file that is named itself may be a link");
  unlinkSync(join(conf, "file.yaml"));
  symlinkSync("../more", join(conf, "folder"));
  t.strictSame(mistakesOf(conf), [leading], "nor through a folder");
  t.strictSame(mistakesOf(conf, more), [], "links between named folders are followed");
  t.end();
});

t.test("files of a folder are merged", (t) => {
  const folder = t.testdir({
    "a.yaml": "version: 1\nproject: shop\nmonitors:\n  a: {name: A}\nmoved: {monitors: {x: a}}\nx-any: 1\n",
    ".hidden.yaml": "nonsense",
    "notes.txt": "nonsense",
    sub: {
      "b.yml": "version: 1\nproject: shop\nmonitors:\n  b: {name: B}\nmoved: {monitors: {y: b}}\nx-any: 2\n",
      "c.json": '{"channels": {"ops": {}}}',
      "empty.yaml": "# later\n",
    },
  });
  // As Kubernetes mounts a file, and a folder that leads back.
  mkdirSync(join(folder, "..data"));
  writeFileSync(join(folder, "..data/d.yaml"), "maintenance: {m: {}}\n");
  symlinkSync("..data/d.yaml", join(folder, "d.yaml"));
  symlinkSync(folder, join(folder, "sub/again"));
  symlinkSync("nowhere", join(folder, "sub/link.conf"));
  const { document, position, mistakes, files } = readFiles([folder]);
  t.strictSame(mistakes, []);
  t.equal(files.length, 5);
  t.strictSame(document, {
    version: 1,
    project: "shop",
    monitors: { a: { name: "A" }, b: { name: "B" } },
    moved: { monitors: { x: "a", y: "b" } },
    channels: { ops: {} },
    maintenance: { m: {} },
  });
  matchObject(t, placeOf(position, "/monitors/b"), { file: join(folder, "sub/b.yml"), line: 4 });

  writeFileSync(join(folder, "e.yaml"), "project: other\nversion: 1\ndefaults: {}\nmonitors: {a: {}}\n");
  writeFileSync(join(folder, "f.yaml"), "defaults: {}\n");
  writeFileSync(join(folder, "g.yaml"), Buffer.from([0x61, 0x3a, 0xff]));
  writeFileSync(join(folder, "h.yaml"), "x".repeat(1_048_577));
  const e = join(folder, "e.yaml");
  t.strictSame(
    readFiles([folder]).mistakes.map((one) => mistakeLine(one).replaceAll(`${folder}/`, "")),
    [
      "e.yaml:1:1: project is another one in a.yaml:2.",
      "e.yaml:4:12: a is declared twice: it is in a.yaml:4 too.",
      "f.yaml:1:1: defaults can stand in one file only, and is in e.yaml:3 too.",
      "g.yaml:1:1: It is no UTF-8.",
      "h.yaml:1:1: A file has at most 1 MiB.",
    ],
  );
  t.match(readFiles([join(folder, "absent.yaml")]).mistakes[0]?.message, /absent\.yaml cannot be read \(ENOENT\)/);
  t.match(readFiles([join(folder, "sub/empty.yaml")]).mistakes[0]?.message, /has no configuration/);
  t.ok(e);
  t.end();
});

t.test("variables", (t) => {
  const fill = (text: string, unset?: string) => {
    const { position } = parseYaml(`a: x`, "dir/f");
    const { value, mistakes, used } = fillVariables({ a: text }, position, {
      env: { TOKEN: "s3cret", EMPTY: "", BRACE: "${X}", DOLLAR: "$" },
      readFile: (path, from) => {
        if (path === "key") return `from ${from}\n`;
        throw new Error("It cannot be read (ENOENT).");
      },
      ...(unset === undefined ? {} : { unset }),
    });
    return { value: (value as { a: unknown }).a, mistakes: mistakes.map(mistakeLine), used };
  };
  t.equal(fill("Bearer ${TOKEN}!").value, "Bearer s3cret!");
  t.equal(fill("${file:key}").value, "from dir/f");
  t.equal(fill("$${TOKEN} $TOKEN {TOKEN}").value, "$${TOKEN} $TOKEN {TOKEN}", "the server unescapes");
  t.equal(fill("${BRACE}").value, "$${X}", "a value is no template");
  t.equal(fill("${DOLLAR}{TOKEN}").value, "$${TOKEN}", "nor is what it makes with its surroundings");
  t.strictSame(fill("${UNSET} ${EMPTY}").mistakes, [
    "dir/f:1:4: The variable UNSET is not set.",
    "dir/f:1:4: The variable EMPTY is empty.",
  ]);
  t.match(fill("${file:other}").mistakes[0], /\$\{file:other\}: It cannot be read/);
  t.match(fill("${no name}").mistakes[0], /is no variable/);
  t.match(fill("${TOKEN").mistakes[0], /is no variable/);
  t.match(fill("${constructor}").mistakes[0], /is not set/);
  t.strictSame(fill("Bearer ${UNSET}", "***"), { value: "***", mistakes: [], used: new Map() }, "kept as a whole");
  t.match(fill("${file:other}", "***").mistakes[0], /cannot be read/);
  t.equal(withoutValues("got s3cret here", fill("${TOKEN}").used), "got ${TOKEN} here");
  t.end();
});

t.test("named files are below the folders, and none of the program itself under any name", (t) => {
  const base = realpathSync(
    t.testdir({
      conf: { token: "plain\n", sub: { a: "A" }, late: "x" },
      data: { "postgres.password": "SECRET", postgres: { log: "SECRET" } },
      kek: "SECRET",
    }),
  );
  const [conf, kek, data] = [join(base, "conf"), join(base, "kek"), join(base, "data")];
  const refused = [
    { path: kek, why: "KEK" },
    { path: data, why: "DATA" },
    { path: join(data, "postgres.password"), why: "PASSWORD" },
    { path: join(data, "postgres"), why: "DATABASE" },
    { path: join(base, "absent"), why: "ABSENT" },
  ];
  const readIn = (...folders: string[]) => {
    const read = namedFiles({ folders, refused, hint: " Elsewhere." });
    return (path: string): string => {
      try {
        return read(path, join(conf, "a.yaml"));
      } catch (error) {
        return (error as Error).message;
      }
    };
  };
  const handle = openSync(kek, "r");
  const gone = openSync(join(conf, "gone"), "w+");
  unlinkSync(join(conf, "gone"));
  const link = (to: string, name: string): void => symlinkSync(to, join(conf, name));
  link("../kek", "soft");
  link("soft", "soft2");
  link("/proc/self/environ", "environ");
  link(`/proc/self/fd/${gone}`, "deleted");
  link(`/proc/self/fd/${handle}`, "open");
  link("/dev/zero", "device");
  link("loop", "loop");
  link(`/proc/self/root${join(conf, "token")}`, "root");
  linkSync(kek, join(conf, "hard"));
  linkSync(join(data, "postgres.password"), join(conf, "hard-password"));
  execFileSync("mkfifo", [join(conf, "fifo")]);

  const outside = `It is not below ${conf}. Elsewhere.`;
  const cases: [names: readonly string[], expected: string][] = [
    [["token", "./token", "sub/../token", join(conf, "token"), "sub/../sub/../token", "root"], "plain\n"],
    [["../kek", "soft", "soft2", "sub/../../kek", kek, "/etc/passwd", "environ", "open", "device"], outside],
    [[".", "/proc/self/environ", `/dev/fd/${handle}`, "../absent", "/absent/x", "../conf2/x"], outside],
    [["hard", "sub/../hard"], "KEK"],
    [["hard-password"], "PASSWORD"],
    [["sub", "fifo"], "It is no file."],
    [["deleted", "TOKEN", "to\u212aen", "absent"], "It cannot be read (ENOENT)."],
    [["loop"], "It cannot be read (ELOOP)."],
  ];
  const read = readIn(conf);
  for (const [names, expected] of cases) for (const name of names) t.equal(read(name), expected, name);
  t.match(read("a\0b"), /ERR_INVALID_ARG_VALUE/);

  // Of everything only the program's own files and those of processes are refused.
  const wide = readIn("/");
  t.strictSame(["../kek", "soft", "open", "hard", "../data/postgres.password", "../data/postgres/log"].map(wide), [
    "KEK",
    "KEK",
    "KEK",
    "KEK",
    "PASSWORD",
    "DATABASE",
  ]);
  for (const name of ["environ", "/proc/self/environ", "/proc/1/environ", "/proc/self/task/../cmdline", "device"])
    t.match(wide(name), /^It is a file of \/proc|^It is no file|EACCES/, name);
  t.equal(wide("token"), "plain\n");
  // A secret that was replaced since.
  renameSync(join(conf, "late"), kek);
  t.equal(wide("../kek"), "KEK");
  t.equal(readFiles([kek], refuseFiles(refused)).mistakes[0]?.message, "KEK", "nor is it read as configuration");

  // Mounted and unmounted in between: neither can be left behind.
  const throughMount = (from: string, name: string): string | null => {
    const at = join(conf, "mount");
    if (from === kek) writeFileSync(at, "");
    else mkdirSync(at);
    try {
      if (spawnSync("mount", ["--bind", from, at]).status !== 0) return null;
      const text = read(`mount${name}`);
      execFileSync("umount", [at]);
      return text;
    } finally {
      rmSync(at, { recursive: true });
    }
  };
  if (throughMount(kek, "") === null) t.comment("bind mounts need root: not tried");
  else {
    t.equal(throughMount(kek, ""), "KEK");
    t.equal(throughMount(data, "/postgres.password"), "PASSWORD");
    t.equal(throughMount(join(data, "postgres"), "/log"), "DATABASE");
  }
  t.end();
});

t.test("durations come out whole", (t) => {
  t.equal(durationIn("ms", "5m"), 300_000);
  t.equal(durationIn("s", "500ms"), null);
  t.equal(durationIn("s", "5000ms"), 5);
  t.equal(durationIn("d", "36h"), null);
  t.equal(durationIn("s", "5"), null);
  t.end();
});

t.test("a document is checked as far as it goes without a server", (t) => {
  const faultsOf = (document: object): string[] =>
    checkDocument({ version: 1, project: "shop", ...document }).map(({ pointer, message }) => `${pointer} ${message}`);
  const check = { type: "http", url: "https://example.org" };
  t.strictSame(
    faultsOf({
      defaults: { interval: "30s", check: { timeout: "5s", query: "any kind that has it" } },
      channels: { ops: { config: {} } },
      monitors: {
        a: {
          name: "A",
          check,
          alerts: ["ops", { channel: "ops" }, { channel_id: "x" }],
          depends_on: ["b", { target_id: "x" }],
        },
        b: { name: "B", check: { type: "tcp", host: "example.org", port: 22 }, interval: "1m" },
      },
      status_pages: { p: { components: [{ monitor: "a" }, { manual: true }] } },
      maintenance: { m: { monitors: ["a"], on_remove: "keep" } },
      moved: { monitors: { old: "a" } },
    }),
    [],
  );
  const cases: [object, RegExp][] = [
    [{ version: 2 }, /^\/version version must be 1/],
    [{ project: "Shop" }, /^\/project A project has/],
    [{ monitor: {} }, /^\/monitor There is no field "monitor" here\. Did you mean "monitors"\?/],
    [{ defaults: { interval: "5x" } }, /^\/defaults\/interval interval is a number of s/],
    [{ defaults: { alerts: ["none"] } }, /^\/defaults\/alerts\/0 The document has no key "none"/],
    [{ defaults: { intervall: 5 } }, /^\/defaults\/intervall Monitors have no default .*"interval"\?/],
    [{ monitors: [] }, /^\/monitors monitors must be a map/],
    [{ monitors: { "A B": {} } }, /^\/monitors\/A B A key has/],
    [{ monitors: { a: 1 } }, /a must be a map/],
    [{ monitors: { a: {} } }, /^\/monitors\/a check is missing/],
    [{ monitors: { a: { check: { type: "htp" } } } }, /^\/monitors\/a\/check\/type type must be one of .*"http"\?/],
    [{ monitors: { a: { check: { ...check, url: "ftp://x" } } } }, /^\/monitors\/a\/check\/url /],
    [{ monitors: { a: { check: { ...check, timeout: "1x" } } } }, /timeout is a number of ms/],
    [{ monitors: { a: { check, interval: "500ms" } } }, /interval is a number of s/],
    [{ monitors: { a: { check, alerts: ["ops"] } } }, /^\/monitors\/a\/alerts\/0 The document has no key "ops" in ch/],
    [{ monitors: { a: { check, escalation: [{ channels: ["x"] }] } } }, /escalation\/0\/channels\/0 The document has/],
    [{ monitors: { a: { check, depends_on: ["constructor"] } } }, /depends_on\/0 The document has no key/],
    [
      { monitors: { a: { check, depends_on: ["b"] }, b: { check, depends_on: ["b"] } } },
      /^\/monitors\/b\/depends_on A monitor cannot depend on itself, directly or over others/,
    ],
    [{ monitors: { a: { check, adopt: "a" } } }, /adopt must be the id/],
    [{ maintenance: { a: { on_remove: "pause" } } }, /on_remove must be one of delete, keep/],
    [{ status_pages: { p: { components: [{ monitor: "a" }] } } }, /components\/0\/monitor The document has no key "a"/],
    [{ moved: { monitors: { a: "b" } } }, /a is to move to b, which the document does not have/],
    [{ moved: { monitor: {} } }, /moved has maps from old to new keys/],
  ];
  for (const [document, words] of cases) {
    const faults = faultsOf(document);
    matchObject(t, faults[0] ?? "nothing", words);
    t.equal(faults.length, 1, faults.join("\n"));
  }
  t.end();
});
