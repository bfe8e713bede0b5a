// The script of public pages: one file, so that a visitor on a phone makes one request for it.
const live = document.getElementById("live");
const region = document.getElementById("live-region");
const words = JSON.parse(document.body.dataset.words);
const lang = document.documentElement.lang;
const base = (tag) => tag.split("-")[0];
/** The visitor's own variant of the page's language, which decides between a clock of 12 and of 24 hours. */
const locale = navigator.languages?.find((one) => base(one) === base(lang)) ?? (lang === "en" ? "en-GB" : lang);
const icon = document.querySelector("link[rel=icon]");
const $ = (selector, within = document) => within.querySelector(selector);
const each = (selector, within, work) => within.querySelectorAll(selector).forEach(work);
const numberingSystem = "latn";
const format = (options) => new Intl.DateTimeFormat(locale, { numberingSystem, ...options });
// 8:04 PM, and 08:04.
const time = { hour: format({ hour: "numeric" }).resolvedOptions().hour12 ? "numeric" : "2-digit", minute: "2-digit" };
const hour = format(time);
const date = format({ day: "numeric", month: "short", ...time });
const month = format({ day: "numeric", month: "short" });
const day = format({ day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
const relative = new Intl.RelativeTimeFormat(locale, { style: "short", numberingSystem });
const refreshMs = 30_000;
const timeoutMs = 10_000;
/** A difference between the clocks of visitor and server that a slow or cached reply does not explain, ms. */
const clockTolerance = 120_000;
/** The clock of the server less that of the visitor, ms; known after the first refresh. */
let skew = 0;
let failures = 0;

const now = () => Date.now() + skew;
const clock = (at) => (at.toDateString() === new Date(now()).toDateString() ? hour : date).format(at);

function ago(at) {
  const secs = Math.max(0, Math.round((now() - at) / 1000));
  if (secs < 60) return relative.format(-secs, "second");
  if (secs < 3600) return relative.format(-Math.floor(secs / 60), "minute");
  return clock(at);
}

let drawAxes = () => {};
if (document.querySelector("[data-ticks]"))
  void import("./axis.js").then((module) => {
    ({ drawAxes } = module);
    drawAxes();
  });

const styles = { ago, clock, hour: (at) => hour.format(at), date: (at) => month.format(at) };

/** Rewrites the times of the page for the visitor's zone. Their titles stay in UTC. */
function localTimes(within, style = "") {
  each(`[data-as${style}]`, within, (element) => {
    const text = styles[element.dataset.as]?.(new Date(element.dateTime ?? element.dataset.at));
    // A text of a drawing keeps its own title element.
    const node = element.firstChild;
    if (text && node.textContent !== text) node.textContent = text;
  });
  drawAxes();
}

/** Fetches the dynamic part again. What a visitor has opened or closed, the focus and a pinned day stay. */
async function refresh() {
  if (document.hidden) return;
  try {
    const reply = await fetch(live.dataset.live, {
      headers: { Accept: "text/html" },
      cache: "no-cache",
      signal: AbortSignal.timeout(timeoutMs),
    });
    if (reply.status === 404) return location.reload();
    if (!reply.ok) throw new Error(reply.statusText);
    let next = document.createElement("div");
    next.innerHTML = await reply.text();
    // A copy of the page has no fragment.
    next = $("#live", next) ?? next;
    failures = 0;
    const ahead = Date.parse(reply.headers.get("Date")) - Date.now();
    skew = Math.abs(ahead) > clockTolerance ? ahead : 0;
    $(".stale")?.remove();
    const { head, tone } = $("[data-head]", next).dataset;
    document.title = head;
    icon.href = icon.dataset[tone] ?? icon.dataset.unknown;
    const selection = getSelection();
    if ((selection.isCollapsed || !live.contains(selection.anchorNode)) && !$(".tip.pinned")) replace(next);
  } catch {
    if (++failures < 2 || $(".stale")) return;
    icon.href = icon.dataset.unknown;
    const note = document.createElement("p");
    note.className = "panel stale";
    note.textContent = region.textContent = words.stale;
    live.before(note);
  }
}

function replace(next) {
  each("details[id]", live, (box) => {
    const twin = $(`#${CSS.escape(box.id)}`, next);
    if (twin) twin.open = box.open;
  });
  const focusable = "summary, a[href], .days";
  const path = (element) => element.getAttribute("href") ?? element.closest("[id]")?.id;
  const focused = document.activeElement;
  const inside = live.contains(focused) && focused.matches(focusable);
  const found = inside ? [path(focused), [...live.querySelectorAll(focusable)].indexOf(focused)] : null;
  const before = $("[data-label]", live)?.dataset.label;
  localTimes(next);
  live.replaceChildren(...next.childNodes);
  each(".days", live, prepare);
  if (found) {
    const all = [...live.querySelectorAll(focusable)];
    const twin = all[found[1]];
    const same = twin && path(twin) === found[0] ? twin : all.find((one) => path(one) === found[0]);
    same?.focus({ preventScroll: true });
  }
  const label = $("[data-label]", live)?.dataset.label;
  if (label && label !== before) region.textContent = `${words.refreshed} ${label}`;
}

// A strip is a slider over its days: pointer, finger or arrow keys choose one.
function prepare(strip) {
  strip.tabIndex = 0;
  strip.setAttribute("role", "slider");
  strip.days = [...strip.dataset.days.matchAll(/([a-z])(\d*)(\*?)/g)].map(([, state, secs, imported], at) => {
    const mins = Math.ceil(Number(secs) / 60);
    const [h, min] = [Math.floor(mins / 60), mins % 60];
    const span = [h && `${h} ${words.hours}`, (min || !h) && `${min} ${words.minutes}`].filter(Boolean).join(" ");
    const when = new Date(Date.parse(strip.dataset.from) + at * 86_400_000);
    const texts = [words[state], secs && `${words.down} ${span}`, imported && words.imported];
    return [day.format(when), texts.filter(Boolean).join(" · ")];
  });
  strip.ariaValueMin = 1;
  strip.ariaValueMax = strip.days.length;
  strip.ariaDescription = words.keys;
  say(strip, strip.days.length - 1);
}

function say(strip, at) {
  strip.at = at;
  strip.ariaValueNow = at + 1;
  strip.ariaValueText = strip.days[at].join(": ");
}

function open(strip, at, pinned = false) {
  close();
  say(strip, at);
  const [title, text] = strip.days[at];
  const tip = document.createElement("div");
  tip.className = pinned ? "tip pinned" : "tip";
  tip.innerHTML = "<strong></strong><span></span>";
  tip.ariaHidden = "true";
  tip.firstChild.textContent = title;
  tip.lastChild.textContent = text;
  strip.append(tip);
  const middle = ((at + 0.5) / strip.days.length) * strip.clientWidth - tip.offsetWidth / 2;
  tip.style.left = `${Math.max(0, Math.min(middle, strip.clientWidth - tip.offsetWidth))}px`;
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("d", `M${at * 8} 1h6v26h-6z`);
  $("svg", strip).append(cursor);
}

const close = () => each(".tip, .cursor", document, (one) => one.remove());
const stripOf = (event) => event.target.closest?.(".days");
function dayAt(strip, x) {
  const box = strip.getBoundingClientRect();
  const at = Math.floor(((x - box.left) / box.width) * strip.days.length);
  return Math.max(0, Math.min(at, strip.days.length - 1));
}
const pinned = () => $(".tip.pinned") !== null;

document.addEventListener("pointermove", (event) => {
  const strip = stripOf(event);
  if (pinned() || event.pointerType === "touch") return;
  if (strip?.days) open(strip, dayAt(strip, event.clientX));
  else if (!document.activeElement.matches(".days")) close();
});
document.addEventListener("click", (event) => {
  const strip = stripOf(event);
  if (!strip?.days) return close();
  const at = dayAt(strip, event.clientX);
  if (pinned() && strip.at === at && $(".tip", strip)) close();
  else open(strip, at, true);
});
document.addEventListener("keydown", (event) => {
  const strip = stripOf(event);
  if (event.key === "Escape") return close();
  if (!strip?.days) return;
  const last = strip.days.length - 1;
  const to = {
    ArrowLeft: strip.at - 1,
    ArrowDown: strip.at - 1,
    ArrowRight: strip.at + 1,
    ArrowUp: strip.at + 1,
    PageDown: strip.at - 7,
    PageUp: strip.at + 7,
    Home: 0,
    End: last,
    Enter: strip.at,
  }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  open(strip, Math.max(0, Math.min(to, last)), event.key === "Enter");
});
document.addEventListener("focusin", (event) => {
  const strip = stripOf(event);
  if (strip?.days && strip.matches(":focus-visible")) open(strip, strip.at);
});
document.addEventListener("focusout", () => pinned() || close());

localTimes(document);
each(".days", document, prepare);
setInterval(() => document.hidden || localTimes(document, "=ago"), 1000);
const zone = format({ timeZoneName: "short" })
  .formatToParts()
  .find(({ type }) => type === "timeZoneName").value;
each("[name=time_zone]", document, (one) => (one.value = hour.resolvedOptions().timeZone));
each("[data-zone]", document, (one) => (one.textContent = `${words.yourZone} (${zone})`));
if (live) {
  setInterval(refresh, refreshMs);
  document.addEventListener("visibilitychange", refresh);
  addEventListener("online", refresh);
}
