// Monitors from a pasted list or a CSV file: parsing and the rules that need no server.

/** How many monitors one request may create. */
export const mostMonitors = 10_000;
const columns = ["name", "url", "interval", "tags"];
const longest = { name: 200, tag: 50, url: 2048 };
const mostTags = 50;

/** The delimiter that the first line has most of, outside quotes. */
function delimiterOf(text) {
  const end = /\r\n|\n|\r/.exec(text)?.index ?? text.length;
  const line = text.slice(0, end).replaceAll(/"(?:[^"]|"")*"/g, "");
  const count = (char) => line.split(char).length - 1;
  return ["\t", ";", ","].sort((a, b) => count(b) - count(a))[0];
}

/** One cell from `at`, and its end. RFC 4180: a quoted cell may hold delimiters, line breaks and doubled quotes. */
function cellAt(text, at, delimiter) {
  if (text[at] !== '"') {
    let end = at;
    while (end < text.length && text[end] !== delimiter && text[end] !== "\n" && text[end] !== "\r") end++;
    return { value: text.slice(at, end).trim(), end, open: false };
  }
  let value = "";
  for (let from = at + 1; ;) {
    const quote = text.indexOf('"', from);
    if (quote < 0) return { value: value + text.slice(from), end: text.length, open: true };
    value += text.slice(from, quote);
    if (text[quote + 1] !== '"') {
      const rest = cellAt(text, quote + 1, delimiter);
      return { value: value.trim() + rest.value, end: rest.end, open: false };
    }
    value += '"';
    from = quote + 2;
  }
}

/** The rows of a CSV text with their first lines, from 1. Empty lines are left out. */
export function rowsOf(text) {
  const source = text.replace(/^\ufeff/, "");
  const delimiter = delimiterOf(source);
  const rows = [];
  let line = 1;
  for (let at = 0; at < source.length;) {
    const row = { line, cells: [], open: false };
    for (;;) {
      const { value, end, open } = cellAt(source, at, delimiter);
      row.cells.push(value);
      row.open ||= open;
      line += source.slice(at, end).split(/\r\n|\n|\r/).length - 1;
      at = end;
      if (source[at] !== delimiter) break;
      at++;
    }
    at += source.startsWith("\r\n", at) ? 2 : 1;
    line++;
    if (row.cells.some((cell) => cell !== "")) rows.push(row);
  }
  return rows;
}

/** A URL as a monitor's name: host and path. */
function nameOf(url) {
  const { host, pathname } = new URL(url);
  return `${host}${pathname === "/" ? "" : pathname}`.slice(0, longest.name);
}

function urlFault(url) {
  if (url === undefined || url === "") return "The URL is missing.";
  if (url.length > longest.url) return `The URL is longer than ${longest.url} characters.`;
  if (!/^https?:\/\//i.test(url)) return `"${url.slice(0, 60)}" is not a URL that begins with http:// or https://.`;
  return URL.canParse(url) ? null : `"${url.slice(0, 60)}" is not a URL.`;
}

function intervalFault(text, min) {
  if (text === undefined || text === "") return null;
  const value = Number(text);
  if (!Number.isInteger(value)) return `The interval "${text.slice(0, 20)}" is not a whole number of seconds.`;
  return value < min ? `The interval ${value} is below the shortest one of ${min} seconds.` : null;
}

/** `prod; payments`, also with commas or bars between the tags. */
const tagsOf = (text = "") => [
  ...new Set(
    text
      .split(/[,;|]/)
      .map((tag) => tag.trim())
      .filter((tag) => tag !== ""),
  ),
];

function tagFault(tags) {
  if (tags.length > mostTags) return `${tags.length} tags: a monitor has at most ${mostTags}.`;
  const long = tags.find((tag) => tag.length > longest.tag);
  return long === undefined ? null : `The tag "${long.slice(0, 20)}…" is longer than ${longest.tag} characters.`;
}

/** Field of each column: by the first row where it has names, else by position. */
function layoutOf(rows) {
  const names = rows[0]?.cells.map((cell) => cell.toLowerCase()) ?? [];
  if (names.includes("url")) return { names, skip: 1, ignored: names.filter((name) => !columns.includes(name)) };
  const single = rows.every(({ cells }) => cells.length === 1);
  return { names: single ? ["url"] : columns, skip: 0, ignored: [] };
}

/**
 * The monitors of a text: `items` with line, monitor and faults, and `ignored` columns. `minInterval` in seconds.
 */
export function monitorsIn(text, minInterval) {
  const rows = rowsOf(text);
  const { names, skip, ignored } = layoutOf(rows);
  const seen = new Map();
  const items = rows.slice(skip).map(({ line, cells, open }) => {
    const cell = Object.fromEntries(names.map((name, at) => [name, cells[at]]));
    const url = cell.url ?? "";
    const tags = tagsOf(cell.tags);
    const faults = [
      open ? "A quotation mark is not closed." : null,
      cells.length > names.length ? `${cells.length} cells: at most ${names.length} columns are supported.` : null,
      urlFault(url),
      intervalFault(cell.interval, minInterval),
      tagFault(tags),
      (cell.name ?? "").length > longest.name ? `The name is longer than ${longest.name} characters.` : null,
      seen.has(url) && url !== "" ? `The URL is on line ${seen.get(url)} already.` : null,
    ].filter((fault) => fault !== null);
    if (!seen.has(url)) seen.set(url, line);
    if (faults.length > 0) return { line, text: cells.join(" · "), monitor: null, faults };
    const monitor = { name: cell.name || nameOf(url), check: { type: "http", url }, tags };
    if (cell.interval) monitor.interval = Number(cell.interval);
    return { line, text: cells.join(" · "), monitor, faults };
  });
  return { items, ignored };
}
