import { isSecretName, isSecretParameter } from "./secret-names.ts";

/** Part of a text: from `start` up to, not including, `end`. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

/** No search looks further ahead than this, characters: with it the time is linear in the length of the text. */
const maxValue = 2000;

/**
 * The values in a text that a name calls secret, in order and without overlaps: fields of JSON, YAML, environment and
 * source dumps, elements and attributes of XML and HTML, cells of tables, parameters of URLs, statements and calls.
 */
export function secretValues(text: string): Range[] {
  const found = [...fields(text), ...tags(text), ...parameters(text), ...statements(text)];
  const merged: Range[] = [];
  for (const range of found.sort((a, b) => a.start - b.start || b.end - a.end)) {
    const last = merged.at(-1);
    if (range.end <= range.start) continue;
    if (last === undefined || range.start >= last.end) merged.push(range);
    else if (range.end > last.end) merged[merged.length - 1] = { start: last.start, end: range.end };
  }
  return merged;
}

/** What stands in place of a secret: states, types and messages, which help and reveal nothing. */
const benign = new RegExp(
  "^(?:[\"'\\s.,;:!()\\[\\]{}<>*|-]|\\b(?:true|false|null|none|nil|undefined|yes|no|on|off|unset|set|empty|redacted|" +
    "filtered|hidden|string|str|number|boolean|bool|int|bytes|object|array|any|invalid|missing|expired|required|not|" +
    "found|is|was|has|been|have|must|be|provided|failed|denied|unknown|revoked|malformed|wrong|mismatch|incorrect|" +
    "bad|absent|error|too|short|long|the|this|your|a|an|and|or|to|for|of|in|could|cannot|should|valid|please|again|" +
    "log|sign|user|header|field)\\b|0|1)*$",
  "i",
);

const quote = String.raw`(?:\\*["'\x60]|&quot;|&apos;|&#0?3[49];|&#x2[27];|\\+u002[27]|%22)`;
const quoteAt = new RegExp(quote, "y");
const identifier = /[\p{L}\p{N}_$][\p{L}\p{N}_$.-]*/gu;
/** From the end of a name to its value: `": `, `'] => `, ` = `, `</b>: `, `%3D`, ` | `. */
const assignment = new RegExp(
  String.raw`(?:${quote}|[\])}?!]|</[a-z]{1,10}>){0,6}\s{0,20}` +
    String.raw`(?:=&gt;|=\\+u003e|=>|:=|={1,3}|:(?!:|//)|%(?:25)?3[AD]|\||[：＝→]|(?<=\s)->)` +
    String.raw`(?:[ \t]|<[a-z/][^<>]{0,100}>){0,20}(?:\r?\n[ \t]{0,40}(?=["']|string\())?`,
  "iy",
);
/** `"name": "DB_PASS", "value": "…"`, with the name in front of this. */
const valueField = new RegExp(
  String.raw`${quote}?\s{0,20}[,;]?\s{0,40}${quote}?(?:value|val|content|data|default|v)${quote}?\s{0,20}` +
    String.raw`(?::|=>|=)[ \t]{0,20}`,
  "iy",
);
const valueFieldBefore = new RegExp(
  String.raw`${quote}?(?:value|val|content|data)${quote}?\s{0,20}(?::|=>|=)\s{0,20}(?=["'])`,
  "i",
);
/** `["Cookie", "…"]`, `env('DB_PASS', '…')` */
const pair = new RegExp(String.raw`${quote}\s{0,20},\s{0,20}(?=["'\\])`, "y");
const part = /"[^\r\n]{0,200}\r?\n(?:[\w-]{1,40}:[^\r\n]{0,200}\r?\n){0,4}\r?\n/y;
const column = /(?:\t+| {2,40})(?=\S)/y;
const flag = /[ \t]{1,20}(?=[^\s-])/y;
const escapedTag = /(?:&gt;|\\+u003e)/iy;
const prose = /\s{1,5}(?:(?:is|was|value)\s{1,5})?/y;
const listBelow = /[ \t]*(?:\r?\n[ \t]*-[ \t]+[^\r\n]*){1,50}/y;
const blockBelow = /[ \t]*[|>][+-]?\d?[ \t]*(?:\r?\n(?:[ \t]+[^\r\n]*)?){1,50}/y;
const valuePrefix = /(?:string\(\d+\)\s{0,5}|[bruf]{1,2}(?=["'])|@(?=["']))?/iy;
const scheme = /(?:bearer|basic|digest|token|negotiate|apikey)\s{1,5}/iy;

function at(pattern: RegExp, text: string, index: number): number | null {
  pattern.lastIndex = index;
  return pattern.test(text) ? pattern.lastIndex : null;
}

function fields(text: string): Range[] {
  const found: Range[] = [];
  let previous = "";
  let previousEnd = -1;
  identifier.lastIndex = 0;
  for (let match = identifier.exec(text); match !== null; match = identifier.exec(text)) {
    const [name] = match;
    const start = match.index;
    const end = start + name.length;
    const phrase = previousEnd === start - 1 && text[previousEnd] === " " ? `${previous} ${name}` : name;
    previous = name.slice(-100);
    previousEnd = end;
    if ((!isSecretName(name) && !isSecretName(phrase)) || namesAnother(text, start, name)) continue;
    const values = valuesAfter(text, start, end, name);
    found.push(...values);
    // The search goes on behind them: what looks like a name in a value is part of it.
    const last = values.at(-1)?.end ?? 0;
    identifier.lastIndex = Math.max(end, last);
  }
  return found;
}

/** True for the `key` of `<add key="…" value="…">` and `{"key": "…", "value": "…"}`. */
function namesAnother(text: string, start: number, name: string): boolean {
  if (name.toLowerCase() !== "key") return false;
  if (/<[\w:.-]{1,40}\s(?:[^<>]*\s)?$/.test(text.slice(Math.max(0, start - 100), start))) return true;
  return /^key["']?\s{0,5}[:=]\s{0,5}["'][^"']{0,100}["'],\s{0,20}["']?value["']?\s{0,5}[:=]/i.test(
    text.slice(start, start + 200),
  );
}

function valuesAfter(text: string, start: number, end: number, name: string): Range[] {
  const lead = text.slice(Math.max(0, start - 60), start);
  const startsLine = /(?:^|[\r\n>])(?:[\s*>+•#$-]|export |set |ENV |env:|ARG |\d+[.:)] )*["']?$/.test(lead);
  if (/(?:[?&#]|&amp;)$/.test(lead) && text[end] === "=") return [];
  const assigned = at(assignment, text, end);
  if (assigned !== null) return valueAt(text, assigned, { line: startsLine, cookie: /cookie/i.test(name) });
  if (/(?:&lt;|\\u003c)[\w.-]*:?$/i.test(lead)) {
    const inside = at(escapedTag, text, end);
    if (inside !== null) return [range(text, inside, /&lt;|\\u003c|[\r\n]/i)];
  }
  if (/(?:--?|\/)$/.test(lead)) {
    const given = at(flag, text, end);
    if (given !== null) return valueAt(text, given);
  }
  const named = at(valueField, text, end);
  if (named !== null) return valueAt(text, named);
  if (/[:=]\s{0,20}\\*["']$/.test(lead)) {
    const objectStart = text.lastIndexOf("{", start);
    const from = Math.max(objectStart, start - 300);
    const before = valueFieldBefore.exec(text.slice(from, start));
    if (objectStart >= 0 && before !== null) return valueAt(text, from + before.index + before[0].length);
  }
  if (/[[(]\s{0,5}\\*["']$/.test(lead)) {
    const second = at(pair, text, end);
    if (second !== null) {
      const values = valueAt(text, second);
      if (/^\\*["']\s{0,5}[\])]/.test(text.slice(values.at(-1)?.end ?? 0, (values.at(-1)?.end ?? 0) + 12)))
        return values;
    }
  }
  if (/name=["']?$/i.test(lead)) {
    const body = at(part, text, end);
    if (body !== null) return [range(text, body, /[\r\n]/)];
  }
  if (startsLine) {
    const aligned = at(column, text, end);
    if (aligned !== null) return [range(text, aligned, /[\r\n<]/)];
  }
  if (text[end] === "(") return contained(text, end, true);
  return /unexpected\s$/i.test(lead) ? [] : inProse(text, end);
}

/** `token 'a1b2c3' is invalid`, `API key 3f9c07d1 was revoked` */
function inProse(text: string, end: number): Range[] {
  const value = at(prose, text, end);
  if (value === null) return [];
  const [quoted] = valueAt(text, value);
  if (at(quoteAt, text, value) !== null)
    return quoted !== undefined && /^\S{6,}$/.test(text.slice(quoted.start, quoted.end)) ? [quoted] : [];
  const [word = ""] = /^[\w+/=.~-]*/.exec(text.slice(value, value + maxValue)) ?? [];
  const opaque = word.length >= 7 && /\d/.test(word) && /[a-z]/i.test(word) && !/^\w+(?:\.\w+)+$/.test(word);
  return opaque ? [{ start: value, end: value + word.length }] : [];
}

/** From an index to the first match of `stop`, at most {@link maxValue} further. */
function range(text: string, start: number, stop: RegExp): Range {
  const rest = text.slice(start, start + maxValue);
  const length = rest.search(stop);
  const value = (length < 0 ? rest : rest.slice(0, length)).trimEnd();
  return benign.test(value) ? { start, end: start } : { start, end: start + value.length };
}

/** The value that begins here; its quotes stay. `line`: without quotes it may reach to the end of the line. */
function valueAt(text: string, index: number, { line = false, cookie = false } = {}): Range[] {
  const below = at(blockBelow, text, index) ?? at(listBelow, text, index);
  if (below !== null && below > index) return [{ start: index, end: below }];
  const from = at(valuePrefix, text, index) ?? index;
  const opened = at(quoteAt, text, from);
  if (opened !== null) {
    // The value is in the element: tags() finds it.
    if (/^<[a-z]/i.test(text.slice(opened, opened + 2))) return [];
    const closed = closing(text, opened, text.slice(from, opened));
    return benign.test(text.slice(opened, closed)) ? [] : [{ start: at(scheme, text, opened) ?? opened, end: closed }];
  }
  if ("{[(".includes(text[from] ?? " ")) return contained(text, from, false);
  const start = at(scheme, text, from) ?? from;
  const stop = cookie
    ? /[\r\n<]/
    : line
      ? /[\r\n<]|;\s|\s+[\w.-]{1,60}=|,\s{0,5}["']?[\w.-]{1,60}["']?\s{0,5}[:=]/
      : /[\s,;&<>"'|]|%(?:25)?26|\\(?=["'nr])/;
  const value = range(text, start, stop);
  const found = text.slice(value.start, value.end);
  return [line ? value : { start, end: start + found.replace(/[)}\]]{1,10}$/, "").length }];
}

function closing(text: string, opened: number, delimiter: string): number {
  const rest = text.slice(opened, opened + maxValue);
  for (let found = rest.indexOf(delimiter); found >= 0; found = rest.indexOf(delimiter, found + 1)) {
    let slashes = 0;
    while (rest[found - 1 - slashes] === "\\" && slashes < 8) slashes++;
    if (slashes % 2 === 0) return opened + found;
  }
  const lineEnd = rest.search(/[\r\n]/);
  return opened + (lineEnd < 0 ? rest.length : lineEnd);
}

const piece = new RegExp(String.raw`[{[(]|[}\])]|${quote}|[^\s{}\[\](),;:="'&\\<>]+|[\s\S]`, "g");
const isKey = new RegExp(String.raw`${quote}?\s{0,20}(?:=>|=&gt;|:|=)`, "y");

/** The values of a list, an object or the arguments of a call, nested ones too; names in it stay. */
function contained(text: string, index: number, onlyQuoted: boolean): Range[] {
  const found: Range[] = [];
  const limit = index + maxValue;
  let depth = 0;
  piece.lastIndex = index;
  for (let match = piece.exec(text); match !== null && match.index < limit; match = piece.exec(text)) {
    const [token] = match;
    if (/^[{[(]$/.test(token)) depth++;
    else if (/^[}\])]$/.test(token)) {
      if (--depth === 0) break;
    } else if (at(quoteAt, text, match.index) === match.index + token.length) {
      const start = match.index + token.length;
      const end = closing(text, start, token);
      if (at(isKey, text, end) === null && !benign.test(text.slice(start, end))) found.push({ start, end });
      piece.lastIndex = Math.min(text.length, end + token.length);
    } else if (!onlyQuoted && token.length > 1 && !benign.test(token)) {
      const end = match.index + token.length;
      if (at(isKey, text, end) === null) found.push({ start: match.index, end });
    }
  }
  return found;
}

const tag = /<(\/?)([A-Za-z][\w.-]*:)?([A-Za-z][\w.-]*)([^<>]*)>/g;
const attribute = /([\w:.-]+)\s{0,5}=\s{0,5}("[^"]*"|'[^']*'|[^\s"'>]+)/g;
const naming = /^(?:name|key|property|itemprop|field|data-(?:name|key))$/i;
const valued = /^(?:value|content|default|data-value)$/i;
/** Elements whose text is a caption, not the value of what they name. */
const captions = /^(?:form|select|button|a|label|fieldset|iframe|title|h[1-6]|p|option|legend|caption|summary)$/i;
const onlyPunctuation = /^(?:["'\s:=>|,-]|&gt;|&quot;|&#\w{2,4};|&nbsp;)*$/;
const cellName = new RegExp(
  String.raw`^["'\s]*(?:\$_?\w{1,20}\[)?${quote}?([\p{L}_$][\p{L}\p{N}_ $.-]{0,60}?)` +
    String.raw`(?:\\|&quot;|&apos;|&#\w{2,4};|["'\x60\]\s:=])*$`,
  "u",
);
/** `<key>` names the element behind it in a property list and in `<entry>`. */
const keyOfPair = /^\s*<(?:string|value|true|false|integer|data|array|dict|real|date)\b/;

/** Elements, attributes and cells. */
function tags(text: string): Range[] {
  const found: Range[] = [];
  let element: { name: string; texts: Range[] } | null = null;
  let pending = false;
  let open = "";
  let col = -1;
  const secretColumns = new Set<number>();
  let from = 0;
  const textBetween = (start: number, end: number): void => {
    const content = text.slice(start, end);
    if (content.trim() === "") return;
    const trimmed = content.trimEnd();
    const lead = /^\s*(?:["']|&quot;|&apos;|&#\w{2,4};)?/.exec(content)![0].length;
    const tail = /(?:["']|&quot;|&apos;|&#\w{2,4};)?$/.exec(trimmed.slice(-8))![0].length;
    const node = { start: start + lead, end: start + trimmed.length - tail };
    const value = content.replace(/^\s*<!\[CDATA\[|\]\]>\s*$/g, "");
    if (pending && onlyPunctuation.test(content)) return;
    if ((pending || (open === "td" && secretColumns.has(col))) && !benign.test(value)) found.push(node);
    else if (element !== null && !benign.test(value)) element.texts.push(node);
    const name = cellName.exec(content)?.[1] ?? "";
    pending = !pending && !captions.test(open) && name.split(" ").length <= 3 && isSecretName(name);
    if (pending && open === "th") secretColumns.add(col);
  };
  tag.lastIndex = 0;
  for (let match = tag.exec(text); match !== null; match = tag.exec(text)) {
    if (from > 0) textBetween(from, match.index);
    from = match.index + match[0].length;
    const [, closes = "", , name = "", rest = ""] = match;
    const local = name.toLowerCase();
    if (closes !== "") {
      if (local === element?.name) {
        if (local !== "key" || !keyOfPair.test(text.slice(from, from + 100))) found.push(...element.texts);
        element = null;
      }
      if (local === "table") secretColumns.clear();
      if (local === "tr" || captions.test(local)) pending = false;
      continue;
    }
    open = local;
    if (local === "tr") col = -1;
    if (local === "td" || local === "th") col++;
    if (local === "tr" || captions.test(local) || (local === "th" && pending)) pending = false;
    const attributes = [...rest.matchAll(attribute)];
    const bare = (value: string): string => value.replace(/^["']|["']$/g, "");
    const isNamed = attributes.some(([, key = "", value = ""]) => naming.test(key) && isSecretName(bare(value)));
    const offset = match.index + match[0].length - 1 - rest.length;
    for (const { index, 0: whole, 1: key = "", 2: value = "" } of attributes)
      if (isNamed && valued.test(key) && !benign.test(value)) {
        const quoted = /^["']/.test(value) ? 1 : 0;
        const end = offset + index + whole.length;
        found.push({ start: end - value.length + quoted, end: end - quoted });
      }
    const secret = (isNamed && !captions.test(local)) || isSecretName(name);
    if (secret && element === null && !/\/\s*$/.test(rest) && !/^(?:input|meta|param|add)$/.test(local))
      element = { name: local, texts: [] };
  }
  if (from > 0) textBetween(from, text.length);
  // Not closed: the text is cut, or it is `List<Token>`.
  const [first] = (element as { texts: Range[] } | null)?.texts ?? [];
  if (first !== undefined) found.push(range(text, first.start, /[\r\n<]/));
  return found;
}

const parameter = new RegExp(
  String.raw`(?:[?#;]|&(?:amp;|#38;|#x26;)?|\\u0026|%(?:25)?(?:3F|26))([\w.~[\]-]{1,60}?)(?:=|%(?:25)?3D|\\u003d)` +
    String.raw`((?:(?!%(?:25)?26|\\u0026)[^&\s"'<>#;\\]){1,2000})`,
  "gi",
);

/** Values of parameters of URLs, also of URLs inside parameters. */
function parameters(text: string): Range[] {
  const found: Range[] = [];
  parameter.lastIndex = 0;
  for (let match = parameter.exec(text); match !== null; match = parameter.exec(text)) {
    const [whole, name = "", value = ""] = match;
    const end = match.index + whole.length;
    if (isSecretParameter(name) && !benign.test(value)) found.push({ start: end - value.length, end });
    // A parameter may hold a URL with parameters of its own.
    else parameter.lastIndex = end - value.length;
  }
  return found;
}

const insert = /insert\s{1,5}into\s{1,5}[^()]{1,200}\(([^()]{1,1000})\)\s{0,5}values?\s{0,5}\(/gi;
const identified = /identified\s{1,5}by\s{1,5}(?:password\s{1,5})?["']([^"']{1,200})/gi;
const call = /\b\w{0,60}(?:connect|login|bind|attempt|__construct)\w{0,60}\(/gi;

/** SQL with columns of secrets, and calls in stack traces that are given a user and a password. */
function statements(text: string): Range[] {
  const found: Range[] = [];
  for (const { index, 0: whole, 1: columns = "" } of text.matchAll(insert))
    if ((columns.match(/\w+/g) ?? []).some(isSecretName))
      found.push(range(text, index + whole.length, /\)\s{0,5}(?:$|[;,)"'<\r\n]|on |returning )/i));
  for (const { index, 0: whole, 1: value = "" } of text.matchAll(identified)) {
    const end = index + whole.length;
    found.push({ start: end - value.length, end });
  }
  for (const { index, 0: whole } of text.matchAll(call))
    found.push(...contained(text, index + whole.length - 1, true).slice(1));
  return found;
}
