// The rules of the house about who may import whom; ARCHITECTURE.md says why. Run by npm run verify.
const fs = require("node:fs");
const path = require("node:path");

const sources = path.join(__dirname, "../packages/control-plane/src");
/** Folders that import no domain. */
const mechanisms = ["crypto", "db", "email", "html", "http", "outbound"];
/** Folders that use every domain and that no domain imports. */
const entries = ["commands", "jobs", "mcp", "metrics", "openapi", "pipeline", "public"];
/** Every other folder is a domain, so that a new one is guarded from its first file. */
const folders = fs
  .readdirSync(sources, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && ![...mechanisms, ...entries, "testing"].includes(entry.name))
  .map((entry) => entry.name);
const domains = `(?:${folders.join("|")})`;
const src = "^packages/control-plane/src";
/** Tests and their helpers reach behind doors on purpose. */
const tests = "\\.test\\.ts$|\\.test\\.[a-z-]+\\.ts$|^packages/control-plane/src/testing/";

module.exports = {
  forbidden: [
    {
      name: "no-cycles",
      severity: "error",
      comment: "Two files that need each other are one idea.",
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ["type-only"] } },
    },
    {
      name: "no-unresolvable",
      severity: "error",
      comment: "The import leads nowhere.",
      from: {},
      to: { couldNotResolve: true },
    },
    {
      name: "shared-stands-alone",
      severity: "error",
      comment: "shared imports no workspace package.",
      from: { path: "^packages/shared/" },
      to: { path: "^packages/(?!shared/)" },
    },
    {
      name: "agent-imports-shared-only",
      severity: "error",
      comment: "The agent is published by itself.",
      from: { path: "^packages/agent/" },
      to: { path: "^packages/(?!agent/|shared/)" },
    },
    {
      name: "control-plane-imports-shared-only",
      severity: "error",
      comment: "The control plane talks to agents over HTTP, also to its own.",
      from: { path: "^packages/control-plane/" },
      to: { path: "^packages/(?!control-plane/|shared/)" },
    },
    {
      name: "packages-import-no-tests",
      severity: "error",
      comment: "What is shipped does not need the tests.",
      from: { path: "^packages/", pathNot: tests },
      to: { path: `^test/|${tests}` },
    },
    {
      name: "mechanisms-know-no-domain",
      severity: "error",
      comment: "Mechanisms serve every domain and import none.",
      from: { path: `${src}/(?:${mechanisms.join("|")})/`, pathNot: tests },
      to: { path: `${src}/(?:${domains}|pipeline|public|mcp|jobs)/` },
    },
    {
      name: "one-door-per-domain",
      severity: "error",
      comment: "A domain is entered by its service.ts or its schema.ts.",
      from: { path: `${src}/(${domains}|public|mcp)/`, pathNot: tests },
      to: { path: `${src}/${domains}/`, pathNot: [`${src}/$1/`, `${src}/${domains}/(?:service|schema)\\.ts$`] },
    },
    {
      name: "pipeline-enters-by-the-engine-door",
      severity: "error",
      comment: "pipeline, jobs and commands also use a domain's engine.ts, which is made for them.",
      from: { path: `${src}/(?:commands|metrics|pipeline|jobs)/`, pathNot: tests },
      to: { path: `${src}/${domains}/`, pathNot: `${src}/${domains}/(?:service|schema|engine)\\.ts$` },
    },
    {
      name: "one-evidence-path",
      severity: "error",
      comment:
        "Only changeEvidence (incidents/evidence.ts) locks and writes evidence and records what follows from it.",
      from: { path: `${src}/`, pathNot: [`${src}/incidents/evidence\\.ts$`, tests] },
      to: { path: `${src}/incidents/(?:evidence-queries|record)\\.ts$` },
    },
    {
      name: "pipeline-and-doors-are-on-top",
      severity: "error",
      comment: "Only app.ts, main.ts, commands and what starts the program import pipeline, public, mcp and jobs.",
      from: {
        path: `${src}/`,
        pathNot: [`${src}/(?:app|main|serve)\\.ts$`, `${src}/(?:commands|metrics|pipeline|public|mcp|jobs)/`, tests],
      },
      to: { path: `${src}/(?:metrics|pipeline|public|mcp|jobs)/` },
    },
    {
      name: "top-folders-are-apart",
      severity: "error",
      comment: "pipeline, public, mcp and jobs meet in services, not in each other.",
      from: { path: `${src}/(pipeline|public|mcp|jobs)/`, pathNot: tests },
      to: { path: `${src}/(?:pipeline|public|mcp|jobs)/`, pathNot: `${src}/$1/` },
    },
    {
      name: "app-is-the-top",
      severity: "error",
      comment: "Nothing but the start of the program imports app.ts.",
      from: { pathNot: [`${src}/(?:main|serve)\\.ts$`, tests, "^test/"] },
      to: { path: `${src}/app\\.ts$` },
    },
  ],
  options: {
    // Packages meet each other as compiled output: it is where a path ends, not where one begins.
    doNotFollow: { path: "node_modules|/dist/" },
    exclude: { path: "^test/dist/" },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.json" },
    enhancedResolveOptions: { exportsFields: ["exports"], conditionNames: ["import", "types", "default", "node"] },
    reporterOptions: { text: { highlightFocused: true } },
  },
};
