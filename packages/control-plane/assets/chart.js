// What stands under the pointer: a beat of the bar, a point of the chart. The numbers are in the page already: in the
// titles of the beats, and in an attribute of the chart.
import { drawAxes } from "./axis.js";
import { announce, el } from "./dom.js";
import { clockOf, dateOf, now } from "./times.js";

const svg = (tag, attributes) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};
const hour = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

/** Shows a tooltip in a box, its middle at `x` px as far as the box has room. */
function place(box, tip, x) {
  box.querySelector(".tip")?.remove();
  box.append(tip);
  const room = box.clientWidth - tip.offsetWidth;
  tip.style.left = `${Math.max(0, Math.min(room, x - tip.offsetWidth / 2))}px`;
}

function leave(box) {
  box.querySelector(".tip")?.remove();
  for (const own of box.querySelectorAll("li.at")) own.classList.remove("at");
  for (const own of box.querySelectorAll(".cross, .at:not(li)")) own.remove();
}

/** Shows a beat: when, its state, and what each region found. */
function showBeat(box, beat, say = false) {
  leave(box);
  // The title is for readers without scripts; a second tooltip would cover this one.
  if (beat.title) [beat.dataset.lines, beat.title] = [beat.title, ""];
  const kind = box.firstElementChild.classList;
  const date = new Date(beat.dataset.at);
  const when = kind.contains("days")
    ? day.format(date)
    : kind.contains("hours")
      ? full.format(date)
      : hour.format(date);
  const states = beat.dataset.states.split(" ");
  const lines = beat.dataset.lines.split("\n").slice(1);
  const rows = lines.flatMap((line, at) => {
    const cut = line.indexOf(": ");
    const name = el("dt", {}, el("i", { class: `sq ${states[at]}` }), line.slice(0, cut));
    return [name, el("dd", {}, line.slice(cut + 2))];
  });
  const head = [el("strong", {}, when), el("span", { class: "muted" }, ` · ${beat.dataset.word}`)];
  beat.classList.add("at");
  place(box, el("div", { class: "tip" }, ...head, el("dl", {}, ...rows)), beat.offsetLeft + beat.offsetWidth / 2);
  if (say) announce([`${when}: ${beat.dataset.word}`, ...lines].join(", "));
}

/** Opens the page for the hour or day of a beat: its latency, its checks, its uptime. */
function openBeat(beat) {
  const from = Date.parse(beat.dataset.at);
  const length = beat.parentElement.classList.contains("days") ? 86_400_000 : 3_600_000;
  const address = new URL(location.href);
  address.searchParams.set("from", new Date(from).toISOString());
  address.searchParams.set("to", new Date(Math.min(from + length, now())).toISOString());
  location.assign(address);
}

const numbers = new WeakMap();

/** The points of a chart: median, p95, p99 and number of checks of each; null for a gap. */
function pointsOf(chart) {
  if (!numbers.has(chart)) {
    const read = (text) => (text === "" ? null : text.split(",").map((value) => (value === "" ? null : Number(value))));
    numbers.set(chart, (chart.dataset.points ?? "").split(";").map(read));
  }
  return numbers.get(chart);
}

const startOf = (chart, point) => Number(chart.dataset.first) + point * chart.dataset.step;
const shareOf = (chart, time) => (time - chart.dataset.from) / (chart.dataset.to - chart.dataset.from);

/** The number of the point at a place of the chart, in px of the page. */
function pointAt(chart, x) {
  const { left, width } = chart.getBoundingClientRect();
  const { from, to, first, step } = chart.dataset;
  return Math.floor((Number(from) + ((x - left) / width) * (to - from) - first) / step);
}

/** `412 ms`, as the server writes it. */
const ms = (value) =>
  value === null
    ? "—"
    : value >= 1000
      ? `${(value / 1000).toFixed(value >= 10_000 ? 1 : 2)} s`
      : `${Number(value.toFixed(value >= 10 ? 0 : value < 1 ? 2 : 1))} ms`;

/** `24 Nov 14:00 – 14:06`: begin and end of a point. */
function spanOf(chart, point) {
  const [from, to] = [startOf(chart, point), startOf(chart, point + 1)].map((time) => new Date(time));
  const start = `${dateOf(from)} ${clockOf(from)}`;
  return `${start} – ${from.toDateString() === to.toDateString() ? clockOf(to) : `${dateOf(to)} ${clockOf(to)}`}`;
}

const names = ["Median", "p95", "p99", "Checks"];
const cellsOf = (values) => values.map((value, at) => (at === 3 ? String(value) : ms(value)));

/** Shows the crosshair at a point of the chart, the nearest one that it has. */
function showPoint(chart, point, say = false) {
  const points = pointsOf(chart);
  const box = chart.parentElement;
  leave(box);
  if (!chart.dataset.points) return;
  const own = Math.max(0, Math.min(points.length - 1, point));
  const values = points[own];
  const share = Math.max(0, Math.min(1, shareOf(chart, startOf(chart, own + 0.5))));
  box.dataset.point = own;
  const height = 200;
  const y = (value) => height - (Math.min(value, chart.dataset.top) / chart.dataset.top) * (height - 12);
  const cx = `${share * 100}%`;
  chart.append(svg("line", { class: "cross", x1: cx, x2: cx, y1: 0, y2: height }));
  for (const [at, name] of ["at", "at hollow"].entries())
    if (values?.[at] != null) chart.append(svg("circle", { class: name, cx, cy: y(values[at]), r: 4 }));
  const cells = values === null ? [] : cellsOf(values);
  const lines =
    values === null
      ? [el("dt", {}, "No data")]
      : cells.flatMap((cell, at) => [el("dt", {}, names[at]), el("dd", {}, cell)]);
  const tip = el("div", { class: "tip", "aria-hidden": "true" });
  const when = spanOf(chart, own);
  tip.append(el("strong", {}, when), el("dl", {}, ...lines));
  if (say) announce(`${when}: ${lines.map((line) => line.textContent).join(" ")}`);
  const inside = chart.getBoundingClientRect().left - box.getBoundingClientRect().left;
  place(box, tip, inside + share * chart.getBoundingClientRect().width + 90);
}

/** Writes the table of a chart when its section is opened: few people do. */
function writeTable(section) {
  const chart = section.closest("section").querySelector(".chart");
  const rows = pointsOf(chart).map((values, point) => {
    const cells = values === null ? [el("td", { class: "num muted", colspan: 4 }, "no data")] : cellsOf(values);
    const own = values === null ? cells : cells.map((text) => el("td", { class: "num" }, text));
    return el("tr", {}, el("th", { scope: "row" }, spanOf(chart, point)), ...own);
  });
  section.querySelector("tbody").replaceChildren(...rows);
}

/** Emphasises one line of a chart; null for all. */
function emphasise(section, name) {
  for (const own of section.querySelectorAll("[data-line]"))
    own.classList.toggle("faint", name !== null && own.dataset.line !== name);
}

/** Follows the pointer over charts and bars; each is one stop of Tab, in which arrows move. */
export function charts() {
  drawAxes();
  document.addEventListener("refreshed", (event) => drawAxes(event.target));
  document.addEventListener("toggle", (event) => event.target.id === "latency-table" && writeTable(event.target), true);
  document.addEventListener("pointerover", (event) => {
    const line = event.target.closest?.("[data-line]");
    for (const section of document.querySelectorAll("section:has([data-line])"))
      emphasise(section, section.contains(line) ? line.dataset.line : null);
  });
  document.addEventListener("pointermove", (event) => {
    const chart = event.target.closest?.(".chart");
    const beat = event.target.closest?.(".beats > li");
    for (const box of document.querySelectorAll(".chartbox:has(.tip), .beatbox:has(.tip)"))
      if (!box.contains(event.target) && document.activeElement !== box) leave(box);
    if (chart) showPoint(chart, pointAt(chart, event.clientX));
    else if (beat?.closest(".beatbox") && !beat.classList.contains("at")) showBeat(beat.closest(".beatbox"), beat);
  });
  document.addEventListener("click", (event) => {
    const beat = event.target.closest?.(".beats:is(.hours, .days) > li");
    if (beat) openBeat(beat);
  });
  document.addEventListener("keydown", (event) => {
    const beat = event.key === "Enter" && event.target.querySelector?.(".beats:is(.hours, .days) > li.at");
    if (beat) return openBeat(beat);
    const box = event.target.closest?.(".beatbox, .chartbox");
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!box || step === undefined) return;
    event.preventDefault();
    const chart = box.querySelector(".chart");
    if (chart) {
      const outside = step === 1 ? -1 : pointsOf(chart).length;
      return showPoint(chart, (box.querySelector(".cross") ? Number(box.dataset.point) : outside) + step, true);
    }
    const beats = [...box.querySelectorAll("li")].filter((own) => own.offsetWidth > 0);
    const now = beats.findIndex((own) => own.classList.contains("at"));
    const to = now === -1 ? (step > 0 && step < 2 ? 0 : beats.length - 1) : now + step;
    showBeat(box, beats[Math.max(0, Math.min(beats.length - 1, to))], true);
  });
  document.addEventListener(
    "focusout",
    (event) => event.target.matches?.(".beatbox, .chartbox") && leave(event.target),
  );
}
