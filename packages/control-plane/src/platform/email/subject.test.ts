import t from "tap";
import { nameWithoutUrl, subjectLine } from "./layout.ts";

t.test("a name that carries a URL is replaced", async (t) => {
  for (const name of ["Acme", "Acme Inc. Europe", "Müller & Söhne", "v2.0", "St. Gallen"])
    t.equal(nameWithoutUrl(name, "a page"), name);
  for (const name of [
    "Win at https://evil.example",
    "hxxp://evil",
    "WWW.evil",
    "go to evil.example/now",
    "täter.example",
    "1.evil.io",
  ])
    t.equal(nameWithoutUrl(name, "a page"), "a page", name);
});

t.test("a subject is one line of 150 characters", async (t) => {
  t.equal(subjectLine(" a\r\nBcc: b\u2028c "), "a Bcc: b c");
  t.equal(subjectLine("a =?utf-8?B?aHR0cDovL2V2aWw=?= b"), "a = ?utf-8?B?aHR0cDovL2V2aWw= ?= b");
  t.equal([...subjectLine("🙂".repeat(200))].length, 150);
});
