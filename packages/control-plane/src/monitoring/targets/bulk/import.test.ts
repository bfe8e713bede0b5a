import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";

/*
 * The list that the import page of the console reads, in the module that the browser runs.
 */

interface Item {
  line: number;
  monitor: { name: string; check: { url: string }; interval?: number; tags: string[] } | null;
  faults: string[];
}
const file = join(fileURLToPath(new URL("../../../../assets", import.meta.url)), "csv.js");
const { monitorsIn } = (await import(pathToFileURL(file).href)) as {
  monitorsIn(text: string, minInterval: number): { items: Item[]; ignored: string[] };
};
const read = (text: string) => monitorsIn(text, 60);
const monitors = (text: string) => read(text).items.map(({ monitor }) => monitor);
const faults = (text: string) => read(text).items.map(({ line, faults: found }) => `${line}: ${found.join(" ")}`);

t.test("a list of URLs as pasted from a clipboard", async (t) => {
  matchObject(t, monitors("\ufeffhttps://a.example.org/\r\n\r\n  https://b.example.org/status?x=1 \r\n"), [
    { name: "a.example.org", check: { type: "http", url: "https://a.example.org/" }, tags: [] },
    { name: "b.example.org/status", check: { url: "https://b.example.org/status?x=1" } },
  ]);
  t.strictSame(read("").items, []);
  t.strictSame(read("\n\r\n ").items, []);
});

t.test("CSV: header in any order, quotes, delimiters, line breaks in a cell", async (t) => {
  for (const delimiter of [",", ";", "\t"]) {
    const text = [
      ["Tags", "URL", "Owner", "Name", "Interval"],
      ['"prod, shop"', "https://shop.example.org/", "kim", '"Shop ""EU"""', "120"],
      ["", "https://docs.example.org/", "", "", ""],
    ];
    const { items, ignored } = read(text.map((cells) => cells.join(delimiter)).join("\r\n"));
    matchObject(
      t,
      items,
      [
        { line: 2, monitor: { name: 'Shop "EU"', interval: 120, tags: ["prod", "shop"] } },
        { line: 3, monitor: { name: "docs.example.org", tags: [] } },
      ],
      JSON.stringify(delimiter),
    );
    t.strictSame(ignored, ["owner"]);
  }
  matchObject(t, monitors('Shop,https://a.example.org/,60,"a;b|c"'), [
    { name: "Shop", interval: 60, tags: ["a", "b", "c"] },
  ]);
  matchObject(t, read('name,url\n"two\nlines",https://a.example.org/\nx,https://b.example.org/').items, [
    { line: 2 },
    { line: 4, monitor: { name: "x" } },
  ]);
});

t.test("every fault of a line is reported", async (t) => {
  const text = [
    "name,url,interval,tags",
    "a,ftp://a.example.org/,60,",
    `b,https://b.example.org/,ten,${"x".repeat(51)}`,
    "c,https://c.example.org/,5,",
    "d,,60,",
    "e,https://c.example.org/,60,",
    "f,https://f.example.org/,60,x,more",
    'g,"https://g.example.org/,60,',
  ];
  matchObject(t, faults(text.join("\n")), [
    /^2: "ftp:\/\/a.example.org\/" is not a URL that begins with http/,
    /^3: The interval "ten" is not a whole number of seconds\. The tag "x{20}…" is longer than 50 characters\.$/,
    /^4: The interval 5 is below the shortest one of 60 seconds\.$/,
    /^5: The URL is missing\.$/,
    /^6: The URL is on line 4 already\.$/,
    /^7: 5 cells: at most 4 columns are supported\.$/,
    /^8: A quotation mark is not closed\./,
  ]);
});

t.test("50,000 lines are read", async (t) => {
  const lines = Array.from({ length: 50_000 }, (_, n) => `Name ${n},https://host-${n}.example.org/,60,"a;b"`);
  const { items } = read(lines.join("\r\n"));
  t.equal(items.length, 50_000);
  matchObject(t, items.at(-1), { line: 50_000, faults: [] });
});
