// A copy of a status page says how old it is while its source is silent.
const note = document.querySelector("[data-beat]");
const relative = new Intl.RelativeTimeFormat(document.documentElement.lang, { numberingSystem: "latn" });
const [lookMs, silentMs, minuteMs] = [30_000, 300_000, 60_000];
/** The newest sign of life, Unix ms: that of the page itself until the file was read. */
let alive = Date.parse(note.dataset.changed);
/** The clock of the file server less that of the visitor, ms. */
let skew = 0;

async function look() {
  try {
    const reply = await fetch(note.dataset.beat, { cache: "no-cache", signal: AbortSignal.timeout(10_000) });
    if (reply.ok) alive = Math.max(alive, Date.parse((await reply.json()).at) || 0);
    skew = (Date.parse(reply.headers.get("Date")) || Date.now()) - Date.now();
  } catch {
    // Without the file server, the age is that of the last sign of life.
  }
  const age = Date.now() + skew - alive;
  note.className = age > silentMs ? "panel stale" : "muted xs";
  if (age <= silentMs) return note.replaceChildren(...plain.map((one) => one.cloneNode(true)));
  const mins = Math.floor(age / minuteMs);
  const [count, unit] = mins < 60 ? [mins, "minute"] : mins < 1440 ? [mins / 60, "hour"] : [mins / 1440, "day"];
  note.textContent = `${note.dataset.late} ${relative.format(-Math.floor(count), unit)}`;
}

const plain = [...note.childNodes];
void look();
setInterval(look, lookMs);
