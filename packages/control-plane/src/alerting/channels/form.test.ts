import t from "tap";
import { field } from "../../platform/html/fields.ts";
import { formOf } from "../../platform/html/schema-fields.ts";
import { channelKinds } from "./kinds/index.ts";

t.test("every kind has a form with a control for each field of its config", async (t) => {
  for (const kind of Object.values(channelKinds)) {
    const fields = formOf(kind.schema, { base: "/config", scope: kind.type }).flatMap(({ rows }) => rows.flat());
    t.strictSame(
      fields.map(({ name }) => name).sort(),
      Object.keys(kind.schema.properties)
        .filter((name) => name !== "type")
        .map((name) => `/config/${name}`)
        .sort(),
    );
    for (const one of fields) {
      t.match(one.label, /^[A-Z]/, `${kind.type}${one.name}: label`);
      if (!("view" in one)) t.match(field(one).html, `for="${kind.type}-config-`, `${kind.type}${one.name}: control`);
    }
  }
});
