import { announce } from "./dom.js";
import { headIsStale, showHead } from "./head.js";
import { keepTyped } from "./leave.js";
import { orgFetch } from "./org.js";
import { localTimes } from "./times.js";

const region = document.getElementById("live");
const everyMs = Number(region?.dataset.liveEvery ?? 12) * 1000;
/** A tab in the background still keeps its title and favicon true. */
const hiddenEveryMs = 60_000;
const timeoutMs = 10_000;
let failures = 0;
let running = null;
let askedAt = 0;

/** True while replacing the region would disturb a reader: an open dialog, a drag, a focused field, selected text. */
function busy() {
  if (document.querySelector("dialog[open], .zoom")) return true;
  const active = document.activeElement;
  if (region.contains(active) && active.matches("input, select, textarea")) return true;
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && region.contains(selection.anchorNode);
}

/** Fetches the live part of the page again. `now` replaces it even while a reader is busy in it. */
export async function refresh(now = false) {
  if (!region) return;
  if (!now && document.hidden && performance.now() - askedAt < hiddenEveryMs - everyMs / 2) return;
  askedAt = performance.now();
  running?.abort();
  const own = (running = new AbortController());
  // A connection that hangs is a lost one: without a deadline it would be neither an answer nor a failure.
  const deadline = setTimeout(() => own.abort("timeout"), timeoutMs);
  let html;
  try {
    const reply = await orgFetch(region.dataset.live, { headers: { Accept: "text/html" }, signal: own.signal });
    // A redirect leads to the sign-in page; a 404 means that the thing was deleted. The page itself says either.
    if (reply.redirected || reply.status === 404) return location.reload();
    if (reply.status === 429) return lost("Too many requests: showing last known data; retrying.");
    if (!reply.ok) throw new Error(String(reply.status));
    html = await reply.text();
  } catch {
    if (!own.signal.aborted || own.signal.reason === "timeout")
      lost("StatusMesh does not answer: showing last known data; retrying.");
    return;
  } finally {
    clearTimeout(deadline);
  }
  failures = 0;
  document.querySelector(".stale")?.remove();
  const next = document.createElement("div");
  next.innerHTML = html;
  showHead(next);
  if (now || !busy()) replace(next);
}

function replace(next) {
  const before = region.querySelector("[data-announce]")?.dataset.announce;
  const open = [...region.querySelectorAll("details[open][id]")].map((box) => box.id);
  const scrolled = [...region.querySelectorAll(".scroll")].map((box) => box.scrollTop);
  const focus = focusPath(document.activeElement);
  const at = region.contains(document.activeElement) ? stops().indexOf(document.activeElement) : -1;
  for (const id of open) next.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
  for (const box of region.querySelectorAll("[type=checkbox][id]:checked")) {
    const twin = next.querySelector(`#${CSS.escape(box.id)}`);
    if (twin) twin.checked = true;
  }
  // The result of a run, and forms with unsaved input, stay as they are.
  for (const own of region.querySelectorAll("[data-stay]")) next.querySelector(`#${own.id}`)?.replaceWith(own);
  keepTyped(region, next);
  localTimes(next);
  region.replaceChildren(...next.childNodes);
  for (const [at, box] of [...region.querySelectorAll(".scroll")].entries()) box.scrollTop = scrolled[at] ?? 0;
  // Where the focused element is gone, the one in its place has the focus: the keyboard goes on from there.
  if (at >= 0)
    ((focus && region.querySelector(focus)) ?? stops().at(at) ?? stops().at(-1))?.focus({ preventScroll: true });
  const said = region.querySelector("[data-announce]");
  if (said && said.dataset.announce !== before) announce(said.dataset.announce);
  region.dispatchEvent(new Event("refreshed", { bubbles: true }));
}

/** What the keyboard reaches in the region, in order. */
const stops = () =>
  [...region.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")].filter(
    (element) => !element.disabled && element.checkVisibility(),
  );

/** How to find the focused element again in the new copy. */
function focusPath(element) {
  if (!region.contains(element)) return null;
  if (element.id) return `#${CSS.escape(element.id)}`;
  for (const name of ["href", "data-send", "data-dialog", "data-check-now", "name"]) {
    const value = element.getAttribute(name);
    if (value) return `${element.localName}[${name}="${CSS.escape(value)}"]`;
  }
  return element.localName === "summary" && element.parentElement.id
    ? `#${CSS.escape(element.parentElement.id)} > summary`
    : null;
}

/** Says from the second failure on that the page shows old data. */
function lost(words) {
  if (++failures < 2) return;
  headIsStale();
  let note = document.querySelector(".stale");
  if (note === null) {
    note = document.createElement("p");
    note.className = "why unknown stale";
    region.before(note);
  }
  if (note.textContent === words) return;
  note.textContent = words;
  announce(words);
}

/** Keeps the live part of the page fresh, and narrows it while a search is typed. */
export function live() {
  if (!region) return;
  if (everyMs > 0) {
    setInterval(() => void refresh(), everyMs);
    document.addEventListener("visibilitychange", () => document.hidden || void refresh());
    window.addEventListener("online", () => void refresh());
    window.addEventListener("pageshow", (event) => event.persisted && void refresh());
  }
  const search = document.querySelector("[data-live-search]");
  if (!search) return;
  let waiting;
  const narrow = (waitMs) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const params = new URLSearchParams([...new FormData(search)].filter(([, value]) => value !== ""));
      const address = params.size > 0 ? `${search.action}?${params}` : search.action;
      history.replaceState(null, "", address);
      params.set("fragment", "1");
      region.dataset.live = `${new URL(search.action).pathname}?${params}`;
      void refresh(true);
    }, waitMs);
  };
  search.addEventListener("input", () => narrow(250));
  // Typed before this module was there.
  if ([...search.querySelectorAll("[type=search]")].some((field) => field.value !== field.defaultValue)) narrow(0);
  // A page that is loaded again would lose the focus and what is chosen below.
  search.addEventListener("submit", (event) => {
    event.preventDefault();
    narrow(0);
  });
}
