// Checks the templates like code: each becomes a TypeScript function of `it` and `h`, and the compiler reads them all.
//
// The type of `it` is, in this order: the one that the template declares in a comment of its first tag,
// `/* it: { … } */` (types are imported from the compiled control plane as `import("#src/…")`); the data of the pages
// that name the view; what the templates have that include it without data of their own.
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { compilation, prepare, root } from "./prepare.mjs";

/** The argument is another folder of templates, for tests. */
const folder = resolve(root, process.argv[2] ?? "packages/control-plane/views");
const out = join(root, ".build", `views-${process.pid}`);
const tag = /<%([=~]?)(.*?)%>/gs;

/** Name of a template as an identifier. */
const identifier = (name) => name.replaceAll(/\W/g, "_");
/** Text outside tags: only its line breaks, and spaces that keep the columns. */
const blank = (text) => text.replaceAll(/[^\n]/g, " ");

/** The template as statements, every one in the line and column that it has there. */
function statements(text) {
  let code = "";
  let at = 0;
  for (const match of text.matchAll(tag)) {
    const [whole, sign, inside] = match;
    code += blank(text.slice(at, match.index));
    // `<%=` and `%>` are as long as `;ª(` and `);`.
    code += sign === "" ? `  ${inside}; ` : `${sign === "=" ? ";ª(" : ";º("}${inside});`;
    at = match.index + whole.length;
  }
  return code + blank(text.slice(at));
}

const names = fs
  .readdirSync(folder, { recursive: true })
  .filter((name) => name.endsWith(".eta"))
  .map((name) => name.slice(0, -4))
  .sort();
const texts = new Map(names.map((name) => [name, fs.readFileSync(join(folder, `${name}.eta`), "utf8")]));
const declared = (text) => /^<%\s*\/\* it: (.*?)\s*\*\//s.exec(text)?.[1];

/** The type of `it` in a view that declares none. */
function inherited(name) {
  const parents = names.filter((other) => new RegExp(`include\\("/${name}"\\)`).test(texts.get(other)));
  return [`PageData<"${name}">`, ...parents.map((parent) => `It_${identifier(parent)}`)].join(" | ");
}

function types() {
  const its = names.map(
    (name) => `export type It_${identifier(name)} = ${declared(texts.get(name)) ?? inherited(name)};`,
  );
  const map = names.map((name) => `  "${name}": It_${identifier(name)};`);
  return `import type { AppViews } from "#src/app";
import type { Markup } from "#src/platform/html/markup";
export type { Helpers } from "#src/platform/html/views";
type DataOf<V, N> = V extends { view: infer W; data: infer D } ? (N extends W ? D : never) : never;
type PageData<N> = DataOf<AppViews, N>;
${its.join("\n")}
export interface Its {
${map.join("\n")}
}
type Given<It, D> = D & Omit<It, keyof D>;
/** Data of an include, which are laid over those of the including template. */
export type Fitting<It, D, N extends keyof Its> = Given<It, D> extends Its[N] ? D : Lacking<Its[N], Given<It, D>>;
export type Lacking<Wanted, Got> = {
  [K in keyof Wanted as K extends keyof Got ? (Got[K] extends Wanted[K] ? never : K) : K]: Wanted[K];
};
/** Without the body, which the engine adds. */
export type FittingLayout<It, D, N extends keyof Its> =
  Given<It, D> & { body: string } extends Its[N] ? D : Lacking<Its[N], Given<It, D> & { body: string }>;
export type Printable = string | number | Markup | null | undefined;
`;
}

/** One line, in front of the first line of the template. */
const head = (name) => {
  const fitting = (kind) => `${kind}<It, D, N> & D`;
  const include = `name: \`/\${N}\`, data?: ${fitting("Fitting")}`;
  const layout = `name: \`/\${N}\`, data: ${fitting("FittingLayout")}`;
  return [
    'import type { Fitting, FittingLayout, Helpers, Its, Printable } from "#views/types";',
    `import type { It_${identifier(name)} as It } from "#views/types";`,
    "declare function ª(text: Printable): void; declare function º(markup: string): void;",
    `declare function include<N extends keyof Its, D extends object = object>(${include}): string;`,
    `declare function layout<N extends keyof Its, D extends object>(${layout}): void;`,
    "export function view(it: It, h: Helpers): void { void it; void h; void ª; void º; void include; void layout; { ",
  ].join(" ");
};

/** `views/x.eta(line,column): error …` for each mistake. */
function check() {
  fs.mkdirSync(out, { recursive: true });
  fs.writeFileSync(join(out, "types.d.ts"), types());
  fs.writeFileSync(join(out, "package.json"), '{ "type": "module" }\n');
  for (const [name, text] of texts) {
    const file = join(out, `${name}.ts`);
    fs.mkdirSync(dirname(file), { recursive: true });
    fs.writeFileSync(file, `${head(name)}${statements(text)}\n}}\n`);
  }
  const options = {
    module: "esnext",
    moduleResolution: "bundler",
    target: "es2023",
    lib: ["es2023"],
    types: ["node"],
    typeRoots: ["../../node_modules/@types"],
    strict: true,
    noImplicitAny: false,
    noEmit: true,
    skipLibCheck: true,
    paths: { "#src/*": ["../../packages/control-plane/dist/*.d.ts"], "#views/*": ["./*.d.ts"] },
  };
  fs.writeFileSync(join(out, "tsconfig.json"), JSON.stringify({ compilerOptions: options, include: ["**/*.ts"] }));
  const [program, args, env] = compilation(["-p", out, "--pretty", "false"]);
  const { status, stdout, stderr } = spawnSync(program, args, {
    env,
    cwd: root,
    encoding: "utf8",
    maxBuffer: 64 << 20,
  });
  fs.rmSync(out, { recursive: true });
  const short = relative(root, folder);
  const found = `${stdout}${stderr}`.replaceAll(/^\.build\/views-\d+\/(\S+?)\.ts\(/gm, `${short}/$1.eta(`);
  return { status, found };
}

prepare({ bundled: false });
const { status, found } = check();
process.stdout.write(found);
process.exitCode = status;
