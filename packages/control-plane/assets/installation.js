import { announce, button, el, say, whileDisabled } from "./dom.js";
import { clearErrors, readForm, showError } from "./form.js";
import { ask, keep, refuseSecret, secretOf } from "./operator.js";

// All organisations, their plans and overrides. The page is empty until the tab has the operator secret.

const pageSize = 50;
const number = (value) => value.toLocaleString("en-US");
const limitText = (limit) => (limit === null ? "unlimited" : number(limit));
let plans = [];
/** Number of the last request of the list: replies that arrive after a later request are dropped. */
let asked = 0;

const query = () => new URLSearchParams(location.search);
const offset = () => Math.max(0, Math.trunc(Number(query().get("offset"))) || 0);

/** Keeps search and page in the address. */
function open(params) {
  const filled = new URLSearchParams(Object.entries(params).filter(([, value]) => value));
  history.replaceState(null, "", filled.size > 0 ? `${location.pathname}?${filled}` : location.pathname);
  void load();
}

function lock(message) {
  document.getElementById("organisations").hidden = true;
  const form = document.getElementById("unlock");
  form.hidden = false;
  if (message) refuseSecret(form, message);
}

async function load() {
  const own = ++asked;
  const secret = secretOf();
  const params = new URLSearchParams({ limit: pageSize, offset: offset(), q: query().get("q") ?? "" });
  const [list, known] = await Promise.all([
    ask("GET", `/operator/orgs?${params}`, undefined, secret),
    ask("GET", "/operator/plans?limit=1000", undefined, secret),
  ]);
  if (own !== asked) return;
  const failed = [list, known].find(({ ok }) => !ok);
  const locked = !document.getElementById("unlock").hidden;
  if (failed?.status === 401) return lock("The operator secret is wrong. Enter operator.admin_token.");
  if (failed && locked) return showError(document.getElementById("unlock"), failed.error);
  const box = document.querySelector("[data-list-error]");
  box.hidden = !failed;
  if (failed) return void (box.textContent = failed.error.message);
  keep(secret);
  plans = known.data.items;
  document.getElementById("unlock").hidden = true;
  document.getElementById("organisations").hidden = false;
  show(list.data);
}

function show({ items, total }) {
  const list = document.querySelector("[data-list]");
  const searched = query().get("q");
  list.replaceChildren(
    items.length > 0
      ? tableOf(items)
      : el(
          "div",
          { class: "panel empty" },
          el("p", {}, searched ? `No organisation matches ${searched}.` : "No organisations on this page."),
        ),
  );
  announce(`${number(total)} ${total === 1 ? "organisation" : "organisations"}`);
  const pager = document.querySelector("[data-pager]");
  pager.hidden = total <= pageSize && offset() === 0;
  const to = (at, text) => button(text, () => open({ q: query().get("q"), offset: at }));
  const last = offset() + items.length;
  pager.replaceChildren(
    el("span", { class: "muted" }, `${number(Math.min(offset() + 1, last))}–${number(last)} of ${number(total)}`),
    ...(offset() > 0 ? [to(Math.max(0, offset() - pageSize), "Previous")] : []),
    ...(last < total ? [to(last, "Next")] : []),
  );
}

const columns = ["Organisation", "Plan", "Monitors", "Members", "Overrides"];

function tableOf(items) {
  const heads = columns.map((word, at) => el("th", { scope: "col", class: at > 1 ? "num" : null }, word));
  const action = el("th", { scope: "col" }, el("span", { class: "sr" }, "Action"));
  return el(
    "div",
    { class: "panel table" },
    el(
      "table",
      { class: "plain wide stackable organisations" },
      el("thead", {}, el("tr", {}, ...heads, action)),
      el("tbody", {}, ...items.map(rowOf)),
    ),
  );
}

function rowOf(org) {
  const used = (limit) => `${number(org.usage[limit])} of ${limitText(org.limits[limit])}`;
  const full = (limit) => org.limits[limit] !== null && org.usage[limit] >= org.limits[limit];
  const cell = (limit, label) =>
    el("td", { class: full(limit) ? "num full" : "num", "data-label": label }, used(limit));
  const change = button("Change plan", () => void edit(org.id));
  change.append(el("span", { class: "sr" }, ` of ${org.name}`));
  return el(
    "tr",
    {},
    el(
      "th",
      { scope: "row" },
      org.name,
      el("span", { class: "sub" }, org.slug, org.deleted_at === null ? "" : ", deleted"),
      org.owners.length > 0 ? el("span", { class: "sub" }, org.owners.join(", ")) : null,
    ),
    el("td", { class: "nowrap", "data-label": "Plan" }, org.plan),
    cell("max_targets", "Monitors"),
    cell("max_members", "Members"),
    el("td", { class: "num", "data-label": "Overrides" }, number(Object.keys(org.overrides).length)),
    el("td", { class: "num" }, change),
  );
}

/** Opens the dialog with the present state of an organisation, which somebody else may have changed since the list. */
async function edit(id) {
  const answer = await ask("GET", `/operator/orgs/${id}`, undefined, secretOf());
  if (answer.status === 401) return lock("The operator secret is wrong. Enter operator.admin_token.");
  if (!answer.ok) return say(answer.error.message, "down");
  const org = answer.data;
  const dialog = document.getElementById("change-plan");
  const form = dialog.querySelector("form");
  form.reset();
  clearErrors(form);
  form.dataset.org = id;
  form.querySelector("[data-secret]").hidden = true;
  form.querySelector("[data-name]").textContent = org.name;
  const select = form.elements["/plan"];
  select.replaceChildren(...plans.map((plan) => new Option(plan.name, plan.id, false, plan.id === org.plan)));
  for (const row of form.querySelectorAll("[data-limit]")) {
    const name = row.dataset.limit;
    const value = org.overrides[name];
    row.querySelector("select").value = value === undefined ? "plan" : value === null ? "unlimited" : "number";
    row.querySelector("input").value = value ?? org.limits[name] ?? "";
    row.dataset.current = org.usage[name] ?? "";
  }
  showLimits(form);
  dialog.showModal();
  dialog.scrollTop = 0;
}

/** Shows the number of each override, and what the chosen plan allows. */
function showLimits(form) {
  const plan = plans.find(({ id }) => id === form.elements["/plan"].value);
  for (const row of form.querySelectorAll("[data-limit]")) {
    const select = row.querySelector("select");
    const input = row.querySelector("input");
    input.hidden = input.disabled = select.value !== "number";
    select.options[0].textContent = `Plan default (${plan ? limitText(plan.limits[row.dataset.limit]) : "?"})`;
    const { current } = row.dataset;
    row.querySelector("[data-used]").textContent = current === "" ? "" : `${number(Number(current))} used`;
  }
}

async function save(form) {
  clearErrors(form);
  const read = readForm(form);
  if (read === null) return;
  const secret = form.querySelector("[data-operator-secret]").value.trim() || secretOf();
  const overrides = { ...read.body.overrides };
  for (const row of form.querySelectorAll("[data-limit]"))
    if (row.querySelector("select").value === "unlimited") overrides[row.dataset.limit] = null;
  const body = { plan: read.body.plan, overrides };
  const answer = await whileDisabled(form.querySelector("[type=submit]"), () =>
    ask("PATCH", `/operator/orgs/${form.dataset.org}`, body, secret),
  );
  if (answer.status === 401) return refuseSecret(form, "The operator secret is wrong. Enter operator.admin_token.");
  if (!answer.ok) return showError(form, answer.error);
  keep(secret);
  form.closest("dialog").close();
  say("Plan saved.");
  await load();
}

/** Lets the page "Installation" work. */
export function installation() {
  const unlock = document.getElementById("unlock");
  const search = document.querySelector("[data-find]");
  const form = document.querySelector("[data-plan]");
  search.elements.q.value = query().get("q") ?? "";
  unlock.addEventListener("submit", (event) => {
    event.preventDefault();
    clearErrors(unlock);
    const secret = unlock.querySelector("[data-operator-secret]").value.trim();
    if (secret === "") return refuseSecret(unlock, "Enter the operator secret.");
    keep(secret);
    unlock.reset();
    void load();
  });
  let waiting;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => open({ q: search.elements.q.value.trim() }), 250);
  });
  search.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", () => showLimits(form));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void save(form);
  });
  if (secretOf() !== "") void load();
}
