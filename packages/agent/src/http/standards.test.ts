import { readFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { charsetLabel, encodingOf, jsonTextOf, textOf } from "./charset.ts";
import { Cookies } from "./cookies.ts";
import { challengesIn, digestAnswer } from "./digest.ts";

/* What standards publish to test implementations with: test/fixtures/README.md says where the data are from. */

const linesOf = (name: string): string[] =>
  readFileSync(join(import.meta.dirname, "../../../../test/fixtures", name), "utf8")
    .trim()
    .split("\n");

t.test("labels of the Encoding Standard", async (t) => {
  let count = 0;
  for (const line of linesOf("encoding/labels.tsv")) {
    const [name, labels] = line.split("\t") as [string, string];
    for (const label of labels.split(" ")) {
      count++;
      t.equal(encodingOf(label), name === "replacement" ? null : name, label);
    }
  }
  t.equal(count, 228);
  for (const unknown of ["utf-7", "utf-32", "x-none", "iso-8859-12", "cp437"])
    t.equal(encodingOf(unknown), null, unknown);
});

t.test("characters of the Encoding Standard", async (t) => {
  let count = 0;
  for (const line of linesOf("encoding/decode.tsv")) {
    const [label, bytes, points] = line.split("\t").map((part) => part.split(" ")) as [[string], string[], string[]];
    const wrong = bytes.filter((hex, at) => {
      const text = textOf(Buffer.from(hex, "hex"), { label: label[0], markup: false, cut: false });
      return text !== String.fromCodePoint(Number.parseInt(points[at]!, 16));
    });
    count += bytes.length;
    t.strictSame(wrong, [], label[0]);
  }
  t.equal(count, 6588);
});

t.test("what decides about the encoding of a body", async (t) => {
  const read = (bytes: Buffer | string, contentType: string, markup = true): string =>
    textOf(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes, {
      label: charsetLabel(contentType),
      markup,
      cut: false,
    });
  const cases: [string, string, string][] = [
    ["\xef\xbb\xbf\xc3\xa9", "text/html; charset=windows-1251", "é"],
    ["\xff\xfee\0\xe9\0", "text/html; charset=utf-8", "eé"],
    ["\xfe\xff\0e\0\xe9", "text/html", "eé"],
    ["e\0\xe9\0", "text/plain; charset=UTF-16", "eé"],
    ["\x80 it\x92s", "text/html; charset=iso-8859-1", "€ it’s"],
    ["\x80", 'text/html;a=b; Charset = "ASCII" ;c', "€"],
    ["\xe9", "text/html; charset=", "é"],
    ["\xe9", "text/html; charset='koi8-r'", "И"],
    ["\xe9", 'text/html; charset="koi8-r', "И"],
    ["\xe9", "text/html; charset=koi8-r, text/html; charset=koi8-r", "И"],
    ["\xc3\xa9", "text/html", "é"],
    ["\xe9\x80", "text/html", "é€"],
    ['<meta charset="koi8-r">\xc1', "text/html", '<meta charset="koi8-r">а'],
    ["<META a=1 CHARSET = koi8-r />\xc1", "text/html", "<META a=1 CHARSET = koi8-r />а"],
    [
      "<meta content='text/html; charset=koi8-r' http-equiv=Content-Type>\xc1",
      "text/html",
      "<meta content='text/html; charset=koi8-r' http-equiv=Content-Type>а",
    ],
    ['<!-- <meta charset="koi8-r"> -->\xe9', "text/html", '<!-- <meta charset="koi8-r"> -->é'],
    ['<meta name="x" content="charset=koi8-r">\xe9', "text/html", '<meta name="x" content="charset=koi8-r">é'],
    ['<p title="<meta charset=koi8-r>">\xe9', "text/html", '<p title="<meta charset=koi8-r>">é'],
    ['<meta charset="none"><meta charset="koi8-r">\xc1', "", '<meta charset="none"><meta charset="koi8-r">а'],
    ['<meta charset="utf-16">\xc3\xa9', "text/html", '<meta charset="utf-16">é'],
    ['<?xml version="1.0" encoding="koi8-r"?>\xc1', "text/xml", '<?xml version="1.0" encoding="koi8-r"?>а'],
    [`${" ".repeat(1010)}<meta charset="koi8-r">\xe9`, "text/html", `${" ".repeat(1010)}<meta charset="koi8-r">é`],
  ];
  for (const [bytes, type, text] of cases) t.equal(read(bytes, type), text, `${type}: ${bytes.slice(-60)}`);
  t.equal(read('<meta charset="koi8-r">\xe9', "text/plain", false), '<meta charset="koi8-r">é');
  const cut = Buffer.from("aé€").subarray(0, -1);
  t.equal(textOf(cut, { label: null, markup: false, cut: true }), "aé", "the last character is cut off");
  const json = '{"a":"é€😀"}';
  const utf32 = Buffer.concat([Buffer.from([0xff, 0xfe, 0, 0]), ...[...json].map((c) => little(c.codePointAt(0)!))]);
  for (const [bytes, what] of [
    [Buffer.from(json), "UTF-8"],
    [Buffer.from(`\ufeff${json}`), "UTF-8 with a mark"],
    [Buffer.from(`\ufeff${json}`, "utf16le"), "UTF-16LE"],
    [Buffer.from(`\ufeff${json}`, "utf16le").swap16(), "UTF-16BE"],
    [utf32, "UTF-32LE"],
    [Buffer.from(utf32).swap32(), "UTF-32BE"],
  ] as const)
    t.equal(jsonTextOf(bytes), json, what);
});

function little(point: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(point);
  return bytes;
}

t.test("cookies of RFC 6265", async (t) => {
  let count = 0;
  for (const line of linesOf("cookies/parser.jsonl")) {
    const one = JSON.parse(line) as { test: string; received: string[]; sent: Pair[]; "sent-to"?: string };
    const url = new URL(`http://home.example.org:8888/cookie-parser?${one.test}`);
    const cookies = new Cookies();
    // Dates of 2019 stand for the future.
    cookies.take(
      one.received.map((value) => value.replace("2019", "2099")),
      url,
    );
    const sent = one.sent.map(({ name, value }) => `${name}=${value}`).join("; ");
    t.equal(cookies.for(new URL(one["sent-to"] ?? "/cookie-parser-result", url)), sent, one.test);
    count++;
  }
  t.equal(count, 222);
});

interface Pair {
  name: string;
  value: string;
}

t.test("cookies: who gets them, and how many", async (t) => {
  const at = (set: string, from: string, to: string): string => {
    const cookies = new Cookies();
    cookies.take([set], new URL(from));
    return cookies.for(new URL(to));
  };
  const host = "http://a.example.org/";
  t.equal(at("x=1", host, "http://b.example.org/"), "");
  t.equal(at("x=1; Domain=example.org", host, "http://b.example.org/"), "x=1");
  t.equal(at("x=1; Domain=org", host, "http://b.example.org/"), "", "a public suffix");
  t.equal(at("x=1; Domain=github.io", "http://a.github.io/", "http://b.github.io/"), "", "of a hoster too");
  t.equal(at("x=1; Domain=other.org", host, "http://other.org/"), "");
  t.equal(at("x=1; Secure", "https://a.example.org/", host), "");
  t.equal(at("x=1; Secure", "https://a.example.org/", "https://a.example.org/"), "x=1");
  t.equal(at("x=1; Path=/a", host, "http://a.example.org/ab"), "");
  t.equal(at("x=1; HttpOnly", "http://127.0.0.1:80/", "http://127.0.0.1:81/"), "x=1", "ports do not count");
  t.equal(at("x=1; Domain=1", "http://127.0.0.1/", "http://10.0.0.1/"), "");
  t.equal(at(`x=${"1".repeat(4095)}`, host, host), "", "longer than 4 KiB");
  const many = new Cookies();
  many.take(
    Array.from({ length: 99 }, (_, n) => `c${n}=1`),
    new URL(host),
  );
  t.equal(many.for(new URL(host)).split("; ").length, 50);
});

t.test("cookies that are refused are read up to a limit", async (t) => {
  const url = new URL("https://a.example.org/");
  const given = (refused: number): string => {
    const cookies = new Cookies();
    cookies.take([...Array<string>(refused).fill("a=b; Domain=x.y"), "c=d"], url);
    return cookies.for(url);
  };
  t.strictSame([given(199), given(200)], ["c=d", ""]);
});

t.test("digest: the examples of RFC 7616, RFC 2617 and RFC 2069", async (t) => {
  const mufasa = { method: "GET", uri: "/dir/index.html", user: "Mufasa", password: "Circle of Life" };
  const both = ["SHA-256", "MD5"].map(
    (algorithm) =>
      `Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=${algorithm}, ` +
      'nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"',
  );
  const cnonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
  const answer = (values: readonly string[], request = mufasa, own = cnonce): string => {
    const found = digestAnswer(values, request, own);
    return "authorization" in found ? found.authorization : found.error;
  };
  t.match(answer(both), /response="753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"/);
  t.match(answer([both.join(", ")]), /algorithm=SHA-256, .*qop=auth, nc=00000001/, "the stronger one of one value");
  t.match(answer([both[1]!]), /response="8ca523f5e9506fed4657c9700eebdbec"/);
  t.match(
    answer(
      [
        'Digest realm="testrealm@host.com", qop="auth,auth-int", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", ' +
          'opaque="5ccc069c403ebaf9f0171e9517f40e41"',
      ],
      { ...mufasa, password: "Circle Of Life" },
      "0a4f113b",
    ),
    /response="6629fae49393a05397450978507c4ef1"/,
    "RFC 2617",
  );
  t.match(
    answer(['Digest realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093"'], {
      ...mufasa,
      password: "CircleOfLife",
    }),
    /response="1949323746fe6a43ef61f9606e7febea"$/,
    "RFC 2069 (errata 749)",
  );
  const hashed = both[0]!.replace("qop=", "charset=UTF-8, userhash=true, qop=");
  t.match(answer([hashed], { ...mufasa, user: "Jäsøn Doe" }), /username="[0-9a-f]{64}".*userhash=true/);
  const named = both[0]!.replace("qop=", "charset=UTF-8, qop=");
  t.match(answer([named], { ...mufasa, user: "Jäsøn Doe" }), /username\*=UTF-8''J%C3%A4s%C3%B8n%20Doe/);
  const plain = both[0]!.replace("http-auth", "Łódź");
  const sent = Buffer.from(answer([plain], { ...mufasa, user: "Jäsøn Doe" }), "latin1").toString();
  t.match(sent, /username="Jäsøn Doe", realm="Łódź@/, "UTF-8 as Apache reads it");
  for (const [value, words] of [
    ["Basic realm=x", "the server asks for basic, not for digest"],
    ['Digest nonce="a", algorithm=SHA-512-256', "the server asks for digest SHA-512-256, not for digest"],
    ['Digest nonce="a", qop="auth-int"', "the server asks for digest with qop auth-int"],
    ["Digest realm=x", "the server asks for digest without a nonce"],
    ["", "the server asks for no authentication, not for digest"],
  ] as const)
    t.equal(answer([value]), words);
  t.strictSame(
    challengesIn(['Newauth realm="apps", type=1, title="Login to \\"apps\\"", Basic realm="simple"']).map(
      ({ scheme, params }) => [scheme, ...params.values()],
    ),
    [
      ["newauth", "apps", "1", 'Login to "apps"'],
      ["basic", "simple"],
    ],
    "RFC 9110, section 11.6.1",
  );
});
