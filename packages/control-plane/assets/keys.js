import { el, openDialog } from "./dom.js";

const lines = [
  ["Ctrl K", "Go to anything"],
  ["/", "Search this list, or everything"],
  ["n", "Add to this list"],
  ["j, k", "Next and previous row; Enter opens it, x selects it"],
  ["a", "Acknowledge"],
  ["r", "Check now"],
  ["p", "Pause or resume"],
  ["e", "Edit"],
  ["g m", "Monitors"],
  ["g i", "Incidents"],
  ["g c", "Channels"],
  ["g s", "Status pages"],
  ["?", "Keyboard shortcuts"],
  ["Esc", "Close"],
];
const places = { m: "/monitors", i: "/incidents", c: "/channels", s: "/status-pages" };

function help() {
  openDialog(
    { "aria-label": "Keys" },
    el("h2", {}, "Keys"),
    el(
      "dl",
      { class: "keys" },
      ...lines.map(([key, does]) => el("div", {}, el("dt", {}, el("kbd", {}, key)), el("dd", {}, does))),
    ),
    el("form", { method: "dialog", class: "actions" }, el("button", { class: "btn" }, "Close")),
  );
}

/** Opens the search. Its module is loaded at the first use. */
const palette = async () => (await import("./palette.js")).openPalette();

/** Rows of lists, and cards on call. */
const row = "tbody tr, .call";

/** The row that the keys have reached; the focus goes with it, so that readers hear it and Enter opens it. */
function step(by) {
  const linkOf = (row) => row.querySelector("a.name, h2 > a");
  const rows = [...document.querySelectorAll(`main :is(${row})`)].filter(linkOf);
  if (rows.length === 0) return;
  const now = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[now === -1 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, now + by))];
  linkOf(next).focus();
  next.scrollIntoView({ block: "nearest" });
}

/** Presses a control of the row that has the focus. True where there is one. */
function press(selector) {
  const control = document.activeElement.closest(row)?.querySelector(selector);
  control?.click();
  return control instanceof HTMLElement;
}

/** `Ctrl-K`, `/`, `n`, `g`, `?`, the rows of a list and the actions of a page, wherever nobody is writing. */
export function keys() {
  let going = 0;
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-keys]")) help();
    const link = event.target.closest("a[data-palette]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    void palette();
  });
  document.addEventListener("keydown", (event) => {
    const isPalette = (event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k";
    if (isPalette && document.querySelector(".app") && !document.querySelector("dialog[open]")) {
      event.preventDefault();
      return void palette();
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest("input, textarea, select, [contenteditable]") || document.querySelector("dialog[open]"))
      return;
    const place = performance.now() - going < 1500 ? places[event.key] : undefined;
    going = event.key === "g" ? performance.now() : 0;
    if (place) return location.assign(place);
    if (event.key === "/") {
      const search = document.querySelector("input[type=search]");
      event.preventDefault();
      if (!search) return document.querySelector(".app") && void palette();
      search.focus();
      search.select();
    } else if (event.key === "n") {
      document.querySelector('[data-key="n"]')?.click();
    } else if (event.key === "?") {
      help();
    } else if (event.key === "j" || event.key === "k") {
      step(event.key === "j" ? 1 : -1);
    } else if (event.key === "x") {
      press("[type=checkbox]");
    } else if (/^[a-z]$/.test(event.key) && !press(`[data-rowkey="${event.key}"]`)) {
      document.querySelector(`[data-hotkey="${event.key}"]`)?.click();
    }
  });
}
