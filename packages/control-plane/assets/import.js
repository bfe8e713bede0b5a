import { call } from "./api.js";
import { monitorsIn, mostMonitors } from "./csv.js";
import { announce, el } from "./dom.js";
import { leaveFor } from "./leave.js";

/** Largest text that is read, in characters, and lines that the preview shows of each kind. */
const mostText = 10_000_000;
const shown = 100;
const number = new Intl.NumberFormat("en");
const count = (n, word) => `${number.format(n)} ${word}${n === 1 ? "" : "s"}`;

let form;
let items = [];

function row({ line, text, monitor, faults }) {
  const words = monitor
    ? [
        `${monitor.check.url}, ${monitor.interval ? `every ${monitor.interval} s` : "default interval"}`,
        ...monitor.tags,
      ]
    : [text.slice(0, 200)];
  return el(
    "tr",
    { class: faults.length > 0 ? "wrong" : null },
    el("td", { class: "num" }, String(line)),
    el("th", { scope: "row" }, monitor?.name ?? "—"),
    el("td", { class: "grow" }, words.join(" · "), ...faults.map((fault) => el("p", { class: "error-note" }, fault))),
  );
}

/** The preview: lines with errors first, then the others, as many as a screen can use. */
function draw(ignored) {
  const wrong = items.filter(({ faults }) => faults.length > 0);
  const right = items.filter(({ faults }) => faults.length === 0);
  const body = form.querySelector("tbody");
  body.replaceChildren(...wrong.slice(0, shown).map(row), ...right.slice(0, shown).map(row));
  const left = Math.max(0, wrong.length - shown) + Math.max(0, right.length - shown);
  const parts = [
    `${count(right.length, "monitor")} can be added, ${count(wrong.length, "line")} with errors.`,
    ...(right.length > mostMonitors
      ? [`One import takes at most ${number.format(mostMonitors)} monitors: split the list.`]
      : []),
    ...(ignored.length > 0 ? [`Ignored columns: ${ignored.slice(0, 10).join(", ")}.`] : []),
    ...(left > 0 ? [`${count(left, "more line")} not shown.`] : []),
  ];
  const said = form.querySelector("[data-summary]");
  said.textContent = items.length === 0 ? "" : parts.join(" ");
  announce(said.textContent);
  form.querySelector("[data-preview]").hidden = items.length === 0;
  const skip = form.querySelector("[data-skip]");
  skip.hidden = wrong.length === 0 || right.length === 0;
  const button = form.querySelector("[type=submit]");
  button.textContent = `Add ${count(right.length, "monitor")}`;
  button.disabled =
    right.length === 0 || right.length > mostMonitors || (wrong.length > 0 && !skip.querySelector("input").checked);
}

function read() {
  const text = form.elements.list.value;
  const note = form.querySelector("[data-form-error]");
  note.hidden = text.length <= mostText;
  if (text.length > mostText) note.textContent = "The list is larger than 10 MB. Split it.";
  const { items: found, ignored } =
    text.length > mostText ? { items: [], ignored: [] } : monitorsIn(text, Number(form.dataset.minInterval));
  items = found;
  draw(ignored);
}

async function submit() {
  const right = items.filter(({ faults }) => faults.length === 0);
  const button = form.querySelector("[type=submit]");
  button.disabled = true;
  const answer = await call(
    "POST",
    "/api/v1/targets/bulk",
    right.map(({ monitor }) => monitor),
    // Sending the form twice must not add the monitors twice.
    { "Idempotency-Key": form.dataset.key },
  );
  if (answer.ok) return leaveFor("/monitors");
  const pointer = answer.error.field ?? answer.error.details?.pointer ?? "";
  const item = right[/^\/(\d+)/.exec(pointer)?.[1] ?? -1];
  if (item) {
    item.faults = [answer.error.message];
    form.dataset.key = crypto.randomUUID();
    return draw([]);
  }
  const note = form.querySelector("[data-form-error]");
  note.textContent = answer.error.message;
  note.hidden = false;
  button.disabled = false;
}

/** Lets the import page read a list, show what it says, and add its monitors in one request. */
export function importing() {
  form = document.getElementById("import");
  form.dataset.key = crypto.randomUUID();
  let waiting;
  form.elements.list.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(read, 200);
  });
  form.elements.file.addEventListener("change", async () => {
    const [file] = form.elements.file.files;
    if (!file) return;
    form.elements.list.value = file.size > mostText * 4 ? "" : await file.text();
    read();
  });
  form.querySelector("[data-skip] input").addEventListener("change", () => draw([]));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void submit();
  });
  if (form.elements.list.value !== "") read();
}
