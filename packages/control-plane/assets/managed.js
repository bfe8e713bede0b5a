import { call } from "./api.js";
import { bodyOf, Unreadable } from "./body.js";
import { collect } from "./collect.js";
import { yamlOf } from "./yaml.js";

// Configuration as code: the change of a form as YAML for the files that declare its object.

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
