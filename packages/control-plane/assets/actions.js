import { call, split } from "./api.js";
import { ask, button as made, say, verbOf, whileDisabled } from "./dom.js";
import { leaveFor } from "./leave.js";
import { stay } from "./org.js";

const refresh = async () => (await import("./live.js")).refresh(true);

async function send(button) {
  const body = button.dataset.body === undefined ? undefined : JSON.parse(button.dataset.body);
  if (button.dataset.checked) {
    body.ids = [...document.querySelectorAll(`[name="${button.dataset.checked}"]:checked`)].map((box) => box.value);
    if (body.ids.length === 0) return say(button.dataset.none, "down");
  }
  if (button.dataset.collect) {
    const { collect } = await import("./collect.js");
    const found = await whileDisabled(button, () =>
      collect(button.dataset.collect, (item) => !item[button.dataset.unless]),
    );
    if (!found.ok) return say(found.error.message, "down");
    body.ids = found.items.map(({ id }) => id);
    if (body.ids.length === 0) return say(button.dataset.none, "down");
  }
  if (button.dataset.ask && !(await ask(button.dataset.ask, verbOf(button)))) return;
  const [method, path] = split(button.dataset.send);
  const answer = await whileDisabled(button, () => call(method, path, body));
  // A browser takes the focus off a button that is disabled.
  if (document.activeElement === document.body) button.focus({ preventScroll: true });
  if (!answer.ok) {
    button.closest("dialog")?.close();
    return say(answer.error.message, "down");
  }
  const then = button.dataset.then;
  if (then === "reload") {
    await stay();
    return location.reload();
  }
  if (then?.startsWith("/")) return leaveFor(then);
  const { undo, said } = button.dataset;
  const changed = answer.data?.succeeded ?? [];
  if (undo && changed.length > 0)
    say(
      `${changed.length} ${said} `,
      "up",
      made("Undo", () => void undoAll(undo, changed), "link"),
    );
  else if (said) say(said);
  if (then === "refresh") await refresh();
}

/** Takes back what a button has done to many things, a few at a time. */
async function undoAll(request, ids) {
  const [method, path] = split(request);
  say("Undoing…");
  for (let at = 0; at < ids.length; at += 5)
    await Promise.all(ids.slice(at, at + 5).map((id) => call(method, path.replace("{id}", id))));
  say("Undone.");
  await refresh();
}

/** Moves an item of an ordered list by one place, and tells the API the new order. */
async function move(button) {
  const list = button.closest("[data-reorder]");
  const ids = [...list.querySelectorAll("[data-id]")].map((item) => item.dataset.id);
  const from = ids.indexOf(button.closest("[data-id]").dataset.id);
  const to = from + Number(button.dataset.move);
  if (to < 0 || to >= ids.length) return;
  [ids[from], ids[to]] = [ids[to], ids[from]];
  const [method, path] = split(list.dataset.reorder);
  const answer = await call(method, path, { target_ids: ids });
  if (!answer.ok) return say(answer.error.message, "down");
  await refresh();
  const again = document.querySelector(`[data-id="${CSS.escape(ids[to])}"]`);
  (
    again?.querySelector(`[data-move="${button.dataset.move}"]:enabled`) ?? again?.querySelector("[data-move]:enabled")
  )?.focus();
}

async function copy(button) {
  const text = document.getElementById(button.dataset.copy).textContent;
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
    say("Press Ctrl+C to copy the selected text.");
  }
}

/** Lets the buttons of the page do what they say. */
export function actions() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button || button.disabled) return;
    const { dataset } = button;
    if (dataset.send) void send(button);
    else if (dataset.move) void move(button);
    else if (dataset.copy) void copy(button);
    else if ("print" in dataset) print();
    else if ("close" in dataset) event.target.closest("dialog")?.close();
    else if (dataset.remove) void import("./deletion.js").then((module) => module.removeMonitor(dataset));
    else if (dataset.dialog) document.getElementById(dataset.dialog).showModal();
  });
  document.addEventListener("input", (event) => {
    const form = event.target.closest("[data-confirm]");
    if (form) form.querySelector("[data-send]").disabled = event.target.value.trim() !== form.dataset.confirm.trim();
  });
  // Enter in the name field must not close the dialog as if it had been cancelled.
  document.addEventListener("submit", (event) => {
    if (
      !event.target.matches("[data-confirm]") ||
      event.submitter?.value !== "cancel" ||
      document.activeElement?.localName !== "input"
    )
      return;
    event.preventDefault();
    event.target.querySelector("[data-send]:enabled")?.click();
  });
}
