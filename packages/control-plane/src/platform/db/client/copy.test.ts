import * as net from "node:net";
import t from "tap";
import { openTestDatabase } from "../../../testing/database.ts";
import { copyIn } from "./sql.ts";

t.test("rows are copied with their special characters, and their end is sent at once", async (t) => {
  const { pool } = await openTestDatabase(t);
  const one = pool(1);
  await one`create table row (n real, flag boolean, text text unique)`;
  const texts = ["\\N", "\\.", "a\tb\r\n\\n\\", "", "ü", null];
  const noDelay = t.capture(net.Socket.prototype, "setNoDelay", net.Socket.prototype.setNoDelay);
  await one.begin(async (tx) => {
    await copyIn(tx, tx`copy row from stdin`, texts, (text) => [0.1, true, text]);
    t.equal(noDelay().length, 1);
    const stored = await tx`select * from row`;
    t.strictSame(
      [...stored],
      texts.map((text) => ({ n: 0.1, flag: true, text })),
    );
  });
  // Refused in the middle of the data, and at their end.
  for (const rows of [50_000, 1]) {
    const copied = one.begin((tx) =>
      copyIn(
        tx,
        tx`copy row from stdin`,
        Array.from({ length: rows }, () => "ü"),
        (text) => [1, false, text],
      ),
    );
    await t.rejects(copied, { code: "23505" });
    t.strictSame([...(await one`select count(*)::int as count from row`)], [{ count: texts.length }]);
  }
});
