import t from "tap";
import Type from "typebox";
import { field } from "../html/fields.ts";
import { formOf } from "./form.ts";
import { channelKinds } from "./kinds/index.ts";

const schemaWith = (node: object) => ({
  type: "pigeon",
  schema: Type.Object({ type: Type.Literal("pigeon"), it: node as never }),
});
const form = { label: "It" };

t.test("every kind has a form with a control for each field of its config", async (t) => {
  for (const kind of Object.values(channelKinds)) {
    const fields = formOf(kind).flatMap((section) => section.fields);
    t.strictSame(
      fields.map(({ name }) => name).sort(),
      Object.keys(kind.schema.properties)
        .filter((name) => name !== "type")
        .map((name) => `/config/${name}`)
        .sort(),
    );
    for (const one of fields) {
      t.match(one.label, /^[A-Z]/, `${kind.type}${one.name}: label`);
      t.match(field(one).html, `for="${kind.type}-config-`, `${kind.type}${one.name}: control`);
    }
  }
});

t.test("the schema of a field decides its control", async (t) => {
  const shown = (node: object) => {
    const [section] = formOf(schemaWith(node));
    const { scope: _scope, name: _name, label: _label, ...rest } = section!.fields[0]!;
    return rest;
  };
  const text = { maxLength: 9, form };
  t.strictSame(shown(Type.String(text)), { type: "text", maxLength: 9, required: true });
  t.strictSame(shown(Type.String({ ...text, secret: true })), { type: "password", maxLength: 9, required: true });
  t.strictSame(shown(Type.String({ ...text, default: "x" })), { type: "text", maxLength: 9, as: "optional" });
  t.strictSame(shown(Type.Optional(Type.String(text))), { type: "text", maxLength: 9, as: "optional" });
  t.strictSame(shown(Type.Union([Type.String({ maxLength: 9 }), Type.Null()], { default: null, form })), {
    type: "text",
    maxLength: 9,
    as: "nullable",
  });
  t.strictSame(shown(Type.Enum(["us", "eu"], { default: "eu", form: { ...form, options: { eu: "Europe" } } })), {
    type: "select",
    value: "eu",
    options: [
      ["us", "us"],
      ["eu", "Europe"],
    ],
  });
  t.strictSame(shown(Type.Boolean({ default: true, form })), { type: "checkbox", value: true });
  t.strictSame(shown(Type.Record(Type.String(), Type.String(), { form })), { type: "lines", as: "headers" });
});

t.test("fields are grouped by section, and by the choice that they depend on", async (t) => {
  const one = (more: object) => Type.String({ form: { label: "It", ...more } });
  const sections = formOf({
    type: "pigeon",
    schema: Type.Object({
      type: Type.Literal("pigeon"),
      loft: Type.Enum(["a", "b", "c"], { form }),
      one: one({ when: { field: "loft", is: ["a", "b"] } }),
      two: one({ when: { field: "loft", is: ["a", "b"] } }),
      three: one({ when: { field: "loft", is: ["c"] } }),
      four: one({ section: "More" }),
    }),
  });
  t.strictSame(
    sections.map(({ title, when, shown, fields }) => [title, when, shown, fields.length]),
    [
      [null, null, true, 1],
      [null, "/config/loft=a|b", true, 2],
      [null, "/config/loft=c", false, 1],
      ["More", null, true, 1],
    ],
  );
});

t.test("a field that cannot be shown is an error", async (t) => {
  t.throws(() => formOf(schemaWith(Type.String())), /pigeon\.it has no form/);
  t.throws(() => formOf(schemaWith(Type.Array(Type.String(), { form }))), /pigeon\.it: there is no control/);
  t.throws(() => formOf(schemaWith(Type.Integer({ form }))), /pigeon\.it: there is no control/);
});
