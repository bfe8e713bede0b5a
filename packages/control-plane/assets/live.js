import { announce } from "./dom.js";
import { localTimes } from "./times.js";

const region = document.getElementById("live");
const everyMs = Number(region?.dataset.liveEvery ?? 12) * 1000;
let failures = 0;
let running = null;

/** True while replacing the region would take something from under somebody's hands. */
function busy() {
  if (document.hidden || document.querySelector("dialog[open]")) return true;
  const active = document.activeElement;
  if (region.contains(active) && active.matches("input, select, textarea")) return true;
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && region.contains(selection.anchorNode);
}

/** Fetches the live part of the page anew. `now` also when somebody is at work in it. */
export async function refresh(now = false) {
  if (!region || (!now && busy())) return;
  running?.abort();
  const own = (running = new AbortController());
  let html;
  try {
    const reply = await fetch(region.dataset.live, { headers: { Accept: "text/html" }, signal: own.signal });
    // A redirect means that the session has ended: the page itself leads to the sign-in page and back.
    if (reply.redirected) return location.reload();
    if (!reply.ok) throw new Error(String(reply.status));
    html = await reply.text();
  } catch {
    if (!own.signal.aborted && ++failures >= 2) stale(true);
    return;
  }
  failures = 0;
  stale(false);
  if (now || !busy()) replace(html);
}

function replace(html) {
  const before = region.querySelector("[data-announce]")?.dataset.announce;
  const open = [...region.querySelectorAll("details[open][id]")].map((box) => box.id);
  const scrolled = [...region.querySelectorAll(".scroll")].map((box) => box.scrollTop);
  const focus = focusPath(document.activeElement);
  const next = document.createElement("div");
  next.innerHTML = html;
  for (const id of open) next.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
  // What a run shows is not the server's to replace.
  for (const own of region.querySelectorAll("[data-stay]")) next.querySelector(`#${own.id}`)?.replaceWith(own);
  localTimes(next);
  region.replaceChildren(...next.childNodes);
  for (const [at, box] of [...region.querySelectorAll(".scroll")].entries()) box.scrollTop = scrolled[at] ?? 0;
  if (focus) region.querySelector(focus)?.focus({ preventScroll: true });
  const said = region.querySelector("[data-announce]");
  if (said && said.dataset.announce !== before) announce(said.dataset.announce);
  if (said?.dataset.title) document.title = `${said.dataset.title} · StatusMesh`;
  region.dispatchEvent(new Event("refreshed", { bubbles: true }));
}

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

function stale(is) {
  let note = document.querySelector(".stale");
  if (is && !note) {
    note = document.createElement("p");
    note.className = "why unknown stale";
    note.textContent = "StatusMesh does not answer: what stands here is from before. It is tried again by itself.";
    region.before(note);
    announce(note.textContent);
  } else if (!is) {
    note?.remove();
  }
}

/** Keeps the live part of the page fresh, and lets a search narrow it while it is written. */
export function live() {
  if (!region) return;
  if (everyMs > 0) {
    setInterval(() => void refresh(), everyMs);
    document.addEventListener("visibilitychange", () => void refresh());
  }
  const search = document.querySelector("[data-live-search]");
  if (!search) return;
  let waiting;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const params = new URLSearchParams([...new FormData(search)].filter(([, value]) => value !== ""));
      const address = params.size > 0 ? `${search.action}?${params}` : search.action;
      history.replaceState(null, "", address);
      params.set("fragment", "1");
      region.dataset.live = `${new URL(search.action).pathname}?${params}`;
      void refresh(true);
    }, 250);
  });
}
