import { headIsStale, showHead } from "./head.js";
import { localTimes, tickingTimes } from "./times.js";

const live = document.getElementById("live");
const region = document.getElementById("live-region");
const timeoutMs = 10_000;
/** A tab in the background still keeps its title and favicon true. */
const hiddenEveryMs = 60_000;
let failures = 0;
let askedAt = 0;

/** True while text of the region is selected. */
function reading() {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && live.contains(selection.anchorNode);
}

/** Fetches the dynamic part again. What a visitor has opened or closed, and the focus, stay. */
async function refresh() {
  if (document.hidden && performance.now() - askedAt < hiddenEveryMs) return;
  askedAt = performance.now();
  try {
    // The browser's own copy may be as old as the page; shared caches may still answer.
    const reply = await fetch(live.dataset.live, {
      headers: { Accept: "text/html" },
      cache: "no-store",
      signal: AbortSignal.timeout(timeoutMs),
    });
    if (reply.status === 404) return location.reload();
    if (!reply.ok) throw new Error(String(reply.status));
    const next = document.createElement("div");
    next.innerHTML = await reply.text();
    failures = 0;
    document.querySelector(".stale")?.remove();
    showHead(next);
    if (!reading()) replace(next);
  } catch {
    failures += 1;
    if (failures >= 2) stale();
  }
}

function replace(next) {
  for (const box of live.querySelectorAll("details[id]")) {
    const twin = next.querySelector(`#${CSS.escape(box.id)}`);
    if (twin) twin.open = box.open;
  }
  const focused = document.activeElement;
  const focus = !live.contains(focused)
    ? null
    : focused.matches("summary")
      ? `#${CSS.escape(focused.parentElement.id)} > summary`
      : focused.matches("a[href]")
        ? `a[href="${CSS.escape(focused.getAttribute("href"))}"]`
        : null;
  const before = label(live);
  localTimes(next);
  live.replaceChildren(...next.childNodes);
  if (focus) live.querySelector(focus)?.focus({ preventScroll: true });
  if (label(live) !== before) region.textContent = label(live);
}

const label = (within) => within.querySelector("[data-label]")?.dataset.label ?? "";

function stale() {
  headIsStale();
  if (document.querySelector(".stale")) return;
  const added = document.createElement("p");
  added.className = "panel stale";
  added.textContent = "This page cannot be refreshed: showing last known data; retrying.";
  live.before(added);
  region.textContent = added.textContent;
}

/** A finger cannot hover: a tapped day writes its title under the strip. */
function dayNotes(event) {
  const title = event.target.closest?.(".strip path")?.querySelector("title");
  const note = title?.closest("li")?.querySelector("[data-note]");
  if (!note) return;
  note.dataset.usual ??= note.textContent;
  note.textContent = note.textContent === title.textContent ? note.dataset.usual : title.textContent;
}

localTimes();
tickingTimes();
const zone = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" })
  .formatToParts(new Date())
  .find((part) => part.type === "timeZoneName")?.value;
for (const element of document.querySelectorAll("[data-zone]"))
  element.textContent = `Times in your zone${zone ? ` (${zone})` : ""}`;
if (live) {
  setInterval(refresh, Number(live.dataset.liveEvery) * 1000);
  document.addEventListener("visibilitychange", () => document.hidden || void refresh());
  window.addEventListener("online", refresh);
  live.addEventListener("click", dayNotes);
}
