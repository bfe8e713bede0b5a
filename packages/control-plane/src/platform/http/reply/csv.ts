import { Readable } from "node:stream";
import type { Reply } from "../route.ts";

export type Cell = string | number | boolean | null;

/**
 * Characters that begin a formula in spreadsheets where they begin a cell (OWASP, "CSV Injection").
 * Full-width forms count too.
 */
const startsFormula = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;

/** One line of RFC 4180 with CRLF. An apostrophe before a text that would be a formula keeps it a text. */
export const csvLine = (cells: readonly Cell[]): string => `${cells.map(cellOf).join(",")}\r\n`;

function cellOf(cell: Cell): string {
  if (cell === null) return "";
  if (typeof cell !== "string") return String(cell);
  const text = startsFormula.test(cell) ? `'${cell}` : cell;
  return /[",\r\n\t']/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * A CSV whose rows are read while it is sent, page by page. The first page is awaited, so that a refused request is
 * answered as every other one.
 */
export async function streamedCsv(
  head: readonly string[],
  pages: AsyncIterator<readonly (readonly Cell[])[], void>,
): Promise<Readable> {
  const first = await pages.next();
  return Readable.from(
    (async function* lines() {
      yield csvLine(head);
      for (let page = first; page.done !== true; page = await pages.next()) {
        if (page.value.length > 0) yield page.value.map(csvLine).join("");
      }
    })(),
  );
}

/** The reply that a browser saves under `name`. */
export const csvReply = (name: string, body: string | Readable): Reply => ({
  status: 200,
  body,
  headers: {
    "Content-Disposition": `attachment; filename="${name}"`,
    "Content-Type": "text/csv; charset=utf-8",
  },
});
