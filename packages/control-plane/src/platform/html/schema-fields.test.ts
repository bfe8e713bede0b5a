import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import Type, { type TSchema } from "typebox";
import type { Field } from "./fields.ts";
import { fieldsOf, formOf } from "./schema-fields.ts";

const options = { base: "/check", scope: "ping" };

t.test("a field without form is shown by its name, description, bounds and default", async (t) => {
  const Ping = Type.Object({
    type: Type.Literal("ping"),
    host: Type.String({ maxLength: 253, description: "Host name", examples: ["a.example"] }),
    lost_packets: Type.Integer({ minimum: 0, maximum: 9, default: 2, description: "How many may be lost" }),
    source: Type.Union([Type.String({ maxLength: 60 }), Type.Null()], { default: null, description: "Address" }),
    fragment: Type.Boolean({ default: true, description: "Whether it may be split" }),
    family: Type.Enum(["v4", "v6"], { default: "v6", description: "Address family" }),
  });
  const [section, ...others] = formOf(Ping, options);
  t.same(others, []);
  matchObject(t, section, { title: null, when: null, shown: true });
  matchObject(
    t,
    section!.rows.map((row) => row[0]),
    [
      {
        name: "/check/host",
        label: "Host",
        hint: "Host name",
        placeholder: "a.example",
        required: true,
        maxLength: 253,
      },
      { label: "Lost packets", type: "number", as: "int", min: 0, max: 9, value: 2, required: true },
      { as: "nullable", maxLength: 60, value: null },
      { type: "checkbox", value: true },
      {
        type: "select",
        value: "v6",
        options: [
          ["v4", "v4"],
          ["v6", "v6"],
        ],
      },
    ],
  );
});

t.test("the schema of a field decides its control", async (t) => {
  const form = { label: "It" };
  const shown = (node: TSchema) => {
    const [section] = formOf(Type.Object({ it: node }), options);
    const { scope: _scope, name: _name, label: _label, ...rest } = section!.rows[0]![0] as Field;
    return Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
  };
  const text = { maxLength: 9, form };
  t.strictSame(shown(Type.String(text)), { type: "text", maxLength: 9, required: true });
  t.strictSame(shown(Type.String({ ...text, secret: true })), { type: "password", maxLength: 9, required: true });
  t.strictSame(shown(Type.String({ ...text, default: "x" })), {
    type: "text",
    maxLength: 9,
    as: "optional",
    value: "x",
  });
  t.strictSame(shown(Type.Optional(Type.String(text))), { type: "text", maxLength: 9, as: "optional" });
  t.strictSame(shown(Type.Record(Type.String(), Type.String(), { form })), {
    type: "lines",
    as: "headers",
    value: "",
  });
});

t.test("sections, rows, conditions and stored values", async (t) => {
  const Sms = Type.Object({
    provider: Type.Union([Type.Literal("a"), Type.Literal("b")], { form: { options: { a: "Ay" } } }),
    region: Type.Optional(Type.String({ form: { when: { field: "provider", is: ["b"] } } })),
    token: Type.String({ form: { control: "password", section: "More" } }),
    headers: Type.Record(Type.String(), Type.String(), { form: { section: "More", hint: "new", maskedHint: "kept" } }),
    to: Type.String({ form: { beside: true } }),
  });
  const values = { provider: "b", region: "eu", token: "", headers: { A: "1", B: "***" }, to: "x" };
  const blank = formOf(Sms, { base: "/config", scope: "s" });
  matchObject(
    t,
    blank.map(({ title, when, shown, rows }) => [title, when, shown, rows.map((row) => row.map(({ name }) => name))]),
    [
      [null, null, true, [["/config/provider"]]],
      [null, "/config/provider=b", false, [["/config/region"]]],
      [null, null, true, [["/config/to"]]],
      ["More", null, true, [["/config/token"], ["/config/headers"]]],
    ],
  );
  const stored = formOf(Sms, { base: "/config", scope: "s", values });
  matchObject(t, stored[1], { shown: true, rows: [[{ value: "eu", as: "optional" }]] });
  matchObject(t, stored[3], {
    rows: [[{ type: "password" }], [{ as: "headers", value: "A: 1\nB: ***", hint: "kept" }]],
  });
  matchObject(t, blank[0]!.rows, [
    [
      {
        type: "select",
        value: "a",
        options: [
          ["a", "Ay"],
          ["b", "b"],
        ],
      },
    ],
  ]);
});

t.test("a value without a control is refused when the form is made", async (t) => {
  const List = Type.Object({ names: Type.Array(Type.Integer()) });
  t.throws(() => formOf(List, options), /"names" has no control/);
  const Own = Type.Object({
    names: Type.Array(Type.String(), { form: { view: { name: "targets/fields/credentials" } } }),
  });
  matchObject(t, formOf(Own, options)[0]!.rows, [[{ view: "targets/fields/credentials", name: "/check/names" }]]);
  t.throws(() => fieldsOf(Own, ["names"], options), /has a view of its own/);
});
