import { text } from "node:stream/consumers";
import fc from "fast-check";
import t from "tap";
import { csvLine, streamedCsv } from "./csv.ts";

/** Reads one line of RFC 4180 back into its cells. */
function cellsOf(line: string): string[] {
  const cells: string[] = [];
  for (let rest = `${line.replace(/\r\n$/, "")},`; rest !== "";) {
    const found = /^(?:"((?:[^"]|"")*)"|([^",\r\n]*)),/.exec(rest);
    if (found === null) throw new Error(`no cell at ${rest}`);
    cells.push(found[1]?.replaceAll('""', '"') ?? found[2]!);
    rest = rest.slice(found[0].length);
  }
  return cells;
}

t.test("cells of RFC 4180", (t) => {
  for (const [cell, line] of [
    ["plain", "plain"],
    ['say "hi"', '"say ""hi"""'],
    ["a,b", '"a,b"'],
    ["two\r\nlines", '"two\r\nlines"'],
    [null, ""],
    [-5, "-5"],
    [true, "true"],
    ["", ""],
  ] as const)
    t.equal(csvLine([cell]), `${line}\r\n`);
  t.end();
});

t.test("a text that begins like a formula is escaped", (t) => {
  for (const formula of ["=cmd|' /C calc'!A0", "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1"]) {
    const [cell] = cellsOf(csvLine([formula]));
    t.equal(cell, `'${formula}`);
  }
  fc.assert(
    fc.property(fc.array(fc.string({ unit: "grapheme" }), { minLength: 1 }), (texts) => {
      const cells = cellsOf(csvLine(texts));
      t.strictSame(
        cells.map((cell, at) => (cell === `'${texts[at]}` ? texts[at] : cell)),
        texts,
      );
      return cells.every((cell) => !/^[=+\-@\t\r\n]/.test(cell));
    }),
  );
  t.end();
});

t.test("a stream: its first page is awaited, a later failure breaks it off", async (t) => {
  async function* pages(failsAt: number) {
    for (let n = 0; n < 3; n++) {
      if (n === failsAt) throw new Error("the database went away");
      yield [[n]];
    }
  }
  t.equal(await text(await streamedCsv(["n"], pages(-1))), "n\r\n0\r\n1\r\n2\r\n");
  await t.rejects(streamedCsv(["n"], pages(0)), /went away/, "before anything was sent");
  await t.rejects(text(await streamedCsv(["n"], pages(2))), /went away/);
});
