import { call, split } from "./api.js";
import { announce, onSubmit, say } from "./dom.js";
import { refresh } from "./live.js";

const frame = document.querySelector(".preview iframe");
const screen = frame.parentElement;
const widths = [...document.querySelectorAll("[data-width]")];
let width;

/** Shows the page as wide as a phone or a desktop, scaled down to the place that there is. */
function fit() {
  const scale = Math.min(1, screen.clientWidth / width);
  frame.style.width = `${width}px`;
  frame.style.height = `${screen.clientHeight / scale}px`;
  frame.style.transform = `scale(${scale})`;
  frame.style.marginLeft = `${Math.max(0, (screen.clientWidth - width * scale) / 2)}px`;
}

function choose(chosen) {
  width = Number(chosen.dataset.width);
  for (const one of widths) one.ariaPressed = String(one === chosen);
  fit();
}

async function add(form) {
  const ids = [...form.querySelectorAll("[name=add]:checked")].map((box) => box.value);
  if (ids.length === 0) return say("Select monitors first.", "down");
  const [method, path] = split(form.dataset.add);
  const group = form.elements["/public_group"].value.trim();
  const answer = await call(method, path, { target_ids: ids, public_group: group === "" ? null : group });
  if (!answer.ok) return say(answer.error.message, "down");
  say(ids.length === 1 ? "Added to page." : `Added ${ids.length} monitors.`);
  await refresh(true);
}

async function store(list) {
  const [method, path] = split(list.dataset.reorder);
  const ids = [...list.querySelectorAll("[data-id]")].map((item) => item.dataset.id);
  const answer = await call(method, path, { target_ids: ids });
  if (!answer.ok) say(answer.error.message, "down");
  await refresh(true);
  if (answer.ok) announce("Order saved.");
}

/** Lets a monitor be dragged to its place. The arrow buttons do the same from the keyboard. */
function dragging() {
  let dragged = null;
  document.addEventListener("dragstart", (event) => {
    dragged = event.target.closest?.("[data-drag]") ?? null;
    if (!dragged) return;
    event.dataTransfer.effectAllowed = "move";
    dragged.classList.add("dragged");
  });
  document.addEventListener("dragover", (event) => {
    const over = event.target.closest?.("[data-drag]");
    if (!dragged || !over || over.parentElement !== dragged.parentElement) return;
    event.preventDefault();
    const { top, height } = over.getBoundingClientRect();
    if (event.clientY < top + height / 2) over.before(dragged);
    else over.after(dragged);
  });
  document.addEventListener("drop", (event) => dragged && event.preventDefault());
  document.addEventListener("dragend", () => {
    if (!dragged) return;
    dragged.classList.remove("dragged");
    void store(dragged.parentElement);
    dragged = null;
  });
}

const draggable = () => {
  for (const item of document.querySelectorAll("[data-drag]")) item.draggable = true;
};

/** The screen on which a status page is put together. */
export function builder() {
  onSubmit("[data-add]", add);
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-all]"))
      for (const box of document.querySelectorAll("[name=add]")) box.checked = true;
    const chosen = event.target.closest("[data-width]");
    if (chosen) choose(chosen);
  });
  document.addEventListener("refreshed", () => {
    draggable();
    frame.contentWindow.location.reload();
  });
  dragging();
  draggable();
  // A desktop at less than two thirds of its size cannot be read.
  choose(widths[screen.clientWidth < 840 ? 0 : 1]);
  new ResizeObserver(fit).observe(screen);
}
