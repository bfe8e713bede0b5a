import { localTimes, tickingTimes } from "./times.js";

const live = document.getElementById("live");
const region = document.getElementById("live-region");
let failures = 0;

/** True while somebody has text of the region selected. */
function reading() {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && live.contains(selection.anchorNode);
}

/** Fetches the dynamic part anew. What a visitor has opened or closed, and where the focus is, stays. */
async function refresh() {
  if (document.hidden || reading()) return;
  try {
    // The copy that this browser keeps may be as old as what is on the screen: caches on the way are still asked.
    const reply = await fetch(live.dataset.live, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (!reply.ok) throw new Error(String(reply.status));
    replace(await reply.text());
    failures = 0;
  } catch {
    failures += 1;
  }
  stale(failures >= 2);
}

function replace(html) {
  const next = document.createElement("div");
  next.innerHTML = html;
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
  const now = label(live);
  if (now !== before) {
    region.textContent = now;
    document.title = now === "" ? live.dataset.page : `${now} · ${live.dataset.page}`;
  }
}

const label = (within) => within.querySelector("[data-label]")?.dataset.label ?? "";

function stale(is) {
  const note = document.querySelector(".stale");
  if (!is) return note?.remove();
  if (note) return;
  const added = document.createElement("p");
  added.className = "panel stale";
  added.textContent = "This page cannot be refreshed at the moment. What stands here is from before.";
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
  document.addEventListener("visibilitychange", refresh);
  live.addEventListener("click", dayNotes);
}
