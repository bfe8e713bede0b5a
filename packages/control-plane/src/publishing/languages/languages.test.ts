import t from "tap";
import { stateInSentence, textsOf } from "./service.ts";
import { languages } from "./schema.ts";

type Node = string | boolean | readonly string[] | ((...args: (string | number)[]) => string) | { [key: string]: Node };

/** Every text of a language by its path; those with arguments are called with each of `calls`. */
function textsIn(node: Node, calls: readonly (string | number)[], path = ""): [string, string][] {
  if (typeof node === "string") return [[path, node]];
  if (typeof node === "boolean") return [];
  if (typeof node === "function")
    return calls.map((value) => [`${path}(${value})`, node(value, typeof value === "number" ? 2 * value : "99.9")]);
  if (Array.isArray(node)) return node.map((one, at) => [`${path}.${at}`, one as string]);
  return Object.entries(node).flatMap(([key, one]) =>
    textsIn(one as Node, calls, path === "" ? key : `${path}.${key}`),
  );
}

const counts = [0, 1, 2, 3, 5, 11, 21, 22, 25, 100, 101, 1000, 1_000_000];

t.test("every text of every language is there, and counts are written in it", async (t) => {
  const english = textsIn(textsOf("en") as unknown as Node, counts).map(([path]) => path);
  for (const language of languages) {
    const own = textsIn(textsOf(language) as unknown as Node, counts);
    t.same(
      own.map(([path]) => path),
      english,
      language,
    );
    const broken = own.filter(([, text]) => text.trim() === "" || /#|undefined|\[object|NaN/.test(text));
    t.same(broken, [], `${language}: no text is empty or lacks a part`);
    // One and two have words of their own in Arabic.
    const plain = [25, 1000];
    const counted = textsIn(textsOf(language).page as unknown as Node, plain).filter(([path]) => /\(\d+\)$/.test(path));
    t.same(
      counted.filter(([path, text]) => !text.includes(/\((\d+)\)$/.exec(path)![1]!)).map(([path]) => path),
      [],
      `${language}: every count is in its text`,
    );
  }
});

t.test("a name or an address in a text stays whole", async (t) => {
  const name = "Acme <Shop>";
  for (const language of languages) {
    const { page, subscription, mail } = textsOf(language);
    for (const text of [
      ...Object.values(page.outage).map((write) => write(name)),
      page.statusOf(name),
      page.recovered(name, page.state.degraded),
      page.zone(name),
      subscription.confirmText(name),
      subscription.manageText(name),
      mail.disruption(name),
      mail.footer(name, "https://example.org"),
      mail.imported(name),
      mail.confirmTitle(name),
    ])
      t.ok(text.includes(name), `${language}: ${text}`);
    t.equal(page.statusOf("Acme Status"), "Acme Status", language);
  }
});

t.test("plural forms follow the language", async (t) => {
  const { working: pl } = textsOf("pl").page;
  t.same([1, 2, 5, 22, 25].map(pl), [
    "1 komponent działa",
    "2 komponenty działają",
    "5 komponentów działa",
    "22 komponenty działają",
    "25 komponentów działa",
  ]);
  const { daysAgo: uk } = textsOf("uk").page;
  t.same([1, 3, 11, 21].map(uk), ["1 день тому", "3 дні тому", "11 днів тому", "21 день тому"]);
  const { lastDays: ar } = textsOf("ar").page;
  t.same([2, 7, 30, 100].map(ar), ["آخر يومين", "آخر 7 أيام", "آخر 30 يومًا", "آخر 100 يوم"]);
  t.equal(stateInSentence(textsOf("de"), "major_outage"), "Ausfall");
  t.equal(stateInSentence(textsOf("en"), "major_outage"), "major outage");
});
