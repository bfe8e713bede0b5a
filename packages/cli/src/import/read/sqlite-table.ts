export type Value = string | number | null | Buffer;

interface Column {
  readonly name: string;
  /** What rows have that are older than the column. */
  readonly fallback: Value;
}

export interface Table {
  readonly rootPage: number;
  readonly columns: readonly Column[];
  /** Index of the column that is the row id; -1 for none. */
  readonly rowId: number;
}

/** Columns of a `create table` statement as SQLite keeps it, with what `alter table add column` gave as default. */
export function columnsOf(sql: string): Omit<Table, "rootPage"> {
  const columns: Column[] = [];
  let rowId = -1;
  for (const part of partsOf(sql.slice(sql.indexOf("(") + 1))) {
    const [, quoted, bare = ""] = /^\s*(?:["`[']([^"`\]']+)["`\]']|([^\s("`[',]+))/.exec(part) ?? [];
    const name = quoted ?? bare;
    if (name === "" || (quoted === undefined && /^(?:primary|unique|check|foreign|constraint)$/i.test(name))) continue;
    const rest = part.slice(part.indexOf(name) + name.length + (quoted === undefined ? 0 : 1));
    if (/^\s*integer\b.*?\bprimary\s+key\b/is.test(rest)) rowId = columns.length;
    columns.push({ name, fallback: defaultOf(rest) });
  }
  return { columns, rowId };
}

/** What stands between the commas of a list, up to its closing bracket. */
function partsOf(list: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at < list.length; at++) {
    const character = list[at]!;
    const closing = { "'": "'", '"': '"', "`": "`", "[": "]" }[character];
    if (closing !== undefined) {
      const end = list.indexOf(closing, at + 1);
      if (end < 0) break;
      at = end;
    } else if (character === "(") depth++;
    else if (character === ")" && depth-- === 0) {
      parts.push(list.slice(start, at));
      break;
    } else if (character === "," && depth === 0) {
      parts.push(list.slice(start, at));
      start = at + 1;
    }
  }
  return parts;
}

function defaultOf(column: string): Value {
  const [, text, double, word] = /\bdefault\s*\(?\s*(?:'((?:[^']|'')*)'|"([^"]*)"|([-+]?[\w.]+))/i.exec(column) ?? [];
  const quoted = text?.replaceAll("''", "'") ?? double;
  if (quoted !== undefined) {
    // Numbers in quotation marks take the type of their column.
    return /^\s*(?:integer|bigint|smallint|boolean|float|double)/i.test(column) &&
      quoted.trim() !== "" &&
      !isNaN(Number(quoted))
      ? Number(quoted)
      : quoted;
  }
  if (word === undefined || /^null$/i.test(word)) return null;
  if (/^(?:true|false)$/i.test(word)) return /^true$/i.test(word) ? 1 : 0;
  return isNaN(Number(word)) ? null : Number(word);
}
