import { dayMs, minuteMs } from "@statusmesh/shared/time";
import { absolute, clock, day, ms } from "./format.ts";
import { html, Markup } from "./markup.ts";

/** One decimal is below what a screen shows, and keeps the paths short. */
const round = (value: number): number => Math.round(value * 10) / 10;

/** Width of a strip's cell and its gap in its own units, as in base.css; the drawing is stretched to its place. */
const cell = { width: 3, gap: 1, height: 20 } as const;

/**
 * The path of the cells in one state: a line for each run, `M0 10h7` for two cells. The sheet dashes it into cells, so
 * that each slice can be counted, and gives it the height of its state: never colour alone.
 */
export function stripPath(cells: readonly string[], state: string): string {
  const step = cell.width + cell.gap;
  let path = "";
  for (let from = 0, to: number; from < cells.length; from = to) {
    for (to = from + 1; cells[to] === cells[from];) to++;
    if (cells[from] === state) path += `M${from * step} ${cell.height / 2}h${(to - from) * step - cell.gap}`;
  }
  return path;
}

/**
 * History as a row of cells, oldest first. States: up, degraded, partial, down, error, maintenance, none. One path per
 * state: a list of 50 rows of 48 cells stays small.
 */
export function strip(cells: readonly string[], label: string): Markup {
  const width = Math.max(cells.length * (cell.width + cell.gap) - cell.gap, 1);
  const paths = [...new Set(cells)].map((state) => html`<path class="${state}" d="${stripPath(cells, state)}"/>`);
  const box = html`viewBox="0 0 ${width} ${cell.height}" preserveAspectRatio="none"`;
  return html`<svg class="strip runs" ${box} role="img" aria-label="${label}">${paths}</svg>`;
}

/** `7 down, 43 up`: how many of the cells have which state, the worst first. */
export function beatsLabel(cells: readonly string[]): string {
  const words = {
    down: "down",
    partial: "partly down",
    degraded: "degraded",
    maintenance: "in maintenance",
    up: "up",
    none: "without data",
  };
  return Object.entries(words)
    .map(([state, word]) => [cells.filter((own) => own === state).length, word] as const)
    .flatMap(([count, word]) => (count === 0 ? [] : [`${count} ${word}`]))
    .join(", ");
}

/** Values by their position, with gaps. */
type Series = readonly (number | null)[];
/** The coordinate of a position or a value. */
type Scale = (at: number) => number;

/** A line through the values that exist. A gap breaks it; {@link dotsPath} shows what stands alone. */
export function linePath(values: Series, x: Scale, y: Scale): string {
  let path = "";
  let open = false;
  for (const [at, value] of values.entries()) {
    if (value === null) {
      open = false;
      continue;
    }
    path += `${open ? "L" : "M"}${round(x(at))} ${round(y(value))}`;
    open = true;
  }
  return path;
}

/** The values between two gaps, which no line shows: a stroke of no length is a dot where its ends are round. */
export function dotsPath(values: Series, x: Scale, y: Scale): string {
  const alone = (at: number) => (values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null;
  return values
    .map((value, at) => (value !== null && alone(at) ? `M${round(x(at))} ${round(y(value))}h0` : ""))
    .join("");
}

/** The area between two lines, one closed shape for each run without a gap. */
export function bandPath(low: Series, high: Series, x: Scale, y: Scale): string {
  let path = "";
  let run: number[] = [];
  const close = () => {
    if (run.length > 1) {
      path += `M${run.map((at) => `${round(x(at))} ${round(y(high[at]!))}`).join("L")}L${[...run]
        .reverse()
        .map((at) => `${round(x(at))} ${round(y(low[at]!))}`)
        .join("L")}Z`;
    }
    run = [];
  };
  for (const at of low.keys()) {
    if ((low[at] ?? null) === null || (high[at] ?? null) === null) close();
    else run.push(at);
  }
  close();
  return path;
}

/** Round steps of an axis from 0: at most five, the last one at or above `top`. */
export function axisSteps(top: number): number[] {
  const rough = Math.max(top, 1e-3) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * (1 - 1e-9))!;
  const count = Math.max(1, Math.ceil(top / step - 1e-9));
  return Array.from({ length: count + 1 }, (_, at) => Number((at * step).toPrecision(6)));
}

export interface LatencyPoint {
  /** Unix ms. */
  t: number;
  p50: number | null;
  p95: number | null;
  p99?: number | null;
  samples: number;
}

export interface Span {
  /** Unix ms. */
  from: number;
  to: number;
  kind: "down" | "degraded" | "maintenance";
  title: string;
  /** Page about it. */
  href?: string;
}

/** A separate line over the others: of one region, with its values at the positions of the points. */
export interface ChartLine {
  name: string;
  values: Series;
}

const plot = { width: 1000, height: 200 } as const;
/** A value is off the scale where it is this many times what 95 of 100 values are at most. */
const spike = 2.5;

/** Top of the scale: that of the data, without single spikes, which would flatten the rest. Values in ms. */
export function scaleTop(values: Series): number {
  const known = values.filter((value) => value !== null).sort((a, b) => a - b);
  const usual = known[Math.floor((known.length - 1) * 0.95)] ?? 1;
  const highest = known.at(-1) ?? 1;
  return known.length >= 20 && highest > spike * usual ? usual * 1.2 : highest;
}

/** The highest of neighbouring values above `top`: index and value. */
function spikesOf(values: Series, top: number): { at: number; value: number }[] {
  const found: { at: number; value: number; last: number }[] = [];
  for (const [at, value] of values.entries()) {
    if (value === null || value <= top) continue;
    const before = found.at(-1);
    if (before === undefined || before.last < at - 3) found.push({ at, value, last: at });
    else {
      before.last = at;
      if (value > before.value) [before.at, before.value] = [at, value];
    }
  }
  return found;
}
const percentOf = (share: number): string => `${Math.round(Math.min(1, Math.max(0, share)) * 10_000) / 100}%`;

/**
 * Latency over time: p50 as a line, p50 to p95 as a band, gaps as gaps, `spans` shaded. The plot is stretched to its
 * place while the letters, outside the stretched part, keep their size on a phone. With `keys` it is a stop of Tab, in
 * which the arrow keys move a crosshair (`chart.js`); the numbers of the points are in `data-points`.
 * `href` is the page that shows the checks of a point, else this one.
 */
export function latencyChart(
  points: readonly LatencyPoint[],
  spans: readonly Span[],
  range: {
    from: number;
    to: number;
    label: string;
    live?: boolean;
    keys?: boolean;
    lines?: readonly ChartLine[];
    href?: string;
  },
): Markup {
  const length = Math.max(range.to - range.from, 1);
  const at = (t: number) => (t - range.from) / length;
  const p50 = points.map((point) => (point.samples === 0 ? null : point.p50));
  const p95 = points.map((point) => (point.samples === 0 ? null : point.p95));
  const lines = range.lines ?? [];
  const steps = axisSteps(Math.max(scaleTop([...p95, ...lines.flatMap(({ values }) => values)]), 1));
  const top = steps.at(-1)!;
  const bucketMs = points.length > 1 ? points[1]!.t - points[0]!.t : 0;
  // A bucket is drawn in its middle; the first and the last would otherwise hang over the ends.
  const x = (index: number) => Math.min(1, Math.max(0, at(points[index]!.t + bucketMs / 2))) * plot.width;
  const y = (value: number) => plot.height - (Math.min(value, top) / top) * (plot.height - 12);

  const grid = steps.map((step) => html`<path d="M0 ${round(y(step))}H${plot.width}" />`);
  const shades = spans.filter((span) => span.to > range.from && span.from < range.to);
  let labelled = -Infinity;
  const spikes = spikesOf(p95, top).map(({ at: index, value }) => {
    // A value that would stand on another one is left out: the tooltip has it.
    const isFree = x(index) - labelled > plot.width / (x(index) > plot.width * 0.9 ? 5 : 10);
    if (isFree) labelled = x(index);
    const place = percentOf(x(index) / plot.width);
    const side = x(index) > plot.width * 0.9 ? html`x="-9" text-anchor="end"` : html`x="9"`;
    const text = html`<text class="over-text" ${side} y="10">${ms(value)}</text>`;
    return html`<svg x="${place}" y="0" overflow="visible">
      <path class="over" d="M0 2l5 8h-10z" />${isFree ? text : ""}
    </svg>`;
  });
  const labels = steps.map(
    (step) => html`<text x="100%" dx="-8" y="${round(y(step) + 4)}" text-anchor="end">${ms(step)}</text>`,
  );
  const stop = range.keys ? html` tabindex="0" role="group" aria-label="${range.label}. Arrow keys move."` : "";
  const href = range.href === undefined ? "" : html` data-href="${range.href}"`;
  const values = points.map(numbersOf).join(";");
  const numbers = range.keys
    ? html` data-first="${points[0]?.t ?? 0}" data-step="${bucketMs}" data-points="${values}"${href}`
    : "";
  return html`<div class="chartbox"${stop}>
    <svg class="scale axis" aria-hidden="true">${labels}</svg>
    <svg class="chart" data-from="${range.from}" data-to="${range.to}" data-top="${top}"${numbers}
      role="${shades.some(({ href }) => href !== undefined) ? "group" : "img"}" aria-label="${range.label}">
      ${shades.map((span) => shadeOf(span, Math.max(0, at(span.from)), Math.min(1, at(span.to))))}
      <svg width="100%" height="${plot.height}" viewBox="0 0 ${plot.width} ${plot.height}" preserveAspectRatio="none">
        <g class="grid">${grid}</g>
        <path class="band" d="${bandPath(p50, p95, x, y)}" />
        <path class="p95" d="${linePath(p95, x, y)}" />
        <path class="p50" d="${linePath(p50, x, y)}" />
        <path class="dots" d="${dotsPath(p50, x, y)}" />
        ${lines.map(
          ({ name, values }, index) => html`<g class="line t${hueOf(index)}" data-line="${name}"><title>${name}</title>
            <path class="reach" d="${linePath(values, x, y)}" />
            <path d="${linePath(values, x, y)}${dotsPath(values, x, y)}" /></g>`,
        )}
      </svg>
      ${shades.map((span) => hitOf(span, Math.max(0, at(span.from)), Math.min(1, at(span.to))))}
      ${spikes}
      <g class="axis" data-ticks${range.live === false ? "" : " data-live"}>${timeAxis(range)}</g>
    </svg>
  </div>`;
}

/** Hue of a line among several: neighbours differ. @public */
export const hueOf = (index: number): number => [3, 2, 7, 5, 4, 6][index % 6]!;

/** `84,212,240,15`: p50, p95, p99 and the number of samples; nothing for a gap. */
const numbersOf = ({ p50, p95, p99, samples }: LatencyPoint): string =>
  samples === 0 ? "" : [p50, p95, p99, samples].map((value) => (value == null ? "" : round(value * 10) / 10)).join();

/** A shaded time with its edge, which is at least 2 px wide. */
function shadeOf({ kind, title }: Span, left: number, right: number): Markup {
  const place = percentOf(left);
  const ground = titledRect(`shade ${kind}`, left, right - left, plot.height, title);
  const edge = titledRect(`edge ${kind}`, left, right - left, 2, title);
  return html`${ground}${edge}
    <rect class="shade ${kind}" x="${place}" width="2" height="${plot.height}" /><rect class="edge ${kind}"
      x="${place}" width="2" height="2" />`;
}

/** What can be clicked of a shaded time: 24 px at least, without the line that is measured below it. */
function hitOf({ href, title }: Span, left: number, right: number): Markup | "" {
  if (href === undefined) return "";
  const middle = percentOf((left + right) / 2);
  return html`<a href="${href}" aria-label="${title}"><rect class="hit" x="${percentOf(left)}"
      width="${percentOf(right - left)}" height="24" /><svg x="${middle}" overflow="visible"><rect class="hit" x="-12"
      width="24" height="24" /></svg><title>${title}</title></a>`;
}

/** Lengths of an axis between two ticks, minutes. */
const tickMinutes = [5, 10, 15, 30, 60, 120, 240, 360, 720, 1440, 2880, 7200, 14_400, 21_600];
const mostTicks = 7;

/** Ticks at round times in UTC, which `axis.js` replaces by those of the reader's zone; a live one ends now. */
function timeAxis(range: { from: number; to: number; live?: boolean }): Markup[] {
  const length = Math.max(range.to - range.from, 1);
  const stepMs =
    minuteMs * (tickMinutes.find((step) => step * minuteMs * mostTicks >= length) ?? length / minuteMs / 4);
  const first = Math.ceil(range.from / stepMs) * stepMs;
  const ticks: Markup[] = [];
  for (let at = first; at <= range.to && ticks.length < 2 * mostTicks; at += stepMs) {
    const share = (at - range.from) / length;
    if (range.live !== false && share > 0.88) break;
    const t = new Date(at);
    const text = at % dayMs === 0 ? day(t).replace(/ \d{4}$/, "") : clock(t, at);
    const anchor = share < 0.03 ? "start" : share > 0.97 ? "end" : "middle";
    const between = ticks.length % 2 === 1 ? html` class="between"` : "";
    ticks.push(tick(share, anchor, between, html`<title>${absolute(t)}</title>${text}`));
  }
  return range.live === false ? ticks : [...ticks, tick(1, "end", "", "now")];
}

const tick = (share: number, anchor: string, style: Markup | "", text: Markup | string): Markup =>
  html`<text x="${percentOf(share)}" y="${plot.height + 18}" text-anchor="${anchor}"${style}>${text}</text>`;

/** A rectangle with a title; position and width are shares of the drawing, 0 to 1. */
function titledRect(name: string, x: number, width: number, height: number, title: string): Markup {
  const place = html`x="${percentOf(x)}" width="${percentOf(width)}" height="${height}"`;
  return html`<rect class="${name}" ${place}><title>${title}</title></rect>`;
}

/**
 * Shares of a whole as one bar. Widths are attributes of the drawing, which the content policy allows where it forbids
 * styles.
 */
export const shareBar = (parts: readonly { name: string; value: number; label: string }[]): Markup =>
  bar(parts.map((part) => ({ ...part, name: `ph-${part.name}` })));

/** Durations that follow each other, as one bar each that begins where the one before it ends. @public */
export function waterfall(parts: readonly { name: string; value: number }[]): Markup[] {
  const total = parts.reduce((sum, part) => sum + part.value, 0);
  let left = 0;
  return parts.map(({ name, value }) => {
    const [x, width] = [percentOf(left / total), percentOf(value / total)];
    left += value;
    return html`<svg class="fall" aria-hidden="true"><rect width="100%" height="8" /><rect class="ph-${name}" x="${x}"
        width="${width}" height="8" /><rect class="ph-${name}" x="${x}" width="2" height="8" /></svg>`;
  });
}

/** A share of a whole as a bar, 0 to 1; what is not nothing is seen. @public */
export const shareOf = (share: number, state: string): Markup =>
  html`<svg class="fall" aria-hidden="true"><rect width="100%" height="8" />${
    share > 0
      ? html`<rect class="${state}" width="${percentOf(share)}" height="8" /><rect class="${state}" width="2"
        height="8" />`
      : ""
  }</svg>`;

/** How many are in each state, as one bar. */
export const stateBar = (states: readonly { name: string; word: string; count: number }[]): Markup =>
  bar(states.map(({ name, word, count }) => ({ name, value: count, label: `${word} ${count}` })));

function bar(parts: readonly { name: string; value: number; label: string }[]): Markup {
  const total = parts.reduce((sum, part) => sum + part.value, 0);
  if (total <= 0) return new Markup("");
  let left = 0;
  const rects = parts.map((part) => {
    const rect = titledRect(part.name, left / total, part.value / total, 12, part.label);
    left += part.value;
    return rect;
  });
  return html`<svg class="bar" aria-hidden="true">${rects}</svg>`;
}
