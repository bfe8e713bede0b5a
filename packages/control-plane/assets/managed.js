import { call } from "./api.js";
import { bodyOf, Unreadable } from "./body.js";
import { collect } from "./collect.js";
import { say } from "./dom.js";
import { yamlOf } from "./yaml.js";

// Configuration as code: the change of a form as YAML for the files that declare its object, and exports.

const channelsPath = "/api/v1/notification-channels";
/** More monitors than this keep their ids, which files may name too. */
const mostLookups = 50;

/** Shows the change of the form below a warning as YAML, while it is made. */
export function changesAsYaml() {
  const box = document.querySelector("[data-managed]");
  const form = document.querySelector('form[data-api^="PATCH"]');
  if (!box || !form) return;
  const { section, key, project } = box.dataset;
  const keyOf = keysOf(project);
  let latest = 0;
  const show = async () => {
    const change = changeOf(form, key);
    const turn = ++latest;
    const fields = change && (await asDeclared(change, keyOf));
    if (turn !== latest) return;
    box.querySelector("[data-change]").hidden = !fields;
    if (fields) box.querySelector("pre").textContent = yamlOf({ [section]: { [key]: fields } });
  };
  form.addEventListener("input", show);
  form.addEventListener("change", show);
}

/** What was changed, with variables in place of secrets; null while there is nothing, or nothing that can be read. */
function changeOf(form, key) {
  try {
    const parts = [null, ...form.querySelectorAll("[data-request]")];
    const bodies = parts.map((part) => bodyOf(form, { onlyChanged: true, part }));
    if (bodies.every((body) => body === null)) return null;
    return withoutSecrets(form, Object.assign({}, ...bodies), key);
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    return null;
  }
}

/** What an export calls the variable of a secret: by the key and the pointer in its check or config. */
const variable = (...parts) =>
  `\${${parts
    .join("/")
    .toUpperCase()
    .replaceAll(/[^A-Z0-9]+/g, "_")
    .replace(/^(?![A-Z])/, "V_")}}`;

function withoutSecrets(form, body, key) {
  for (const control of form.elements) {
    const headers = control.dataset.as === "headers";
    if (!headers && control.type !== "password" && control.dataset.secret === undefined) continue;
    const names = control.name.slice(1).split("/");
    const last = names.at(-1);
    const around = names.slice(0, -1).reduce((at, name) => at?.[name], body);
    if (!around?.[last]) continue;
    const named = [key, ...names.slice(1)];
    around[last] = headers
      ? Object.fromEntries(Object.keys(around[last]).map((name) => [name, variable(...named, name)]))
      : variable(...named);
  }
  return body;
}

/** A change in the words of files: keys in place of ids. */
async function asDeclared(body, keyOf) {
  const { alerts, escalation, depends_on: parents, component_ids: monitors, ...fields } = body;
  if (alerts)
    fields.alerts = await Promise.all(
      alerts.map(async ({ channel_id: id, ...more }) => {
        const key = await keyOf.channel(id);
        if (key !== null && Object.keys(more).length === 0) return key;
        return { ...(key === null ? { channel_id: id } : { channel: key }), ...more };
      }),
    );
  if (escalation !== undefined)
    fields.escalation =
      escalation &&
      (await Promise.all(
        escalation.map(async ({ channel_ids: ids, ...level }) => ({
          ...level,
          channels: await Promise.all(ids.map(async (id) => (await keyOf.channel(id)) ?? { channel_id: id })),
        })),
      ));
  if (parents)
    fields.depends_on = await Promise.all(parents.map(async (id) => (await keyOf.monitor(id)) ?? { target_id: id }));
  if (monitors) {
    const keys = await Promise.all(monitors.map((id) => (monitors.length > mostLookups ? null : keyOf.monitor(id))));
    fields.monitors = keys.filter((key) => key !== null);
    const ids = monitors.filter((_, at) => keys[at] === null);
    if (ids.length > 0) fields.component_ids = ids;
  }
  return fields;
}

/** The keys that objects have in the project, by id; null for others. Each is asked for once. */
function keysOf(project) {
  const inProject = (managed) => (managed?.project === project ? managed.key : null);
  let channels = null;
  const monitors = new Map();
  return {
    async channel(id) {
      const found = await (channels ??= collect(channelsPath));
      return inProject(found.items?.find((one) => one.id === id)?.managed_by);
    },
    async monitor(id) {
      if (!monitors.has(id)) monitors.set(id, call("GET", `/api/v1/targets/${id}`));
      return inProject((await monitors.get(id)).data?.managed_by);
    },
  };
}

/** Buttons that export everything, a project, or the monitor that they name. */
export function exportButtons() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-export]");
    if (!button) return;
    const { id, managed_by, project } = JSON.parse(button.dataset.export);
    if (id) void exportMonitors([{ id, managed_by }]);
    else void exportDocument(project);
  });
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
    say(`${chosen.length - count} are declared by other projects and left out: export those by themselves.`, "down");
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
