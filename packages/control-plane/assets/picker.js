import { call } from "./api.js";
import { announce, button, el, say } from "./dom.js";

const shown = 8;
const most = 1000;

/** Chooses monitors by search and by tag. Chosen ones are ticked boxes of the form, a single one a radio. */
function picker(box) {
  const list = box.querySelector("[data-chosen]");
  const found = box.querySelector("[data-found]");
  const search = box.querySelector("[data-search]");
  const single = list.dataset.single !== undefined;
  const has = (id) => list.querySelector(`[value="${CSS.escape(id)}"]`);

  function add({ id, name }) {
    const known = has(id);
    if (known) return void (known.checked = true);
    const kind = single ? { type: "radio" } : { type: "checkbox", "data-as": list.dataset.item ?? "item" };
    const input = el("input", { ...kind, name: list.dataset.chosen, value: id });
    input.checked = true;
    if (single) list.replaceChildren();
    list.append(el("label", { class: "radio" }, input, el("span", { class: "clip" }, name)));
  }

  function changed(words) {
    const count = list.querySelectorAll("[name]:checked").length;
    const shownCount = box.querySelector("[data-count]");
    if (shownCount) shownCount.textContent = count === 1 ? "1 monitor" : `${count} monitors`;
    if (words) announce(words);
    box.dispatchEvent(new Event("input", { bubbles: true }));
  }

  async function find() {
    const q = search.value.trim();
    if (q === "") return found.replaceChildren();
    const answer = await call("GET", `/api/v1/targets?q=${encodeURIComponent(q)}&limit=${shown}`);
    if (search.value.trim() !== q) return;
    if (!answer.ok) return say(answer.error.message, "down");
    const buttons = answer.data.items.map((target) =>
      button(`${single ? "Choose" : "Add"} ${target.name}`, () => {
        add(target);
        changed(`${target.name} added.`);
        search.value = "";
        found.replaceChildren();
        search.focus();
      }),
    );
    const more = answer.data.total > shown ? `${answer.data.total - shown} more: narrow the search.` : "";
    found.replaceChildren(
      ...buttons,
      el("p", { class: "hint", role: "status" }, buttons.length === 0 ? "No matching monitors." : more),
    );
  }

  async function addTag() {
    const tag = box.querySelector("[data-tag]").value;
    const answer = await call("GET", `/api/v1/targets?tag=${encodeURIComponent(tag)}&limit=${most}`);
    if (!answer.ok) return say(answer.error.message, "down");
    for (const target of answer.data.items) add(target);
    changed();
    say(answer.data.items.length === 1 ? "1 monitor added." : `${answer.data.items.length} monitors added.`);
  }

  let waiting;
  search.addEventListener("input", (event) => {
    event.stopPropagation();
    clearTimeout(waiting);
    waiting = setTimeout(() => void find(), 200);
  });
  // Enter takes the first monitor instead of sending the form.
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    found.querySelector("button")?.click();
  });
  box.querySelector("[data-add-tag]")?.addEventListener("click", () => void addTag());
  list.addEventListener("change", () => changed());
}

/** Makes every `[data-picker]` of the page work. */
export function pickers() {
  for (const box of document.querySelectorAll("[data-picker]")) picker(box);
}
