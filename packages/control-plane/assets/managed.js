import { call } from "./api.js";
import { bodyOf, Unreadable } from "./body.js";
import { collect } from "./collect.js";
import { orgFetch } from "./org.js";
import { yamlOf } from "./yaml.js";

// Configuration as code: the change of a form as YAML for the files that declare its object.

const channelsPath = "/api/v1/notification-channels";
/** More monitors than this keep their ids, which files may name too. */
const mostLookups = 50;

/** Shows changes of the object that a warning is about as YAML, while they are made. */
export function changesAsYaml() {
  const box = document.querySelector("[data-managed]");
  const { section, key, project, id } = box.dataset;
  const keyOf = keysOf(project);
  const change = document.querySelector("[data-builder]") ? componentChanges(id, keyOf) : () => formChanges(key, keyOf);
  let latest = 0;
  const show = async ({ type }) => {
    const turn = ++latest;
    const fields = await change(type);
    if (turn !== latest) return;
    box.querySelector("[data-change]").hidden = !fields;
    if (fields) box.querySelector("pre").textContent = yamlOf({ [section]: { [key]: fields } });
  };
  for (const type of ["input", "change", "refreshed"]) document.addEventListener(type, show);
}

/** What was changed in the forms of the object; null while there is nothing, or nothing that can be read. */
async function formChanges(key, keyOf) {
  const bodies = [...document.querySelectorAll('form[data-api^="PATCH"]')].map((form) => changeOf(form, key));
  const changes = bodies.filter((body) => body !== null);
  return changes.length === 0 ? null : await asDeclared(Object.assign({}, ...changes), keyOf);
}

/** What was changed in a form, with variables in place of secrets. */
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

/**
 * The components of a page, which files have as a whole, with what is typed into their forms; null while they are as
 * they were when the builder was opened. It stores each change at once.
 */
function componentChanges(id, keyOf) {
  let stored = componentsOf(id);
  const opened = stored.then((components) => components && declaredComponents(components, keyOf));
  return async (type) => {
    if (type === "refreshed") stored = componentsOf(id);
    const typed = new Map(
      [...document.querySelectorAll('[data-id] form[data-api^="PATCH"]')].map((form) => [
        form.closest("[data-id]").dataset.id,
        changeOf(form, "") ?? {},
      ]),
    );
    const [before, now] = [await opened, await stored];
    if (!before || !now) return null;
    const components = now.map((component) => ({ ...component, ...typed.get(component.id) }));
    const declared = await declaredComponents(components, keyOf);
    return JSON.stringify(declared) === JSON.stringify(before) ? null : { components: declared };
  };
}

/** The components of a page as they are stored now: a page has at most 1,000. Null when they cannot be read. */
async function componentsOf(id) {
  const path = `/api/v1/status-pages/${id}/components?limit=1000`;
  const reply = await orgFetch(path, { cache: "no-store" }).catch(() => null);
  return reply?.ok ? (await reply.json()).items : null;
}

/** Without the state of a component that has no monitor: files set the first one only. */
async function declaredComponents(components, keyOf) {
  const keys = await monitorKeys(
    components.map((component) => component.target_id),
    keyOf,
  );
  return components.map(({ target_id, public_name, public_description, public_group, show }, at) => {
    const usual = { uptime: true, latency: false, certificate: false };
    const unusual = Object.entries(show).filter(([name, value]) => value !== usual[name]);
    const texts = Object.entries({
      public_name,
      public_description,
      public_group,
      show: unusual.length === 0 ? null : Object.fromEntries(unusual),
    }).filter(([, value]) => value !== null);
    const shown = target_id === null ? { manual: true } : keys[at] === null ? { target_id } : { monitor: keys[at] };
    return { ...shown, ...Object.fromEntries(texts) };
  });
}

/** The keys of monitors by id, null for those that have none; of a long list they are not asked for. */
const monitorKeys = async (ids, keyOf) =>
  await Promise.all(ids.map((id) => (id === null || ids.length > mostLookups ? null : keyOf.monitor(id))));

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
  if (fields.check?.members)
    fields.check = {
      ...fields.check,
      members: await Promise.all(
        fields.check.members.map(async (member) => {
          const key = member.target_id === undefined ? null : await keyOf.monitor(member.target_id);
          return key === null ? member : { monitor: key };
        }),
      ),
    };
  if (monitors) {
    const keys = await monitorKeys(monitors, keyOf);
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
