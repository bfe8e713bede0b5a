// The wall refreshes itself, and tells of outages that were not there before.
import { el } from "./dom.js";
import { clockOf, now } from "./times.js";

const wall = document.getElementById("wall");
const icon = document.querySelector("link[rel=icon]");
const everyMs = 10_000;
const timeoutMs = 8000;
const notify = document.getElementById("notify");
const sound = document.getElementById("sound");
const alarms = () =>
  new Map([...wall.querySelectorAll("[data-alarm]")].map((one) => [one.dataset.alarm, one.dataset.title]));
let known = alarms();
let shownAt = Date.now();
let audio = null;

/** Two short tones. Browsers allow them once somebody has pressed the button. */
function beep() {
  if (audio === null) return;
  for (const [at, pitch] of [
    [0, 880],
    [0.2, 660],
  ]) {
    const tone = audio.createOscillator();
    const volume = audio.createGain();
    tone.frequency.value = pitch;
    volume.gain.value = 0.2;
    tone.connect(volume).connect(audio.destination);
    tone.start(audio.currentTime + at);
    tone.stop(audio.currentTime + at + 0.15);
  }
}

function tell(titles) {
  if (titles.length === 0) return;
  document.getElementById("live-region").textContent = `New outage: ${titles.join(", ")}`;
  beep();
  if (globalThis.Notification?.permission === "granted")
    for (const title of titles.slice(0, 3)) {
      const note = new Notification("New outage", { body: title, tag: title });
      note.addEventListener("click", () => window.focus());
    }
}

async function refresh() {
  try {
    const reply = await fetch("/wall?fragment=1", {
      headers: { Accept: "text/html" },
      signal: AbortSignal.timeout(timeoutMs),
    });
    if (reply.redirected) return location.reload();
    if (!reply.ok) throw new Error(String(reply.status));
    const next = el("div", {});
    next.innerHTML = await reply.text();
    wall.replaceChildren(...next.childNodes);
    wall.classList.remove("lost");
    shownAt = Date.now();
    const { head, tone } = wall.querySelector("[data-head]").dataset;
    document.title = head;
    icon.href = icon.dataset[tone];
    const shown = alarms();
    tell([...shown].filter(([id]) => !known.has(id)).map(([, title]) => title));
    known = shown;
  } catch {
    wall.classList.add("lost");
  }
}

function tick() {
  const secs = Math.round((Date.now() - shownAt) / 1000);
  wall.querySelector(".wall-at").textContent = `${secs} s ago · ${clockOf(now())}`;
}

if (globalThis.Notification?.permission === "default") notify.hidden = false;
notify.addEventListener("click", async () => {
  notify.hidden = (await Notification.requestPermission()) !== "default";
});
sound.addEventListener("click", () => {
  void audio?.close();
  audio = audio === null ? new AudioContext() : null;
  sound.ariaPressed = String(audio !== null);
  sound.textContent = audio === null ? "Sound off" : "Sound on";
  beep();
});
tick();
setInterval(tick, 1000);
setInterval(refresh, everyMs);
