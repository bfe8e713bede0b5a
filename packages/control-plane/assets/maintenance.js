import { el } from "./dom.js";
import { clockOf, now } from "./times.js";
import { instantOf, localOf, readLocal, showLocal } from "./zoned.js";

const dayMs = 86_400_000;
const ownZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;
const weekdays = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];
const weekdayOf = (local) => weekdays[(new Date(local).getUTCDay() + 6) % 7];

function ruleOf({ elements }, start) {
  const repeat = elements.repeat.value;
  const parts = [`FREQ=${repeat.toUpperCase()}`];
  const interval = elements.interval.value.trim();
  if (interval !== "" && interval !== "1") parts.push(`INTERVAL=${interval}`);
  const days = [...elements.day].filter((box) => box.checked).map((box) => box.value);
  if (repeat === "weekly" && days.length > 0) parts.push(`BYDAY=${days.join(",")}`);
  const by = elements.by.value;
  const nth = by === "last" ? -1 : Math.ceil(new Date(start).getUTCDate() / 7);
  if (repeat === "monthly" && by !== "date") parts.push(`BYDAY=${nth}${weekdayOf(start)}`);
  if (elements.end.value === "count") parts.push(`COUNT=${elements.count.value}`);
  if (elements.end.value === "until") parts.push(`UNTIL=${elements.until.value.replaceAll("-", "")}`);
  return parts.join(";");
}

const setValue = (control, value) => (control.value = control.defaultValue = value);

/** Times of the form in a zone of the list, with an end that follows the start, and the rule from its controls. */
function windowForm(form) {
  const { zone, repeat } = form.elements;
  const [start, end] = [form.elements["/starts_at"], form.elements["/ends_at"]];
  if (!zone.value || zone.dataset.own === "") {
    if (![...zone.options].some(({ value }) => value === ownZone())) zone.add(new Option(ownZone()));
    zone.value = ownZone();
    for (const option of zone.options) option.defaultSelected = option.selected;
  }
  const hour = Math.ceil(now() / 3_600_000) * 3_600_000;
  setValue(start, showLocal(localOf(start.dataset.at ? new Date(start.dataset.at) : hour, zone.value)));
  setValue(end, showLocal(localOf(end.dataset.at ? new Date(end.dataset.at) : hour + 3_600_000, zone.value)));
  let length = readLocal(end.value) - readLocal(start.value);
  let day = weekdayOf(readLocal(start.value));
  const update = (event) => {
    const from = readLocal(start.value);
    if (Number.isNaN(from)) return;
    if (event?.target === start) end.value = showLocal(from + length);
    const to = readLocal(end.value);
    if (to > from) length = to - from;
    if (repeat.value === "weekly" && (event?.target === start || event?.target === repeat)) {
      for (const box of form.elements.day) if (box.value === day && event.target === start) box.checked = false;
      for (const box of form.elements.day) if (box.value === weekdayOf(from)) box.checked = true;
    }
    day = weekdayOf(from);
    const rule = form.querySelector("[data-rule]");
    if (rule && !["none", "custom"].includes(repeat.value)) rule.value = ruleOf(form, from);
    for (const control of form.querySelectorAll("[data-rule-zone]")) control.value = zone.value;
    note(form, from, to, zone.value);
  };
  form.addEventListener("input", update);
  form.addEventListener("change", update);
  update();
}

/** Says how long the window lasts, and when that is for the reader. */
function note(form, from, to, zone) {
  const box = form.querySelector("[data-span-note]");
  const minutes = Math.round((instantOf(to, zone) - instantOf(from, zone)) / 60_000);
  if (!(minutes > 0)) return (box.textContent = "The end must be after the start.");
  const [days, hours, rest] = [Math.floor(minutes / 1440), Math.floor((minutes % 1440) / 60), minutes % 60];
  const words = [days && `${days} d`, hours && `${hours} h`, rest && `${rest} min`].filter(Boolean).join(" ");
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  const own = zone === ownZone() ? "" : ` Starts ${format.format(instantOf(from, zone))} in your time zone.`;
  box.textContent = `Lasts ${words}.${own}`;
}

/** Moves the events of the calendar to the days of the reader's zone. */
function localMonth(month) {
  const zone = ownZone();
  const cells = new Map([...month.querySelectorAll("[data-date]")].map((cell) => [cell.dataset.date, cell]));
  const links = new Map([...month.querySelectorAll(".event")].map((link) => [link.dataset.from + link.pathname, link]));
  for (const cell of cells.values()) cell.querySelector("ul").replaceChildren();
  for (const link of links.values()) {
    const first = localOf(new Date(link.dataset.from), zone);
    const last = localOf(new Date(link.dataset.to), zone) - 1;
    for (let at = Math.floor(first / dayMs) * dayMs; at <= last; at += dayMs) {
      const copy = link.cloneNode(true);
      const { from, to } = link.dataset;
      copy.querySelector(".at").textContent =
        at <= first ? clockOf(new Date(from)) : last < at + dayMs ? `until ${clockOf(new Date(to))}` : "all day";
      cells
        .get(showLocal(at).slice(0, 10))
        ?.querySelector("ul")
        .append(el("li", {}, copy));
    }
  }
  const today = showLocal(localOf(now(), zone)).slice(0, 10);
  for (const [date, cell] of cells) {
    cell.classList.toggle("none", cell.querySelector(".event") === null);
    if (date === today) cell.setAttribute("aria-current", "date");
    else cell.removeAttribute("aria-current");
  }
  document.querySelector("[data-zone-note]").textContent = `Days in ${zone.replaceAll("_", " ")}.`;
}

/** Leaves out the day of an end that is on the day of its start, in the reader's zone. */
function shortSpans() {
  for (const span of document.querySelectorAll("[data-span]")) {
    const [from, to] = [...span.querySelectorAll("time[data-as=day]")].map((time) => new Date(time.dateTime));
    span.querySelector("[data-last-day]").hidden = from.toDateString() === to.toDateString();
  }
}

/** Makes the maintenance form and calendar work. */
export function maintenance() {
  for (const form of document.querySelectorAll("[data-window-form]")) windowForm(form);
  const localise = () => {
    document.querySelectorAll("[data-month]").forEach(localMonth);
    shortSpans();
  };
  localise();
  document.addEventListener("refreshed", localise);
}
