// Writes the schemas of the requests that make objects as JSON: smctl checks files with them, and has no server.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { root } from "./prepare.mjs";

/** For readers and forms; smctl only validates. */
const forReaders = new Set(["description", "examples", "title", "form", "shows"]);

function bare(node) {
  if (Array.isArray(node)) return node.map(bare);
  if (typeof node !== "object" || node === null) return node;
  return Object.fromEntries(
    Object.entries(node)
      .filter(([keyword]) => !forReaders.has(keyword))
      .map(([keyword, value]) => [keyword, keyword === "properties" ? mapped(value) : bare(value)]),
  );
}

const mapped = (fields) => Object.fromEntries(Object.entries(fields).map(([name, node]) => [name, bare(node)]));

function without(schema, field) {
  const { [field]: _, ...properties } = schema.properties;
  return { ...schema, properties, required: schema.required.filter((name) => name !== field) };
}

const domain = (path) => import(pathToFileURL(join(root, "packages/control-plane/dist", path, "schema.js")).href);
const [{ ChannelCreate }, { MaintenanceCreate }, { TargetCreate }, { ComponentCreate, StatusPageCreate }] =
  await Promise.all(
    ["alerting/channels", "alerting/maintenance", "monitoring/targets", "publishing/status-pages"].map(domain),
  );
const bodies = {
  channels: ChannelCreate,
  // smctl has the schema and the rules of each kind of check.
  monitors: without(TargetCreate, "check"),
  status_pages: StatusPageCreate,
  components: ComponentCreate,
  maintenance: MaintenanceCreate,
};
writeFileSync(join(root, "packages/cli/dist/request-bodies.json"), JSON.stringify(mapped(bodies)));
