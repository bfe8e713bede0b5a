import { html, Markup } from "./markup.ts";
import { marks } from "./marks.ts";

// Drawings on a 16 by 16 grid, in the colour of the text around them.

/** Filled ones, the marks in them cut out. One shape per state: colour is never the only sign. */
const filled = {
  up:
    "M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13ZM5.77 7.63L7.16 9.03 10.3 5.47A.8.8 0 0 1 11.5 " +
    "6.53L7.24 11.37 4.63 8.77A.8.8 0 0 1 5.77 7.63Z",
  degraded:
    "M7.1 2.2a1 1 0 0 1 1.8 0l5.6 10.3a1 1 0 0 1-.9 1.5H2.4a1 1 0 0 1-.9-1.5ZM7.2 6a.8.8 0 0 1 1.6 " +
    "0v3.4a.8.8 0 0 1-1.6 0ZM7.2 11.6a.8.8 0 0 1 1.6 0v.2a.8.8 0 0 1-1.6 0Z",
  down:
    "M5.3 1.5h5.4l3.8 3.8v5.4l-3.8 3.8H5.3l-3.8-3.8V5.3ZM5.23 6.37A.8.8 0 0 1 6.37 5.23L8 6.87 9.63 " +
    "5.23A.8.8 0 0 1 10.77 6.37L9.13 8 10.77 9.63A.8.8 0 0 1 9.63 10.77L8 9.13 6.37 10.77A.8.8 0 0 1 " +
    "5.23 9.63L6.87 8Z",
  error:
    "M9.41 1.64L14.36 6.59A2 2 0 0 1 14.36 9.41L9.41 14.36A2 2 0 0 1 6.59 14.36L1.64 9.41A2 2 0 0 1 1.64 " +
    "6.59L6.59 1.64A2 2 0 0 1 9.41 1.64ZM7.2 4.8a.8.8 0 0 1 1.6 0v3.8a.8.8 0 0 1-1.6 0ZM7.2 11a.8.8 0 0 " +
    "1 1.6 0v.2a.8.8 0 0 1-1.6 0Z",
  maintenance:
    "M5.25 1.75h5.5a3.5 3.5 0 0 1 3.5 3.5v5.5a3.5 3.5 0 0 1-3.5 3.5h-5.5a3.5 3.5 0 0 1-3.5-3.5v-5.5a3.5 " +
    "3.5 0 0 1 3.5-3.5ZM4.3 5a.7.7 0 0 1 1.4 0v6a.7.7 0 0 1-1.4 0ZM7.3 5a.7.7 0 0 1 1.4 0v6a.7.7 0 0 " +
    "1-1.4 0ZM10.3 5a.7.7 0 0 1 1.4 0v6a.7.7 0 0 1-1.4 0Z",
  more:
    "M4.5 8a1.3 1.3 0 1 1-2.6 0 1.3 1.3 0 0 1 2.6 0ZM9.3 8a1.3 1.3 0 1 1-2.6 0 1.3 1.3 0 0 1 2.6 0Z" +
    "M14.1 8a1.3 1.3 0 1 1-2.6 0 1.3 1.3 0 0 1 2.6 0Z",
} as const;

/** Drawn with one pen. */
const lines = {
  unknown: '<circle cx="8" cy="8" r="5.75" stroke-dasharray="2.6 2"/>',
  paused: '<path d="M8 2.25a5.75 5.75 0 1 1 0 11.5 5.75 5.75 0 0 1 0-11.5ZM6.5 6v4m3-4v4"/>',
  monitors: '<path d="M1.5 8.5H4l2-5 3.5 9 2-4h3"/>',
  incidents: '<path d="M8 2.2 14.3 13.4H1.7ZM8 6.5v3M8 11.4v.1"/>',
  planned:
    '<path d="M2.5 4.5a1.5 1.5 0 0 1 1.5-1.5h8a1.5 1.5 0 0 1 1.5 1.5V12a1.5 1.5 0 0 1-1.5 1.5H4A1.5 1.5 ' +
    '0 0 1 2.5 12ZM2.5 6.5h11M5.5 1.8V4m5-2.2V4"/>',
  channels: '<path d="M3.2 11.2c1-1 1.2-2 1.2-4a3.6 3.6 0 0 1 7.2 0c0 2 .2 3 1.2 4ZM6.6 13.4a1.6 1.6 0 0 0 2.8 0"/>',
  pages: '<path d="M2.5 3.5a1 1 0 0 1 1-1h9a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1h-9a1 1 0 0 1-1-1ZM2.5 6h11M5 9h6M5 11h3.5"/>',
  settings:
    '<circle cx="8" cy="8" r="2.2"/><path d="M8 1.8v1.7M8 12.5v1.7M1.8 8h1.7M12.5 8h1.7M3.6 3.6l1.2 ' +
    '1.2m6.4 6.4 1.2 1.2m0-8.8-1.2 1.2M4.8 11.2l-1.2 1.2"/>',
  search: '<circle cx="7" cy="7" r="4.5"/><path d="m10.5 10.5 3.5 3.5"/>',
  below: '<path d="m4.5 6.5 3.5 3.5 3.5-3.5"/>',
  after: '<path d="m6.5 4.5 3.5 3.5-3.5 3.5"/>',
  back: '<path d="M9.5 4.5 6 8l3.5 3.5"/>',
  choose: '<path d="m5 6 3-3 3 3M5 10l3 3 3-3"/>',
  close: '<path d="m4 4 8 8M12 4l-8 8"/>',
  add: '<path d="M8 3v10M3 8h10"/>',
  done: '<path d="m3.5 8.5 3 3 6-7" stroke-width="2"/>',
  pin: '<path d="M9.8 1.8 14.2 6.2l-3 1-2.6 2.6-.4 2.8L3.4 7.8l2.8-.4 2.6-2.6ZM5.8 10.2l-3.6 3.6"/>',
  sun:
    '<circle cx="8" cy="8" r="2.8"/><path d="M8 1.8v1M8 13.2v1M1.8 8h1M13.2 8h1M3.6 3.6l.7.7M11.7 ' +
    '11.7l.7.7M12.4 3.6l-.7.7M4.3 11.7l-.7.7"/>',
  moon: '<path d="M13 9.8A5.6 5.6 0 0 1 6.2 3 5.6 5.6 0 1 0 13 9.8Z"/>',
  container: '<path d="M8 1.8 13.5 4.8v6.4L8 14.2l-5.5-3V4.8ZM2.5 4.8 8 7.8l5.5-3M8 7.8v6.4"/>',
  screen: '<path d="M2 3.5h12v7.5H2ZM6 13.5h4"/>',
  globe: '<circle cx="8" cy="8" r="6"/><path d="M2 8h12M8 2c4 3.6 4 8.4 0 12M8 2C4 5.6 4 10.4 8 14"/>',
  plug: '<path d="M6 1.8V5m4-3.2V5M4 5h8v2.5a4 4 0 0 1-8 0ZM8 11.5v3"/>',
  calls: '<path d="M2 5.5 4.5 8 2 10.5M14 5.5 11.5 8l2.5 2.5M7 8h.1M9 8h.1"/>',
  echo:
    '<path d="M8 8h.1M5.2 10.8a4 4 0 0 1 0-5.6m5.6 0a4 4 0 0 1 0 5.6M3.1 12.9a7 7 0 0 1 0-9.8m9.8 ' +
    '0a7 7 0 0 1 0 9.8"/>',
  records: '<path d="M3 3.2h10v3.4H3ZM3 9.4h10v3.4H3ZM5.2 4.9h.1M5.2 11.1h.1"/>',
  lock: '<path d="M3.5 7.2h9v6h-9ZM5.2 7V5.2a2.8 2.8 0 0 1 5.6 0V7M8 9.6v1.4"/>',
  tag: '<path d="M2.5 8V3a.5.5 0 0 1 .5-.5h5l5.5 5.5-5.5 5.5ZM5.4 5.4h.1"/>',
  group: '<path d="M2.5 2.5h4.8v4.8H2.5ZM8.7 2.5h4.8v4.8H8.7ZM2.5 8.7h4.8v4.8H2.5ZM8.7 8.7h4.8v4.8H8.7Z"/>',
  heart: '<path d="M8 13.2S2 9.8 2 5.9A3 3 0 0 1 8 4.8a3 3 0 0 1 6 1.1c0 3.9-6 7.3-6 7.3Z"/>',
  share: '<path d="M6 3.5H3.5v9h9V10M9 2.5h4.5V7M13.2 2.8 7.5 8.5"/>',
  refresh: '<path d="M13.5 8A5.5 5.5 0 1 1 11.8 4L13.5 5.6M13.5 2.4v3.2h-3.2"/>',
  edit: '<path d="m3 10.5 7.5-7.5 2.5 2.5L5.5 13H3Z"/>',
  mail: '<path d="M2 3.8h12v8.4H2ZM2.2 4.2 8 8.8l5.8-4.6"/>',
  chat: '<path d="M2.5 3h11v7.5H7L4 13.2v-2.7H2.5Z"/>',
  phone: '<path d="M5 1.8h6v12.4H5ZM7.4 12h1.2"/>',
  // Of vendors without a free mark.
  slack: '<path d="M6.1 2.2v11.6M9.9 2.2v11.6M2.2 6.1h11.6M2.2 9.9h11.6"/>',
  teams:
    '<path d="M1.8 4.2h8v8h-8ZM3.9 6.6h3.8M5.8 6.6v3.6M11.8 7.8h2.4v2.4a2.2 2.2 0 0 1-2.4 2.2"/>' +
    '<circle cx="12.6" cy="4.6" r="1.4"/>',
  pushover: '<circle cx="8" cy="8" r="6.2"/><path d="M6.4 12 8.2 4.6h.9a2.1 2.1 0 0 1 0 4.2h-2"/>',
  gotify: '<path d="M2.5 3h11v7.5H7L4 13.2v-2.7H2.5ZM8 4.9v2M8 8.7v.1"/>',
  sms: '<path d="M2.5 3h11v7.5H7L4 13.2v-2.7H2.5ZM5.2 6.8h.1M8 6.8h.1M10.8 6.8h.1"/>',
  clock: '<circle cx="8" cy="8" r="6"/><path d="M8 4.6V8l2.2 1.6"/>',
  swap: '<path d="M2 5.5h10L9.5 3M14 10.5H4L6.5 13"/>',
  download: '<path d="M8 2.5v7.3M4.8 6.8 8 10l3.2-3.2M3 13.5h10"/>',
  copy: '<path d="M5.5 5.5h8v8h-8ZM10.5 5.2V2.5h-8v8h2.7"/>',
  silent:
    '<path d="M3.2 11.2c1-1 1.2-2 1.2-4a3.6 3.6 0 0 1 .6-2M7 3.7a3.6 3.6 0 0 1 4.6 3.5c0 2 .2 3 1.2 ' +
    '4H6.8M6.6 13.4a1.6 1.6 0 0 0 2.8 0M2.5 2.5l11 11"/>',
  note: '<path d="M3 2.5h10v7.5l-3.5 3.5H3ZM13 10H9.5v3.5"/>',
} as const;

export type Icon = keyof typeof filled | keyof typeof lines | keyof typeof marks;

const draw = (name: string, inner: string, size = 16): Markup =>
  new Markup(`<svg class="${name}" viewBox="0 0 ${size} ${size}" aria-hidden="true">${inner}</svg>`);

/** One element each where one is enough: a list has an icon or two in every row. */
const icons = new Map<string, Markup>([
  ...Object.entries(filled).map(([name, d]): [string, Markup] => [name, draw("icon", `<path d="${d}"/>`)]),
  ...Object.entries(marks).map(([name, d]): [string, Markup] => [name, draw("icon", `<path d="${d}"/>`, 24)]),
  ...Object.entries(lines).map(([name, inner]): [string, Markup] => [name, draw("icon pen", inner)]),
]);

/** An icon as inline SVG. It is decoration: the word beside it says the same. */
export const icon = (name: Icon): Markup => icons.get(name)!;

/** True for a name that has a drawing. */
export const isIcon = (name: string): name is Icon => icons.has(name);

/** Top and height of the five bars of the mark, which form an M. The last one is the state of now. */
const bars = [
  [1, 14],
  [3, 6],
  [7, 6],
  [3, 6],
  [1, 14],
] as const;

/** The mark: five checks. `state` colours the last one. */
export function mark(state: string): Markup {
  const drawn = bars.map(([y, height], at) => {
    const last = at === bars.length - 1 ? new Markup(' class="now"') : "";
    return html`<rect${last} x="${1 + 3 * at}" y="${y}" width="2" height="${height}" rx="1" />`;
  });
  return html`<svg class="mark ${state}" viewBox="0 0 16 16" aria-hidden="true">${drawn}</svg>`;
}

/** The mark in a row of checks that are still to come, for empty screens. */
export function markInDots(): Markup {
  const drawn = Array.from({ length: 25 }, (_, at) => {
    const bar = bars[at - 10];
    const x = at * 12 + 2;
    if (bar === undefined) return html`<rect x="${x}" y="48" width="8" height="8" rx="4" />`;
    const own = at === 14 ? "now" : "ink";
    return html`<rect class="${own}" x="${x}" y="${(bar[0] - 1) * 4}" width="8" height="${bar[1] * 4}" rx="4" />`;
  });
  return html`<svg class="art" viewBox="0 0 300 56" aria-hidden="true">${drawn}</svg>`;
}
