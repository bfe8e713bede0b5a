import { call } from "./api.js";
import { say } from "./dom.js";
import { yamlOf } from "./yaml.js";

// Exports as YAML. Loaded with the first press of a button.

/** Exports everything, a project, or the monitor that the button names. */
export function exportOf(button) {
  const { id, managed_by, project } = JSON.parse(button.dataset.export);
  void (id ? exportMonitors([{ id, managed_by }]) : exportDocument(project));
}

async function exported(project) {
  const answer = await call("GET", `/api/v1/config/export${project ? `?project=${encodeURIComponent(project)}` : ""}`);
  if (answer.ok) return answer.data;
  say(answer.error.message, "down");
  return null;
}

async function exportDocument(project) {
  const found = await exported(project);
  if (found) save(found.document, found.secrets);
}

/** Saves monitors, given with their ids and `managed_by`, and the channels that they notify, as a file. */
export async function exportMonitors(chosen) {
  const projects = new Set(chosen.map(({ managed_by: managed }) => managed?.project ?? null));
  const [only] = projects;
  const found = await exported(projects.size === 1 ? only : null);
  if (!found) return;
  const document = partOf(found.document, chosen);
  const count = Object.keys(document.monitors).length;
  if (count < chosen.length)
    say(`${chosen.length - count} are declared by other projects and left out: export them separately.`, "down");
  if (count > 0) save(document, found.secrets);
}

/** A document with some of its monitors, and the channels that they name. */
export function partOf({ version, project, channels = {}, monitors = {} }, chosen) {
  const ids = new Set(chosen.filter(({ managed_by: managed }) => !managed).map(({ id }) => id));
  const keys = new Set(chosen.flatMap(({ managed_by: it }) => (it?.project === project ? it.key : [])));
  const kept = Object.entries(monitors).filter(([key, { adopt }]) => (adopt ? ids.has(adopt) : keys.has(key)));
  const named = new Set(
    kept.flatMap(([, { alerts = [], escalation }]) =>
      [...alerts, ...(escalation ?? []).flatMap((level) => level.channels)].map((one) => one.channel ?? one),
    ),
  );
  const notified = Object.entries(channels).filter(([key]) => named.has(key));
  return {
    version,
    project,
    ...(notified.length > 0 ? { channels: Object.fromEntries(notified) } : {}),
    monitors: Object.fromEntries(kept),
  };
}

function save(document, secrets) {
  const text = yamlOf(document);
  const names = secrets.map(({ name }) => name).filter((name) => text.includes(`\${${name}}`));
  const head = names.length === 0 ? "" : `# Variables to set: ${names.join(", ")}\n`;
  const address = URL.createObjectURL(new Blob([head + text], { type: "application/yaml" }));
  const link = Object.assign(window.document.createElement("a"), { href: address, download: "statusmesh.yaml" });
  link.click();
  URL.revokeObjectURL(address);
  say(names.length === 0 ? "Exported." : `Exported. Its secrets are ${names.length} variables, listed on top.`);
}
