import { call } from "./api.js";
import { partsOf } from "./body.js";
import { collect } from "./collect.js";
import { deletionQuestion, takeDeletion } from "./deletion.js";
import { announce, ask, el, say, whileDisabled } from "./dom.js";
import { refresh } from "./live.js";

// Changes of many monitors: row checkboxes, or all that match the filters, over the bulk API.

const undoMs = 10_000;
const bar = document.getElementById("bulk");
const number = new Intl.NumberFormat("en");
const count = (n) => `${number.format(n)} ${n === 1 ? "monitor" : "monitors"}`;
/** True while every monitor that matches is meant, not only the ticked ones. */
let all = false;
let deletion = null;

const boxes = () => [...document.querySelectorAll('[name="monitor"]')];
/** Lines of monitors that fail together, each with their number. */
const groups = () => [...document.querySelectorAll('[name="cause"]')];
const ticked = (list) => list.filter((box) => box.checked);
/** Address and number of all that match; the live part of the page says them. */
const source = () => document.querySelector("[data-all-targets]");

function show() {
  const grouped = ticked(groups());
  const chosen = grouped.reduce((sum, box) => sum + Number(box.dataset.count), ticked(boxes()).length);
  const total = Number(source()?.dataset.total ?? 0);
  if (chosen === 0) all = false;
  bar.hidden = chosen === 0;
  bar.querySelector("[data-count]").textContent = `${number.format(all ? total : chosen)} selected`;
  const every = bar.querySelector("[data-every]");
  every.hidden = all || total <= chosen || !source()?.dataset.allTargets;
  every.textContent = `Select all ${number.format(total)} matching`;
  const head = document.querySelector('[name="every"]');
  if (head) {
    head.checked = all || (chosen > 0 && [...boxes(), ...groups()].every((box) => box.checked));
    head.indeterminate = chosen > 0 && !head.checked;
  }
}

function clear() {
  all = false;
  for (const box of [...boxes(), ...groups()]) box.checked = false;
  show();
}

/** The monitors of an address of the list; null after saying why they cannot be read. */
async function read(address) {
  const found = await collect(address);
  if (found.ok) return found.items;
  say(found.error.message, "down");
  return null;
}

/** The chosen monitors, those of chosen groups included; null after saying why they cannot be read. */
async function chosenItems() {
  const address = source()?.dataset.allTargets || "/api/v1/targets";
  if (all) return await read(address);
  const items = new Map(
    ticked(boxes()).map(({ value: id, dataset }) => [id, { id, managed_by: JSON.parse(dataset.managedBy ?? "null") }]),
  );
  for (const { value } of ticked(groups())) {
    const own = new URL(address, location.origin);
    own.searchParams.set("cause", value);
    const found = await read(own.pathname + own.search);
    if (found === null) return null;
    for (const one of found) items.set(one.id, one);
  }
  return [...items.values()];
}

const chosenIds = async () => (await chosenItems())?.map(({ id }) => id) ?? null;

async function exportChosen() {
  const chosen = await chosenItems();
  if (chosen === null) return;
  const { exportMonitors } = await import("./exports.js");
  await exportMonitors(chosen);
}

async function send(ids, action, done) {
  const answer = await call("POST", "/api/v1/targets/bulk-action", { ids, action });
  if (!answer.ok) return answer;
  const { succeeded, failed } = answer.data;
  if (failed.length === 0) say(`${count(succeeded.length)} ${done}.`);
  else say(`${count(succeeded.length)} ${done}, ${number.format(failed.length)} not: ${failed[0].message}`, "down");
  await refresh(true);
  return answer;
}

async function act(action, done) {
  const ids = await chosenIds();
  if (ids === null || ids.length === 0) return;
  const answer = await send(ids, action, done);
  if (!answer.ok) return say(answer.error.message, "down");
  clear();
}

/** Deletes after a delay in which it can be undone. Nothing has been sent until then: closing the page keeps all. */
async function remove() {
  const ids = await chosenIds();
  if (ids === null || ids.length === 0) return;
  if (!(await ask(deletionQuestion(count(ids.length)), "Delete"))) return;
  clear();
  removeSoon(ids);
}

/** Starts the time in which a confirmed deletion can be undone. */
function removeSoon(ids) {
  const undo = el("button", { class: "link", type: "button" }, "Undo");
  const words = `${count(ids.length)} will be deleted in 10 s. Leaving this page keeps them. `;
  const toast = el("p", { class: "toast down", id: "undo" }, words, undo);
  document.querySelector("main").append(toast);
  announce(words);
  const end = () => {
    clearTimeout(deletion?.timer);
    toast.remove();
    deletion = null;
    mark();
  };
  undo.addEventListener("click", () => {
    end();
    say("Nothing was deleted.");
  });
  const timer = setTimeout(async () => {
    end();
    const answer = await send(ids, { type: "delete" }, "deleted");
    if (!answer.ok) say(answer.error.message, "down");
  }, undoMs);
  deletion = { ids: new Set(ids), timer };
  mark();
  undo.focus();
}

/** Marks the rows that are about to be deleted. */
function mark() {
  for (const box of boxes()) box.closest("tr").classList.toggle("leaving", deletion?.ids.has(box.value) ?? false);
}

const fields = {
  tag_add: "tags",
  tag_remove: "tags",
  channel_add: "channel_ids",
  channel_remove: "channel_ids",
  interval_set: "interval",
  regions_set: "regions",
  severity_set: "severity",
};
const done = {
  tags: "tagged anew",
  channel_ids: "bound anew",
  interval: "set to the new interval",
  regions: "probed from the new regions",
  severity: "set to the new severity",
};
const lists = {
  channel_ids: ["/api/v1/notification-channels?limit=1000", "No channels yet."],
  regions: ["/api/v1/regions?limit=1000", "No regions."],
};

/** The choices of a dialog, read when it opens. */
async function choices(form, field) {
  const box = form.querySelector("[data-choices]");
  if (!box) return;
  const [path, none] = lists[field];
  const answer = await call("GET", path);
  const items = answer.ok ? answer.data.items : [];
  box.replaceChildren(
    ...items.map(({ id, name }) =>
      el("label", { class: "radio" }, el("input", { type: "checkbox", name: field, value: id }), name),
    ),
    ...(items.length === 0 ? [el("p", { class: "muted" }, answer.ok ? none : answer.error.message)] : []),
  );
}

async function open(name) {
  const dialog = document.getElementById(`bulk-${name}`);
  const form = dialog.querySelector("form");
  form.reset();
  form.querySelector(".error-note")?.remove();
  dialog.showModal();
  await choices(form, fields[form.elements.type?.value ?? form.dataset.type]);
}

function valueOf(form, field) {
  if (field === "interval") return Number(form.elements.interval.value);
  if (field === "severity") return form.elements.severity.value;
  if (field === "tags") return partsOf(form.elements.tags.value, ",");
  return [...form.querySelectorAll(`[name="${field}"]:checked`)].map((box) => box.value);
}

async function submit(form) {
  const type = form.elements.type?.value ?? form.dataset.type;
  const field = fields[type];
  const ids = await chosenIds();
  if (ids === null) return;
  form.querySelector(".error-note")?.remove();
  const answer = await whileDisabled(form.querySelector("[type=submit]"), () =>
    send(ids, { type, [field]: valueOf(form, field) }, done[field]),
  );
  if (!answer.ok) {
    form.querySelector(".actions").before(el("p", { class: "error-note", role: "alert" }, answer.error.message));
    return;
  }
  form.closest("dialog").close();
  clear();
}

/** Lets the checkboxes of the list and the bar below it work. */
export function bulk() {
  if (!bar) return;
  document.addEventListener("change", (event) => {
    const { name, checked } = event.target;
    if (!["every", "monitor", "cause"].includes(name)) return;
    // The box of the head means everything that the filter shows, also on further pages.
    if (name === "every") for (const box of [...boxes(), ...groups()]) box.checked = checked;
    all = name === "every" && checked && Boolean(source()?.dataset.allTargets);
    show();
  });
  document.addEventListener("refreshed", () => (show(), mark()));
  // A page that comes back from the history must not delete what its owner left.
  window.addEventListener("pagehide", () => clearTimeout(deletion?.timer));
  bar.addEventListener("click", (event) => {
    const { dataset } = event.target.closest("button") ?? { dataset: {} };
    if (dataset.every !== undefined) return ((all = true), show());
    if (dataset.clear !== undefined) return clear();
    if (dataset.act === "delete") return void remove();
    if (dataset.act === "export") return void exportChosen();
    if (dataset.act) return void act({ type: dataset.act }, dataset.said);
    if (dataset.open) void open(dataset.open);
  });
  for (const form of document.querySelectorAll("[data-bulk]")) {
    form.addEventListener("submit", (event) => {
      if (event.submitter?.value === "cancel") return;
      event.preventDefault();
      void submit(form);
    });
  }
  show();
  const asked = takeDeletion();
  if (asked !== null) removeSoon([asked]);
}
