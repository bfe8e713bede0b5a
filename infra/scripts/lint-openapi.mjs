// Lints the OpenAPI document of the program by infra/redocly.yaml. Needs compiled output and no network.
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { root, tool } from "./prepare.mjs";

const { allRoutes } = await import("../../packages/control-plane/dist/app.js");
const { openApiDocument } = await import("../../packages/control-plane/dist/interfaces/openapi/document.js");

// Routes are declared and never called.
const silent = {
  hub: { on: () => () => {}, wait: async () => false, ready: async () => {} },
  ingest: async () => {},
  agentPings: async () => {},
  draining: new AbortController().signal,
};
const document = await openApiDocument(allRoutes(silent), "https://status.example.org", "_sm_session");
const file = join(root, ".build/openapi.json");
fs.mkdirSync(join(root, ".build"), { recursive: true });
fs.writeFileSync(file, JSON.stringify(document, null, 2));

// No telemetry and no search for updates, as in the settings file.
const quiet = { REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" };
const { status, error, stdout, stderr } = spawnSync(
  tool("redocly"),
  ["lint", "--config", join(root, "infra/redocly.yaml"), "--max-problems=50", file],
  {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 64 << 20,
    env: { ...process.env, ...quiet },
  },
);
if (status !== 0) process.stdout.write(`${stdout ?? ""}${stderr ?? ""}${error ? `${error.message}\n` : ""}`);
process.exit(status ?? 1);
