// The time axis of charts, at round times of the reader's zone. The server, which does not know it, draws that of UTC.
import { clockOf, dateOf } from "./times.js";

const day = 1440;
/** Lengths between two ticks, minutes. */
const steps = [5, 10, 15, 30, 60, 120, 240, 360, 720, day, 2 * day, 5 * day, 10 * day, 15 * day];
const most = 7;

/** The round times between two, Unix ms. */
export function ticksBetween(from, to) {
  const step = steps.find((minutes) => minutes * 60_000 * most >= to - from) ?? steps.at(-1);
  const at = new Date(from);
  at.setHours(0, 0, 0, 0);
  const ticks = [];
  // By the clock on the wall, so that midnight stays midnight where the clocks change.
  for (; at <= to; step < day ? at.setMinutes(at.getMinutes() + step) : at.setDate(at.getDate() + step / day))
    if (at >= from) ticks.push(new Date(at));
  return ticks;
}

export function drawAxes(within = document) {
  for (const axis of within.querySelectorAll("[data-ticks]")) {
    const { from, to } = axis.closest(".chart").dataset;
    const live = axis.dataset.live !== undefined;
    const pattern = axis.querySelector("text");
    if (!pattern) continue;
    const labels = ticksBetween(Number(from), Number(to)).map((at, number) => {
      const share = (at - from) / (to - from);
      const label = pattern.cloneNode();
      label.setAttribute("x", `${100 * share}%`);
      label.setAttribute("text-anchor", share < 0.03 ? "start" : share > 0.97 ? "end" : "middle");
      label.classList.toggle("between", number % 2 === 1);
      label.textContent = at.getHours() + at.getMinutes() === 0 ? dateOf(at) : clockOf(at);
      return [share, label];
    });
    const now = live ? [axis.lastElementChild] : [];
    axis.replaceChildren(...labels.filter(([share]) => !live || share <= 0.88).map(([, label]) => label), ...now);
  }
}
