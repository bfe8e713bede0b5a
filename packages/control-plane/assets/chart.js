// What stands under the pointer: a beat of the bar, a point of the chart. The numbers are in the page already: in the
// titles of the beats, and in the table behind the disclosure.
import { announce, el } from "./dom.js";

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

/** The rows of the table that has the numbers of a chart, one for each point. */
const rowsOf = (chart) => [...chart.closest("section").querySelectorAll("#latency-table tbody tr")];

/** The number of the point at a place of the chart, in px of the page. */
function pointAt(chart, x) {
  const { left, width } = chart.getBoundingClientRect();
  return Math.floor(((x - left) / width) * rowsOf(chart).length);
}

/** Shows the crosshair at a point of the chart, the nearest one that it has. */
function showPoint(chart, point, say = false) {
  const rows = rowsOf(chart);
  const box = chart.parentElement;
  leave(box);
  if (rows.length === 0) return;
  const own = Math.max(0, Math.min(rows.length - 1, point));
  const [row, share] = [rows[own], (own + 0.5) / rows.length];
  box.dataset.point = own;
  const cells = [...row.querySelectorAll("td")];
  const height = 200;
  const y = (value) => height - (Math.min(value, chart.dataset.top) / chart.dataset.top) * (height - 12);
  const cx = `${share * 100}%`;
  chart.append(svg("line", { class: "cross", x1: cx, x2: cx, y1: 0, y2: height }));
  for (const [at, name] of ["at", "at hollow"].entries())
    if (cells[at]?.dataset.v) chart.append(svg("circle", { class: name, cx, cy: y(cells[at].dataset.v), r: 4 }));
  const names = ["Median", "p95", "p99", "Checks"];
  const lines =
    cells.length < 4
      ? [el("dt", {}, "No data")]
      : cells.flatMap((cell, at) => [el("dt", {}, names[at]), el("dd", {}, cell.textContent)]);
  const tip = el("div", { class: "tip", "aria-hidden": "true" });
  const when = row.querySelector("th").textContent.trim();
  tip.append(el("strong", {}, when), el("dl", {}, ...lines));
  if (say) announce(`${when}: ${lines.map((line) => line.textContent).join(" ")}`);
  const inside = chart.getBoundingClientRect().left - box.getBoundingClientRect().left;
  place(box, tip, inside + share * chart.getBoundingClientRect().width + 90);
}

/** Follows the pointer over charts and bars; each is one stop of Tab, in which arrows move. */
export function charts() {
  document.addEventListener("pointermove", (event) => {
    const chart = event.target.closest?.(".chart");
    const beat = event.target.closest?.(".beats > li");
    for (const box of document.querySelectorAll(".chartbox:has(.tip), .beatbox:has(.tip)"))
      if (!box.contains(event.target) && document.activeElement !== box) leave(box);
    if (chart) showPoint(chart, pointAt(chart, event.clientX));
    else if (beat?.closest(".beatbox") && !beat.classList.contains("at")) showBeat(beat.closest(".beatbox"), beat);
  });
  document.addEventListener("keydown", (event) => {
    const box = event.target.closest?.(".beatbox, .chartbox");
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!box || step === undefined) return;
    event.preventDefault();
    const chart = box.querySelector(".chart");
    if (chart) {
      const outside = step === 1 ? -1 : rowsOf(chart).length;
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
