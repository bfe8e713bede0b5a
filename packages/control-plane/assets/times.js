const { hour12 } = new Intl.DateTimeFormat(undefined, { hour: "numeric" }).resolvedOptions();
const formats = {
  // 8:04 PM, and 08:04.
  hour: new Intl.DateTimeFormat(undefined, { hour: hour12 ? "numeric" : "2-digit", minute: "2-digit" }),
  date: new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" }),
  day: new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" }),
  full: new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" }),
};

/** The time of day as the reader writes it. */
export const clockOf = (date) => formats.hour.format(date);

/** The day and month as the reader writes them. */
export const dateOf = (date) => formats.date.format(date);

/** A slow or cached page explains smaller differences between the two clocks, ms. */
const tolerance = 120_000;
const sent = Number(document.body.dataset.now) - Date.now();
/** The clock of the server less that of the browser, ms; 0 where they agree, or the page does not say. */
const skew = Math.abs(sent) > tolerance ? sent : 0;

/** The time by the clock of the server, Unix ms: that of a computer may be a day off. */
export const now = () => Date.now() + skew;

/** `3 s ago`, as the server writes it. */
export function ago(at, from) {
  const secs = Math.round(Math.abs(from - at) / 1000);
  if (secs === 0) return "now";
  const text =
    secs < 60
      ? `${secs} s`
      : secs < 3600
        ? `${Math.floor(secs / 60)} min`
        : secs < 86400
          ? `${Math.floor(secs / 3600)} h`
          : `${Math.floor(secs / 86400)} d`;
  return at <= from ? `${text} ago` : `in ${text}`;
}

const words = {
  ago: (date) => ago(date.getTime(), now()),
  due: (date) => (date > now() ? ago(date.getTime(), now()) : "due now"),
  clock: (date) =>
    date.toDateString() === new Date(now()).toDateString()
      ? formats.hour.format(date)
      : `${formats.date.format(date)} ${formats.hour.format(date)}`,
  day: (date) => formats.day.format(date),
  date: (date) => formats.date.format(date),
  hour: clockOf,
};

/** Rewrites the server's UTC times for the reader's zone. */
export function localTimes(within = document) {
  for (const element of within.querySelectorAll("time[data-as], [data-at][data-as]")) {
    const date = new Date(element.dateTime || element.dataset.at);
    const text = words[element.dataset.as]?.(date);
    if (text === undefined) continue;
    // A text of a drawing keeps its own title element.
    const node = [...element.childNodes].find((child) => child.nodeType === Node.TEXT_NODE) ?? element;
    if (node.textContent !== text) node.textContent = text;
    if (element.dateTime) element.title = formats.full.format(date);
  }
}

/** Keeps relative times true while the page is looked at. */
export function tickingTimes() {
  setInterval(() => {
    if (document.hidden) return;
    for (const element of document.querySelectorAll('time:is([data-as="ago"], [data-as="due"])')) {
      const text = words[element.dataset.as](new Date(element.dateTime));
      // The node stays: with a new one, the styles of everything that `:has` looks at are computed again.
      if (element.firstChild.data !== text) element.firstChild.data = text;
    }
  }, 1000);
}
