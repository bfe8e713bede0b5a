// The rules of the house about who may import whom; ARCHITECTURE.md says why. Read by infra/scripts/dependencies.mjs.

const fs = require("node:fs");
const path = require("node:path");

const sources = path.join(__dirname, "../packages/control-plane/src");
const src = "^packages/control-plane/src";
/** The rooms of the control plane from the lowest to the highest. Interfaces and operator stand beside each other. */
const rooms = [["platform"], ["access"], ["alerting"], ["monitoring"], ["publishing"], ["interfaces", "operator"]];
/** The domains of alerting from the lowest to the highest; those of a line do not import each other. */
const alerting = [
  ["causes", "channels", "update-templates"],
  ["channel-links", "deliveries", "maintenance"],
  ["incidents"],
  ["acknowledge", "snoozes"],
];
/** Every folder of these rooms is a domain, so that a new one is guarded from its first file. */
const domains = ["access", "alerting", "monitoring", "publishing", "interfaces"].flatMap((room) =>
  fs
    .readdirSync(path.join(sources, room), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => `${room}/${entry.name}`),
);
const unordered = domains.filter(
  (domain) => domain.startsWith("alerting/") && !alerting.flat().includes(domain.slice("alerting/".length)),
);
if (unordered.length > 0) throw new Error(`${unordered.join()} has no place in the order of alerting.`);
const anyDomain = `(?:${domains.join("|")})`;
/** Work that is periodic or done per batch of results enters a domain by its engine.ts too. */
const engines = [
  "alerting/deliveries",
  "alerting/incidents",
  "monitoring/heartbeats",
  "monitoring/pipeline",
  "operator",
];
/** Tests and their helpers reach behind doors on purpose. */
const tests = "\\.test\\.ts$|\\.test\\.[a-z-]+\\.ts$|^packages/control-plane/src/testing/";

module.exports = {
  forbidden: [
    {
      name: "no-cycles",
      severity: "error",
      comment: "Two files that need each other are one idea.",
      from: {},
      to: { circular: true },
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
      name: "cli-imports-shared-only",
      severity: "error",
      comment: "The command line is published by itself and uses the API like any other client.",
      from: { path: "^packages/cli/" },
      to: { path: "^packages/(?!cli/|shared/)" },
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
      name: "config-stands-alone",
      severity: "error",
      comment: "Rooms read the configuration; it knows none of them.",
      from: { path: `${src}/config/`, pathNot: tests },
      to: { path: `${src}/(?!config/)` },
    },
    ...rooms.map((names, index) => ({
      name: `${names.join("-and-")}-import${names.length > 1 ? "" : "s"}-no-higher-room`,
      severity: "error",
      comment: "No import climbs, types included: app.ts and serve.ts hand a room what it needs from a higher one.",
      from: { path: `${src}/(?:${names.join("|")})/`, pathNot: tests },
      to: {
        path: [
          `${src}/[a-z-]+\\.ts$`,
          ...rooms
            .slice(index + 1)
            .flat()
            .map((higher) => `${src}/${higher}/`),
        ],
      },
    })),
    ...alerting.map((names, index) => ({
      name: `${names.join("-and-")}-import${names.length > 1 ? "" : "s"}-nothing-above`,
      severity: "error",
      comment: "No circle among the domains of alerting: a message needs its channels, an incident its messages.",
      from: { path: `${src}/alerting/(${names.join("|")})/`, pathNot: tests },
      to: {
        path: `${src}/alerting/(?:${alerting.slice(index).flat().join("|")})/`,
        pathNot: `${src}/alerting/$1/`,
      },
    })),
    {
      name: "database-knows-no-caller",
      severity: "error",
      comment: "context.ts holds a connection, so what connects does not import it.",
      from: { path: `${src}/platform/(?:db|process)/`, pathNot: tests },
      to: { path: `${src}/platform/[a-z]+\\.ts$` },
    },
    {
      name: "interfaces-and-operator-are-apart",
      severity: "error",
      comment: "They stand beside each other on top of all domains.",
      from: { path: `${src}/(interfaces|operator)/`, pathNot: tests },
      to: { path: `${src}/(?:interfaces|operator)/`, pathNot: `${src}/$1/` },
    },
    ...domains
      .filter((domain) => !engines.includes(domain))
      .map((domain) => ({
        name: `one-door-from-${domain.replace("/", "-")}`,
        severity: "error",
        comment: "A domain is entered by the service.ts or schema.ts of it or of its folders.",
        from: { path: `${src}/${domain}/`, pathNot: tests },
        to: {
          path: `${src}/${anyDomain}/`,
          pathNot: [`${src}/${domain}/`, `${src}/${anyDomain}/(?:[a-z-]+/)?(?:service|schema)\\.ts$`],
        },
      })),
    ...engines.map((folder) => ({
      name: `engine-door-from-${folder.replace("/", "-")}`,
      severity: "error",
      comment: "Periodic work and work per batch of results also uses a domain's engine.ts, which is made for it.",
      from: { path: `${src}/${folder}/`, pathNot: tests },
      to: {
        path: `${src}/${anyDomain}/`,
        pathNot: [`${src}/${folder}/`, `${src}/${anyDomain}/(?:[a-z-]+/)?(?:service|schema|engine)\\.ts$`],
      },
    })),
    {
      name: "one-evidence-path",
      severity: "error",
      comment:
        "Only changeEvidence (incidents/evidence/evidence.ts) locks and writes evidence and records what follows.",
      from: { path: `${src}/`, pathNot: [`${src}/alerting/incidents/evidence/evidence\\.ts$`, tests] },
      to: { path: `${src}/alerting/incidents/evidence/(?:queries|record)\\.ts$` },
    },
    {
      name: "app-is-the-top",
      severity: "error",
      comment: "Nothing but the start of the program imports app.ts.",
      from: { pathNot: [`${src}/(?:main|serve)\\.ts$`, tests, "^test/"] },
      to: { path: `${src}/app\\.ts$` },
    },
  ],
};
