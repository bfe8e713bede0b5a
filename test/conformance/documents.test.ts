import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { channelKinds, endpointNames } from "@statusmesh/control-plane/alerting/channels/kinds/index";
import { allTools } from "@statusmesh/control-plane/app";
import { configSchema } from "@statusmesh/control-plane/config/config";
import { errorCodes } from "@statusmesh/shared/errors";
import { probedTypes } from "@statusmesh/shared/checks";
import t from "tap";
import { requirementWords } from "../harness/requires.ts";
import { routes } from "./declared.ts";

/* What the documents name exists: files, settings, options, tools, metrics, codes, routes. Lists of kinds are whole. */

const root = join(import.meta.dirname, "../../..");
const pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "packages/agent/README.md", "infra/README.md"].concat(
  readdirSync(join(root, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
);
const read = (file: string): string => readFileSync(join(root, file), "utf8");
/** Every file of the project, except what is installed or compiled. */
const files = ["docs", "infra", "packages", "test"].flatMap(function below(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) =>
    ["node_modules", "dist", ".tap"].includes(entry.name)
      ? []
      : entry.isDirectory()
        ? below(`${folder}/${entry.name}`)
        : [`${folder}/${entry.name}`],
  );
});
const code = files
  .filter((file) => /^(?:test|packages\/[a-z-]+\/src)\/.*\.ts$/.test(file))
  .map(read)
  .join("\n");

/** Texts in backquotes outside blocks of code, without line breaks. */
const quotedIn = (page: string): string[] =>
  [
    ...read(page)
      .replaceAll(/^```[\s\S]*?^```/gm, "")
      .matchAll(/`([^`]+)`/g),
  ].map(([, text]) => text!.replaceAll(/\s+/g, " "));

/** `a/{b,c}.ts` as two paths. */
const expanded = (path: string): string[] => {
  const [all, options] = /\{([^}]+)\}/.exec(path) ?? [];
  return all === undefined ? [path] : options!.split(/, ?/).flatMap((one) => expanded(path.replace(all, one.trim())));
};

t.test("files and folders", (t) => {
  const bases = ["", "packages/control-plane", "packages/control-plane/src", "packages/agent/src", "packages", "test"];
  const names = new Set(files.map((path) => path.split("/").at(-1)));
  /** True when a path starts like this: `test/faults/pooler` is what `npm test` takes. */
  const matches = (pattern: string): boolean => {
    const fits = new RegExp(`^${pattern.replaceAll(".", "\\.").replaceAll("*", "[^/]*")}`);
    return files.some((file) => fits.test(file));
  };
  for (const page of pages)
    for (const text of quotedIn(page)) {
      const isPath = /^(?:[\w.{},<>-]+\/)+[\w.{},<>-]*$/.test(text) && !/^\d|^\.|^application\/|^[A-Z]+\//.test(text);
      const isFile = /^[\w<>.-]+\.(?:ts|mjs|cjs|sql|eta|toml)$/.test(text);
      if (!isPath && !isFile) continue;
      const real = expanded(text).every((path) => {
        const pattern = path.replaceAll(/<[^>]+>|NNNN_name/g, "*");
        if (!path.includes("/")) return names.has(path) || pattern.includes("*") || path === "statusmesh.toml";
        return bases.some((base) => matches(join(base, pattern)));
      });
      // Words with a slash, such as `origin/branch`, are no paths: a path has a folder of the project in it.
      const known = isFile || expanded(text).some((path) => bases.some((base) => startsHere(base, path)));
      if (known) t.ok(real, `${page}: ${text}`);
    }
  t.end();
});

function startsHere(base: string, path: string): boolean {
  const first = path.split("/", 1)[0]!;
  return first !== "" && existsSync(join(root, base, first));
}

t.test("links lead to files, and to headings of pages", (t) => {
  const anchor = (heading: string): string =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\s-]/g, "")
      .trim()
      .replaceAll(/\s/g, "-");
  for (const page of pages)
    for (const [, path = "", hash] of read(page).matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)) {
      const file = path === "" ? page : relative(root, join(root, dirname(page), path));
      t.ok(existsSync(join(root, file)), `${page}: ${path}`);
      if (hash !== undefined)
        t.ok(
          [...read(file).matchAll(/^#+ (.*)$/gm)].some(([, heading]) => anchor(heading!) === hash),
          `${page}: #${hash}`,
        );
    }
  t.end();
});

const leaves = (node: object, path: string[]): string[] =>
  Object.entries(node).flatMap(([name, child]: [string, { properties?: object }]) =>
    child.properties === undefined ? [[...path, name].join(".")] : leaves(child.properties, [...path, name]),
  );
const keys = new Set(leaves(configSchema(endpointNames).properties, []));
const sections = new Set([...keys].flatMap((key) => [key.split(".")[0]!, key.split(".").slice(0, -1).join(".")]));
const variables = new Set([...keys].map((key) => `SM_${key.replaceAll(".", "__").toUpperCase()}`));
const agent = createRequire(import.meta.url).resolve("sm-agent/cli");
const helpOf = (...args: string[]): string =>
  execFileSync(process.execPath, [agent, ...args, "--help"], { encoding: "utf8" });
const runHelp = helpOf("run");

t.test("settings of the control plane and the agent", (t) => {
  const agents = new Set([...runHelp.matchAll(/SM_\w+/g)].map(([name]) => name));
  for (const page of pages) {
    for (const [name] of read(page).matchAll(/\bSM_[A-Z][A-Z0-9_]*[A-Z0-9]\b/g)) {
      const bare = name.replace(/_FILE$/, "");
      const known = [name, bare].some((one) => variables.has(one) || agents.has(one));
      // Of the tests and the start of the program.
      t.ok(known || /^SM_(?:TEST_\w+|CONFIG|AGENT_TOKEN)$/.test(name) || code.includes(name), `${page}: ${name}`);
    }
    for (const text of quotedIn(page)) {
      const key = /^([a-z_]+(?:\.[a-z_]+)+)(?: = .*)?$/.exec(text)?.[1];
      if (key === undefined || !sections.has(key.split(".")[0]!) || /\.(?:ts|sql|md|toml|eta)$/.test(key)) continue;
      t.ok(keys.has(key) || sections.has(key) || code.includes(`"${key}"`), `${page}: ${text}`);
    }
  }
  t.end();
});

t.test("options of the agent: its README has every one of run, and no others", (t) => {
  const readme = read("packages/agent/README.md");
  const listed = new Set([...readme.matchAll(/^- `(--[a-z-]+)`/gm)].map(([, name]) => name!));
  const options = [...runHelp.matchAll(/^ {2}(--[a-z-]+)/gm)].map(([, name]) => name!);
  for (const name of options) t.ok(readme.includes(`\`${name}\``), `the README lacks ${name}`);
  for (const name of listed) t.ok(options.includes(name), `the README lists ${name}`);
  t.end();
});

t.test("check kinds: the README of the agent has an example of each", (t) => {
  const readme = read("packages/agent/README.md");
  const named = [...readme.matchAll(/^(?:\$ )?sm-agent check ([a-z_]+) /gm)].map(([, kind]) => kind!);
  t.strictSame([...new Set(named)].sort(), [...probedTypes].sort());
  t.end();
});

t.test("channel kinds: the table of docs/notifications.md has each, and no others", (t) => {
  const table = /^\| Kind .*\n[\s\S]*?\n\n/m.exec(read("docs/notifications.md"))![0];
  const rows = [...table.matchAll(/^\| (\S.*?) *\|/gm)].map(([, label]) => label!).slice(2);
  // "Telegram bot" is in the row of "Telegram".
  const labels = Object.values(channelKinds).map(({ label }) => label);
  for (const label of labels)
    t.ok(
      rows.some((row) => label.startsWith(row)),
      `the table lacks ${label}`,
    );
  for (const row of rows)
    t.ok(
      labels.some((label) => label.startsWith(row)),
      `the table has ${row}`,
    );
  t.end();
});

t.test("MCP tools, metrics, error codes and routes", (t) => {
  const silent = { on: () => () => {}, wait: async () => false, ready: async () => {} };
  const tools = new Set(allTools({ hub: silent as never }).map(({ name }) => name));
  const paths = new Set(routes.map(({ path }) => path));
  const verbs = new Set([...tools].map((name) => name.split("_")[0]!));
  for (const page of pages) {
    for (const text of quotedIn(page)) {
      if (/^[a-z]+_[a-z_]+$/.test(text) && verbs.has(text.split("_")[0]!) && page === "docs/mcp.md")
        t.ok(tools.has(text) || code.includes(`"${text}"`), `${page}: the tool ${text}`);
      if (/^[A-Z]+(?:_[A-Z]+)+$/.test(text) && !text.startsWith("SM_") && page !== "docs/testing.md")
        t.ok(text in errorCodes || code.includes(text), `${page}: the code ${text}`);
      const route = /^(?:[A-Z]+ )?(\/(?:api|operator)\/[\w{}/-]+)$/.exec(text)?.[1];
      if (route !== undefined && !route.endsWith("/") && !/openapi/.test(route))
        t.ok(paths.has(route) || [...paths].some((path) => path.startsWith(`${route}/`)), `${page}: ${text}`);
    }
    for (const [name] of read(page).matchAll(/\b(?:statusmesh|sm_agent)_[a-z]+_[a-z_]+\b/g)) {
      const own = name.replace(/^(?:statusmesh|sm_agent)_/, "").replace(/_(?:bucket|count|sum)$/, "");
      t.ok(code.includes(`"${own}"`) || code.includes(`${own}`), `${page}: the metric ${name}`);
    }
  }
  t.end();
});

t.test("docs/testing.md names every word of SM_TEST_REQUIRE", (t) => {
  const table = read("docs/testing.md").split("| Word ")[1]!.split("\n\n", 1)[0]!;
  const words = table.split("\n").flatMap((line) => [...(line.split("|")[1] ?? "").matchAll(/`(\w+)`/g)]);
  t.strictSame(words.map(([, word]) => word!).sort(), [...requirementWords].sort());
  t.end();
});

t.test("the checker of expressions names one that is not linear, and one that nobody can judge", async (t) => {
  const planted = String.raw`
    export const blanks = /\{\{\s*\s*\s*\}\}/;
    export const words = /^[a-z]+$/;
    export const made = (name: string) => new RegExp(name + "+");`;
  const file = join(t.testdir({ "planted.ts": planted }), "planted.ts");
  const { status, stderr } = spawnSync(process.execPath, [join(root, "infra/scripts/expressions.mjs"), file], {
    encoding: "utf8",
  });
  t.equal(status, 1);
  t.same(
    [...stderr.matchAll(/^.*planted\.ts:(\d): .* is (.*)$/gm)].map(([, line, what]) => [line, what]),
    [
      ["2", "not linear (3rd degree polynomial)"],
      ["4", "composed at run time"],
    ],
  );
});

t.test("the checker of imports names each that a rule forbids", (t) => {
  const clone = t.testdir({
    packages: {
      shared: { src: { "a.ts": 'import "./b.ts";', "b.ts": 'export * from "./c.ts";', "c.ts": 'import "./a.ts";' } },
      agent: { src: { "d.ts": 'import type {} from "../../cli/src/e.ts";\nimport "./none.ts";' } },
      cli: { src: { "e.ts": 'import "node:fs";' } },
    },
  });
  const { status, stdout } = spawnSync(process.execPath, [join(root, "infra/scripts/dependencies.mjs"), clone], {
    encoding: "utf8",
  });
  t.equal(status, 1);
  const agent = "packages/agent/src/d.ts imports";
  const circle = ["a", "b", "c", "a"].map((name) => `packages/shared/src/${name}.ts`).join(" → ");
  t.strictSame(stdout.trim().split("\n"), [
    `agent-imports-shared-only: ${agent} packages/cli/src/e.ts. The agent is published by itself.`,
    `no-unresolvable: ${agent} ./none.ts. The import leads nowhere.`,
    `no-cycles: ${circle}`,
    "3 faults in 5 files",
  ]);
  t.end();
});
