import Koa from "koa";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import Type, { type TSchema } from "typebox";
import { AppError } from "@statusmesh/shared/errors";
import { listen } from "../../../testing/app.ts";
import { readBody } from "./body.ts";
import type { Fault } from "@statusmesh/shared/schema/faults";
import { IdText, Line, Lines, SearchText } from "@statusmesh/shared/text";
import { validate } from "@statusmesh/shared/schema/validate";
import { parseJson, withoutMark } from "./json.ts";
import { readPieces } from "./json-pieces.ts";
import { maxPiece } from "./json-scan.ts";
import { validateQuery } from "../query.ts";
import { Id, nullable, paging, Timestamp } from "../wire.ts";

type Problem = [code: string, field: string | null, message: string | RegExp];

/** The message of the refusal. */
function problem(work: () => unknown): unknown[] {
  try {
    return ["accepted", work()];
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return [error.code, error.field, error.message];
  }
}

const Circle = Type.Object(
  {
    kind: Type.Literal("circle"),
    radius: Type.Integer({ minimum: 1, maximum: 9, errorCode: "INVALID_TIMEOUT" }),
    filled: Type.Boolean({ default: true }),
  },
  { additionalProperties: false },
);
const Square = Type.Object(
  { kind: Type.Literal("square"), side: Type.Number({ minimum: 0 }) },
  { additionalProperties: false },
);
const Drawing = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 5 }),
    shape: Type.Optional(Type.Union([Circle, Square], { discriminator: "kind" })),
    tags: Type.Optional(
      Type.Array(Type.String({ errorCode: "INVALID_TAG" }), { maxItems: 2, errorCode: "INVALID_TAG" }),
    ),
    style: Type.Optional(
      Type.Union([
        Type.Literal("thin"),
        Type.Literal("bold"),
        Type.Object({ width: Type.Integer({ errorCode: "INVALID_INTERVAL" }) }, { additionalProperties: false }),
      ]),
    ),
    note: Type.Optional(nullable(Type.String({ maxLength: 3 }))),
    pair: Type.Optional(nullable(Type.Tuple([Type.String(), Type.Integer()]))),
    meta: Type.Optional(Type.Record(Type.String(), Type.Integer(), { minProperties: 1, maxProperties: 2 })),
    paper: Type.Optional(Type.Enum(["a4", "a5"])),
    owner_id: Type.Optional(Id),
    made_at: Type.Optional(Timestamp),
    code: Type.Optional(Type.String({ pattern: "^\\d\\d$", maxLength: 3, expects: "Use two digits" })),
    max_width: Type.Optional(Type.Integer({ minimum: 0, maximum: 10, errorCode: "INVALID_INTERVAL" })),
  },
  { additionalProperties: false },
);

t.test("an error has its code, pointer and message", async (t) => {
  const cases: [unknown, ...Problem][] = [
    [null, "INVALID_BODY", "", "The body must be an object."],
    [[], "INVALID_BODY", "", "The body must be an object."],
    ["x", "INVALID_BODY", "", "The body must be an object."],
    [{}, "INVALID_BODY", "/name", "name is required."],
    [{ name: 7 }, "INVALID_BODY", "/name", /^name must be a string\.$/],
    [{ name: "" }, "INVALID_BODY", "/name", /^name must /],
    [{ name: "ab", made_at: "soon" }, "INVALID_BODY", "/made_at", /^made_at must be an RFC 3339 time, like 20/],
    [{ name: "ab", code: "x" }, "INVALID_BODY", "/code", "Use two digits."],
    [{ name: "ab", code: "1234" }, "INVALID_BODY", "/code", "code must have at most 3 characters."],
    [{ name: "toolong" }, "INVALID_BODY", "/name", /^name must /],
    // Lengths are code points, here and in texts for people: one grapheme may have any number of them.
    [{ name: `a${"\u0301".repeat(5)}` }, "INVALID_BODY", "/name", "name must have at most 5 characters."],
    [{ name: "a", nam: 1 }, "UNKNOWN_FIELD", "/nam", 'There is no field "nam" here. Did you mean "name"?'],
    [
      { name: "a", maxWidth: 1 },
      "UNKNOWN_FIELD",
      "/maxWidth",
      'There is no field "maxWidth" here. Did you mean "max_width"?',
    ],
    [{ name: "a", noet: 1 }, "UNKNOWN_FIELD", "/noet", 'There is no field "noet" here.'],
    [{ name: "a", "a/b~c": 1 }, "UNKNOWN_FIELD", "/a~1b~0c", /a\/b~c/],
    [{ name: "a", constructor: 1 }, "UNKNOWN_FIELD", "/constructor", /constructor/],
    [{ name: "a", shape: 1 }, "INVALID_BODY", "/shape", "shape must be an object."],
    [{ name: "a", shape: {} }, "INVALID_BODY", "/shape/kind", "shape.kind must be one of circle, square."],
    [
      { name: "a", shape: { kind: "line" } },
      "INVALID_BODY",
      "/shape/kind",
      "shape.kind must be one of circle, square.",
    ],
    [{ name: "a", shape: { kind: "circle" } }, "INVALID_TIMEOUT", "/shape/radius", "shape.radius is required."],
    [{ name: "a", shape: { kind: "circle", radius: 0 } }, "INVALID_TIMEOUT", "/shape/radius", /^shape\.radius must be/],
    [
      { name: "a", shape: { kind: "circle", radius: 1, filled: "no" } },
      "INVALID_BODY",
      "/shape/filled",
      /^shape\.filled must be true or false/,
    ],
    [{ name: "a", shape: { kind: "circle", side: 1 } }, "UNKNOWN_FIELD", "/shape/side", /side/],
    [{ name: "a", tags: "x" }, "INVALID_TAG", "/tags", "tags must be an array."],
    [{ name: "a", tags: ["x", 7] }, "INVALID_TAG", "/tags/1", /^tags\.1 must be a string/],
    [{ name: "a", tags: ["x", "y", "z"] }, "INVALID_TAG", "/tags", "tags must have at most 2 items."],
    [{ name: "a", style: "fat" }, "INVALID_BODY", "/style", /^style must be .*thin.*bold/],
    [{ name: "a", style: { width: 1.5 } }, "INVALID_INTERVAL", "/style/width", /^style\.width must be a whole number/],
    [{ name: "a", note: 7 }, "INVALID_BODY", "/note", /^note must be a string/],
    [{ name: "a", note: "four" }, "INVALID_BODY", "/note", /^note must /],
    [{ name: "a", pair: ["x"] }, "INVALID_BODY", "/pair", "pair must have exactly 2 items."],
    [{ name: "a", pair: ["x", 1, 2] }, "INVALID_BODY", "/pair", "pair must have exactly 2 items."],
    [{ name: "a", pair: ["x", "y"] }, "INVALID_BODY", "/pair/1", /^pair\.1 must be a whole number/],
    [{ name: "a", meta: {} }, "INVALID_BODY", "/meta", "meta must have at least 1 field."],
    [{ name: "a", meta: { a: 1, b: 2, c: 3 } }, "INVALID_BODY", "/meta", "meta must have at most 2 fields."],
    [{ name: "a", meta: { "x/y": "1" } }, "INVALID_BODY", "/meta/x~1y", /^meta\.x\/y must be a whole number/],
    [{ name: "a", paper: "a3" }, "INVALID_BODY", "/paper", "paper must be one of a4, a5."],
    [{ name: "a", owner_id: "1" }, "INVALID_ID", "/owner_id", /^owner_id must /],
    [{ name: "a", max_width: 11 }, "INVALID_INTERVAL", "/max_width", /^max_width must be/],
    [{ name: "a", max_width: 2 ** 53 + 2 }, "INVALID_INTERVAL", "/max_width", /^max_width must be/],
  ];
  for (const [value, ...expected] of cases)
    matchObject(
      t,
      problem(() => validate(Drawing, value)),
      expected,
      JSON.stringify(value),
    );
  matchObject(
    t,
    problem(() => validate(Drawing, { name: "a", tags: [1] }, "/3/drawing")),
    ["INVALID_TAG", "/3/drawing/tags/0", /string/],
    "pointers can have a base",
  );
});

t.test("an error lists all faults of a body, up to a bound", async (t) => {
  const faults = (schema: TSchema, value: unknown): unknown[] => {
    try {
      validate(schema, value);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      const listed = (error.details?.["errors"] as Fault[] | undefined) ?? [];
      if (listed.length > 0)
        matchObject(t, listed[0], { field: error.field, code: error.code, message: error.message });
      return listed.map(({ field, code }) => `${field} ${code}`);
    }
    return ["accepted"];
  };
  t.strictSame(faults(Drawing, { name: 7 }), [], "a single fault has no list");
  t.strictSame(
    faults(Drawing, {
      nam: 1,
      name: "toolong",
      shape: { kind: "circle", radius: 0, filled: "no" },
      tags: ["x", 7],
      note: "four",
      max_width: 11,
    }),
    [
      "/nam UNKNOWN_FIELD",
      "/name INVALID_BODY",
      "/shape/radius INVALID_TIMEOUT",
      "/shape/filled INVALID_BODY",
      "/tags/1 INVALID_TAG",
      "/note INVALID_BODY",
      "/max_width INVALID_INTERVAL",
    ],
  );
  t.strictSame(
    faults(Drawing, { tags: ["x", "y", "z"], owner_id: "1" }),
    [],
    "a list that is too long is alone: the rest is not read",
  );
  const Named = Type.Object({
    name: Line({ maxLength: 9, emptyCode: "EMPTY_NAME", description: "A name" }),
    size: Type.Integer(),
    labels: Type.Array(Line({ maxLength: 9, description: "A label" })),
  });
  t.strictSame(
    faults(Named, { name: " ", size: "x", labels: ["a", "\u200b", 7] }),
    ["/size INVALID_BODY", "/labels/2 INVALID_BODY", "/name EMPTY_NAME", "/labels/1 INVALID_BODY"],
    "of the schema and of the texts",
  );

  const many = Type.Array(Type.Integer());
  t.equal(faults(many, Array(100_000).fill("x")).length, 20, "twenty at most");
  t.equal(faults(Drawing, Object.fromEntries(Array.from({ length: 99 }, (_, at) => [`k${at}`, 1]))).length, 20);
  t.equal(faults(Drawing, Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`k${at}`, 1]))).length, 0);
  t.equal(faults(Type.Array(Line({ maxLength: 9, description: "A name" })), Array(100_000).fill(" ")).length, 20);
  // The pointer of each fault repeats the key.
  const long = { ["k".repeat(900_000)]: Array(100).fill("x") };
  t.ok(faults(Type.Record(Type.String(), many), long).length <= 1, "a reply does not multiply a long key");
  const rest = faults(Type.Record(Type.String(), many), { a: ["x"], b: ["x"], ...long });
  t.strictSame(rest, ["/a/0 INVALID_BODY", "/b/0 INVALID_BODY"]);

  // The sizes are read once, then the search ends with the list of faults.
  let reads = 0;
  const counted = Array.from({ length: 1_000 }, () =>
    Object.defineProperty({}, "size", { enumerable: true, get: () => (reads++, "x") }),
  );
  faults(Type.Array(Type.Object({ size: Type.Integer() })), counted);
  t.ok(reads >= 1_000 && reads < 1_200, `${reads} reads of 1000 values`);
});

t.test("a valid value returns with its defaults", async (t) => {
  t.strictSame(validate(Drawing, { name: "\u{1f9ed}".repeat(5) }), { name: "\u{1f9ed}".repeat(5) }, "five code points");
  const fine = { name: "a", note: null, pair: ["x", 1], meta: { toString: 1 }, style: "bold", tags: [] };
  t.strictSame(validate(Drawing, { ...fine }), fine);
  t.strictSame(
    validate(Drawing, { name: "a", shape: { kind: "circle", radius: 1 } }),
    { name: "a", shape: { kind: "circle", radius: 1, filled: true } },
    "also in a union",
  );
  t.strictSame(validate(Type.Object({ list: Type.Array(Circle) }), { list: [{ kind: "circle", radius: 2 }] }), {
    list: [{ kind: "circle", radius: 2, filled: true }],
  });
});

t.test("a query is parsed by its schema", async (t) => {
  const Query = Type.Object(
    {
      ...paging(50, 1000),
      enabled: Type.Optional(Type.Boolean()),
      q: Type.Optional(Type.String({ maxLength: 5 })),
      state: Type.Optional(Type.Enum(["open", "closed"])),
    },
    { additionalProperties: false },
  );
  const read = (text: string, schema: TSchema = Query) =>
    problem(() => validateQuery(schema, new URLSearchParams(text)));
  t.strictSame(read(""), ["accepted", { limit: 50, offset: 0 }]);
  t.strictSame(read("limit=7&offset=3&enabled=false&q=%20a&state=open"), [
    "accepted",
    { limit: 7, offset: 3, enabled: false, q: " a", state: "open" },
  ]);
  t.strictSame(read("limit=5000"), ["accepted", { limit: 1000, offset: 0 }], "a larger page is capped silently");
  t.strictSame(read("limit=99999999999999999999"), ["accepted", { limit: 1000, offset: 0 }], "any size");
  const cases: [string, ...Problem][] = [
    ["limit=0", "INVALID_QUERY", "/query/limit", /^limit must be/],
    ["limit=-1", "INVALID_QUERY", "/query/limit", /^limit must be/],
    ["limit=1.5", "INVALID_QUERY", "/query/limit", "limit must be a whole number."],
    ["limit=1e3", "INVALID_QUERY", "/query/limit", "limit must be a whole number."],
    ["limit=", "INVALID_QUERY", "/query/limit", "limit must be a whole number."],
    ["offset=99999999999999999999", "INVALID_QUERY", "/query/offset", "offset must be a whole number."],
    ["offset=10000001", "INVALID_QUERY", "/query/offset", /^offset must be/],
    ["enabled=1", "INVALID_QUERY", "/query/enabled", "enabled must be true or false."],
    ["q=toolong", "INVALID_QUERY", "/query/q", /^q must /],
    ["q=%00", "INVALID_QUERY", "/query/q", /NUL/],
    ["state=new", "INVALID_QUERY", "/query/state", "state must be one of open, closed."],
    ["limit=1&limit=2", "INVALID_QUERY", "/query/limit", /repeated/],
    ["limits=1", "UNKNOWN_FIELD", "/query/limits", 'There is no query parameter "limits" here. Did you mean "limit"?'],
    ["__proto__=1", "UNKNOWN_FIELD", "/query/__proto__", /__proto__/],
    ["constructor=1", "UNKNOWN_FIELD", "/query/constructor", /constructor/],
  ];
  for (const [text, ...expected] of cases) matchObject(t, read(text), expected, text);
});

t.test("a body that cannot be stored is refused", async (t) => {
  const koa = new Koa();
  koa.use(async (http) => {
    try {
      const limit = http.path === "/small" ? 100 : 1_048_576;
      http.body = ["accepted", await readBody(http, { schema: Type.Unknown(), limit, onInvalidBody: null })];
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      http.body = [error.code, error.field];
    }
  });
  const { origin } = await listen(t, koa);
  const body = async (bytes: Buffer | string, type = "application/json", path = "/"): Promise<unknown> => {
    const answer = await fetch(origin + path, {
      method: "POST",
      body: new Uint8Array(Buffer.from(bytes)),
      headers: { "content-type": type },
    });
    return await answer.json();
  };
  const nested = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;
  const cases: [Buffer | string, ...unknown[]][] = [
    ['{"a":"ä🔑"}', "accepted", { a: "ä🔑" }],
    ["[9007199254740991, -9007199254740991, 1e15, 0.1]", "accepted", [9007199254740991, -9007199254740991, 1e15, 0.1]],
    ['"\\ud83d\\udd11"', "accepted", "🔑"],
    [nested(32), "accepted", JSON.parse(nested(32))],
    [nested(33), "INVALID_BODY", "/0".repeat(32)],
    ["", "INVALID_JSON", null],
    ["{", "INVALID_JSON", null],
    ["{'a':1}", "INVALID_JSON", null],
    [Buffer.from([0x22, 0xff, 0x22]), "INVALID_BODY", null],
    ['{"a":["\\u0000"]}', "INVALID_BODY", "/a/0"],
    ['{"\\u0000":1}', "INVALID_BODY", ""],
    ['{"a":"\\ud800"}', "INVALID_BODY", "/a"],
    ['{"a":9007199254740993}', "INVALID_BODY", "/a"],
    ['{"a":1e16}', "INVALID_BODY", "/a"],
    ['{"a":-1e400}', "INVALID_BODY", "/a"],
    ['{"a/b":{"__proto__":1}}', "INVALID_BODY", "/a~1b/__proto__"],
  ];
  for (const [text, ...expected] of cases) t.strictSame(await body(text), expected, text.toString().slice(0, 40));
  t.strictSame(await body("{}", "text/plain"), ["UNSUPPORTED_MEDIA_TYPE", null]);
  t.strictSame(await body(`"${"x".repeat(100)}"`, "application/json", "/small"), ["PAYLOAD_TOO_LARGE", null]);
});

t.test("texts for people are normalised, and refused without a visible character", async (t) => {
  const Thing = Type.Object(
    {
      name: Type.Optional(Line({ maxLength: 9, emptyCode: "EMPTY_NAME", description: "A name" })),
      note: Type.Optional(nullable(Lines({ maxLength: 9, description: "A note" }))),
      tags: Type.Optional(Type.Array(Line({ maxLength: 5, errorCode: "INVALID_TAG", description: "A tag" }))),
      parts: Type.Optional(Type.Array(Type.Object({ name: Line({ maxLength: 5, description: "A name" }) }))),
    },
    { additionalProperties: false },
  );
  const kept: [unknown, unknown][] = [
    [{ name: " So\u0308hne\t" }, { name: "S\u00f6hne" }],
    [{ name: "a b" }, { name: "a b" }],
    [{ name: "pro\u200bd\ufeff" }, { name: "prod" }],
    [{ name: "e\u00ad\u0301" }, { name: "\u00e9" }],
    // Joiners and direction marks belong to words and emoji.
    [{ name: "\u{1f469}\u200d\u{1f4bb}" }, { name: "\u{1f469}\u200d\u{1f4bb}" }],
    [{ name: "\u05d0\u200e" }, { name: "\u05d0\u200e" }],
    [{ name: "\u{1f3d4}\ufe0f" }, { name: "\u{1f3d4}\ufe0f" }],
    [{ note: "a\r\n\tb\n" }, { note: "a\n\tb" }],
    [{ note: null }, { note: null }],
    [
      { tags: ["e\u0301", "x"], parts: [{ name: " y" }] },
      { tags: ["\u00e9", "x"], parts: [{ name: "y" }] },
    ],
  ];
  const Search = Type.Object({ tag: SearchText({}), id: IdText({}) });
  t.strictSame(
    validate(Search, { tag: " e\u0301\u0007", id: "01A2014D-6952-703D-AE42-F4FEBBDEF56C" }),
    { tag: "\u00e9\u0007", id: "01a2014d-6952-703d-ae42-f4febbdef56c" },
    "search texts are normalised, not refused",
  );
  t.strictSame(validate(Search, { tag: "", id: "My-Id" }), { tag: "", id: "My-Id" });
  for (const [sent, stored] of kept) t.strictSame(validate(Thing, sent), stored, JSON.stringify(stored));
  const refused: [unknown, ...Problem][] = [
    [{ name: "" }, "EMPTY_NAME", "/name", "name has no visible character."],
    [{ name: " \t\n" }, "EMPTY_NAME", "/name", "name has no visible character."],
    ...[
      "\u200b",
      "\u00ad\u2060",
      "\u200d",
      "\u3164",
      "\u115f",
      "\u2800",
      "\u0301",
      "\u200e",
      "\ufe0f",
      "\u{e0041}",
    ].map((text): [unknown, ...Problem] => [{ name: text }, "EMPTY_NAME", "/name", "name has no visible character."]),
    [{ name: "a\u0007b" }, "INVALID_BODY", "/name", "name contains the control character U+0007."],
    [{ name: "a\nb" }, "INVALID_BODY", "/name", "name contains the control character U+000A."],
    [{ name: "a\u0085b" }, "INVALID_BODY", "/name", "name contains the control character U+0085."],
    [{ name: "a\u2028b" }, "INVALID_BODY", "/name", "name contains the control character U+2028."],
    [{ name: "a\u202eb" }, "INVALID_BODY", "/name", "name contains the control character U+202E."],
    [{ name: "a\u2066b" }, "INVALID_BODY", "/name", "name contains the control character U+2066."],
    // Eleven code points, but one character to the eye.
    [{ name: `a${"\u0323\u0324".repeat(5)}` }, "INVALID_BODY", "/name", /^name must .* 9 characters\.$/],
    [{ note: "\n" }, "INVALID_BODY", "/note", "note has no visible character."],
    [{ note: "a\u001bb" }, "INVALID_BODY", "/note", "note contains the control character U+001B."],
    [{ tags: ["a", "\u0000b"] }, "INVALID_TAG", "/tags/1", "tags.1 contains the control character U+0000."],
    [{ tags: [" "] }, "INVALID_TAG", "/tags/0", "tags.0 has no visible character."],
    [{ parts: [{ name: "" }] }, "INVALID_BODY", "/parts/0/name", "parts.0.name has no visible character."],
  ];
  for (const [value, ...expected] of refused)
    matchObject(
      t,
      problem(() => validate(Thing, value)),
      expected,
      // Escaped: a raw line separator would break the test report.
      encodeURI(JSON.stringify(value)),
    );
  // Half a million code points in one grapheme: only the count of code points bounds them.
  matchObject(
    t,
    problem(() => validate(Thing, { name: `a${"\u0323".repeat(500_000)}\u0007` })),
    ["INVALID_BODY", "/name", /at most/],
  );
});

t.test("a body parsed in pieces yields the same as in one step", async (t) => {
  const Item = Type.Object(
    { name: Type.String({ maxLength: 9 }), on: Type.Boolean({ default: true }) },
    { additionalProperties: false },
  );
  const List = Type.Array(Item, { minItems: 1, maxItems: 3, sizeCodes: ["BULK_EMPTY", "BULK_TOO_LARGE"] });
  const Batch = Type.Object(
    { version: Type.Integer(), list: List, ids: Type.Array(Type.String(), { maxItems: 2 }) },
    { additionalProperties: false },
  );
  const texts = [
    '[{"name":"a"}]',
    ' \ufeff[ {"name" : "a,]}" } ,\n{"name":"\\"\\\\"} ] ',
    '\ufeff[{"name":"a"}]',
    "[]",
    "[ ]",
    '[{"name":"a"},{"name":"b"},{"name":"c"},{"name":"d"}]',
    '[{"name":"a"},{"name":7}]',
    '[{"name":"a"},{"nam":"b"}]',
    '[{"name":"a"},]',
    '[,{"name":"a"}]',
    '[{"name":"a"} {"name":"b"}]',
    '[{"name":"a"}',
    '[{"name":"a"}}',
    '[{"name":"a"]',
    '[{"name":"a"}]]',
    '[{"name":"a"}][{"name":"b"}]',
    '["a',
    `[${"[".repeat(31)}${"]".repeat(31)}]`,
    `[${"[".repeat(32)}${"]".repeat(32)}]`,
    '[{"name":"\\u0000"}]',
    '[{"name":"a"},{"name":1e999}]',
    '{"version":1,"list":[{"name":"a"},{"name":"b"}],"ids":["x"]}',
    '{"ids":[],"version":1,"list":[{"name":"a"}]}',
    '{"version":1,"list":[{"name":"a"}],"list":[{"name":"b"}],"ids":[]}',
    '{"version":1,"list":[{"name":"a"}],"list":5,"ids":[]}',
    '{"version":1,"list":5,"list":[{"name":"a"}],"ids":[]}',
    '{"version":1,"\\u006cist":[{"name":"a"}],"ids":[]}',
    '{"version":[1],"list":[{"name":"a"}],"ids":[]}',
    '{"version":1,"list":[{"name":"a"}],"ids":[],"more":[{"list":[1]}]}',
    '{"version":1,"list":{"list":[1]},"ids":[]}',
    '{"version":1,"list":[{"name":"a","on":null}],"ids":[]}',
    '{"version":1,"list":[],"ids":["x",1]}',
    '{"version":1,"list":[{"name":"a"}],"ids":["x","y","z"]}',
    '{"version":1 "list":[]}',
    "{}",
    "5",
    "",
  ];
  const outcome = async (read: () => unknown): Promise<unknown> => {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      return error.code === "INVALID_JSON" ? error.code : [error.code, error.field];
    }
  };
  for (const schema of [List, Batch])
    for (const text of texts)
      t.strictSame(
        await outcome(() => readPieces(Buffer.from(text), schema, null)),
        await outcome(() => validate(schema, parseJson(withoutMark(text)))),
        text,
      );
  const faulty = await readPieces(Buffer.from('[{"name":7},{"name":"a"},{"name":"b","on":1}]'), List, null).catch(
    (error: AppError) => error.details,
  );
  matchObject(t, faulty, { errors: [{ field: "/0/name" }, { field: "/2/on" }] }, "the faults of all items");
  const large = `"${"x".repeat(maxPiece)}"`;
  for (const [text, field] of [
    [`[1,${large}]`, "/1"],
    [`[${" ".repeat(maxPiece + 1)}]`, "/0"],
    [large, ""],
  ] as const)
    t.strictSame(await outcome(() => readPieces(Buffer.from(text), List, null)), ["PAYLOAD_TOO_LARGE", field]);
});

t.test("a text with too many different fields is refused before it is parsed; like objects may be many", async (t) => {
  const list = <T>(length: number, make: (n: number) => T) => Array.from({ length }, (_, n) => make(n));
  const object = (names: readonly string[]) => `{${names.map((name) => `"${name}":1`).join(",")}}`;
  const shapes: Record<string, string> = {
    "one object": object(list(30_000, (n) => `f${n}`)),
    "objects of 100 fields": `[${list(300, (at) => object(list(100, (n) => `f${100 * at + n}`)))}]`,
    "nested objects": `[${list(30_000, (n) => `{"f${n}":{}}`)}]`,
    "the same names in other orders": `[${list(300, (at) =>
      object(list(100, (n) => `f${(at * 7 + n * (at + 1)) % 307}`)),
    )}]`,
    "names with escapes": object(list(30_000, (n) => `\\u0041\\"${n}`)),
  };
  for (const [name, text] of Object.entries(shapes))
    matchObject(
      t,
      problem(() => parseJson(text)),
      ["INVALID_BODY", null, /^The body has more than 20000 fields of different/],
      name,
    );
  matchObject(
    t,
    problem(() => parseJson(`[${list(120_000, () => "{}")}]`)),
    ["INVALID_BODY", null, /100000 objects and lists/],
  );
  const alike = `[${list(9_000, (n) => `{"name":"{\\"a\\":${n}","list":[1,2],"c":{"d":1}}`)}]`;
  t.strictSame(parseJson(alike), JSON.parse(alike), "9,000 objects with the same 4 fields");
  const other = object(list(15_000, (n) => `f${n}`));
  t.strictSame(parseJson(other), JSON.parse(other), "15,000 fields");
});
