import { onSubmit } from "./dom.js";
import { localOf, showLocal } from "./zoned.js";

// Custom ranges of time: chosen in the reader's zone, sent as UTC; dragging over a chart zooms into it.

const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

function translate(within = document) {
  for (const input of within.querySelectorAll("input[data-utc]")) {
    const utc = Date.parse(`${input.dataset.utc}Z`);
    if (input.dataset.utc !== "") input.value = input.defaultValue = showLocal(localOf(utc, zone()));
    input.removeAttribute("data-utc");
    const note = input.form?.querySelector("[data-zone]");
    if (note) note.textContent = `Times are in ${zone()}.`;
  }
}

/** Opens the page of a form with its times in UTC; empty ones are left out. */
function open(form) {
  const params = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
  for (const input of form.querySelectorAll("[type=datetime-local]"))
    if (input.value !== "") params.set(input.name, new Date(input.value).toISOString());
  location.assign(`${form.action}?${params}`);
}

let drag = null;
let clicked;
let isDragged = false;

/** Time under the pointer of a chart, Unix ms. */
function timeAt(chart, x) {
  const { left, width } = chart.getBoundingClientRect();
  const share = Math.min(1, Math.max(0, (x - left) / width));
  return Number(chart.dataset.from) + share * (chart.dataset.to - chart.dataset.from);
}

function shade({ chart, from, to }) {
  let box = chart.parentElement.querySelector(".zoom");
  if (!box) {
    box = document.createElement("div");
    box.className = "zoom";
    chart.parentElement.append(box);
  }
  const place = chart.getBoundingClientRect();
  const frame = chart.parentElement.getBoundingClientRect();
  const at = (time) => ((time - chart.dataset.from) / (chart.dataset.to - chart.dataset.from)) * place.width;
  box.style.left = `${place.left - frame.left + at(Math.min(from, to))}px`;
  box.style.width = `${Math.abs(at(to) - at(from))}px`;
}

function end(zoom) {
  if (!drag) return;
  const { chart, from, to, startX, x } = drag;
  drag = null;
  chart.parentElement.querySelector(".zoom")?.remove();
  // A click that shakes is no drag, and a range is a minute at least.
  isDragged = Math.abs(x - startX) >= 8;
  if (zoom && isDragged && Math.abs(to - from) >= 60_000)
    location.assign(addressOf(chart, Math.min(from, to), Math.max(from, to)));
}

/** The page with a range; without one, with the preset that was there before. */
function addressOf(chart, from, to, hash = "") {
  const address = new URL(chart.dataset.href ?? location.href, location.href);
  for (const [name, time] of [
    ["from", from],
    ["to", to],
  ])
    if (time === undefined) address.searchParams.delete(name);
    else address.searchParams.set(name, new Date(time).toISOString());
  address.hash = hash;
  return address;
}

/** Leads to the checks of a point, unless a second click follows, which goes back to the whole range. */
function openPoint(chart, x) {
  const { first, step } = chart.dataset;
  if (!Number(step)) return;
  const start = Number(first) + Math.floor((timeAt(chart, x) - first) / step) * step;
  clearTimeout(clicked);
  clicked = setTimeout(() => location.assign(addressOf(chart, start, start + Number(step), "results")), 350);
}

/** Lets forms with `data-range` and the charts of the page choose a range of time. */
export function ranges() {
  translate();
  document.addEventListener("refreshed", (event) => translate(event.target));
  onSubmit("[data-range]", open);
  document.addEventListener("pointerdown", (event) => {
    const chart = event.target.closest?.(".chart[data-from]");
    // A finger scrolls the page; it chooses a range in the form.
    if (!chart || event.button !== 0 || event.pointerType === "touch") return;
    event.preventDefault();
    const at = timeAt(chart, event.clientX);
    drag = { chart, from: at, to: at, startX: event.clientX, x: event.clientX };
    // From now on the live part of the page stays as it is.
    shade(drag);
  });
  document.addEventListener("pointermove", (event) => {
    if (!drag) return;
    drag.to = timeAt(drag.chart, event.clientX);
    drag.x = event.clientX;
    shade(drag);
  });
  document.addEventListener("pointerup", () => end(true));
  document.addEventListener("click", (event) => {
    const chart = event.target.closest?.(".chart[data-points]");
    if (chart && !isDragged && event.pointerType !== "touch" && !event.target.closest("a"))
      openPoint(chart, event.clientX);
  });
  document.addEventListener("dblclick", (event) => {
    const chart = event.target.closest?.(".chart[data-points]");
    if (!chart) return;
    clearTimeout(clicked);
    if (new URL(location.href).searchParams.has("from")) location.assign(addressOf(chart));
  });
  document.addEventListener("keydown", (event) => event.key === "Escape" && end(false));
}
