import Koa from "koa";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { listen } from "../../testing/app.ts";
import { keptLog } from "../../testing/world.ts";
import { documentation } from "./documentation.ts";
import { exchange } from "./exchange.ts";

t.test("a document that could not be made is made again, and once for all readers", async (t) => {
  let calls = 0;
  const koa = new Koa();
  koa.use(exchange({ log: keptLog(), clock: { now: () => 0 }, page: () => null, headers: {} }));
  koa.use(
    documentation({
      "/api/openapi.json": async () => {
        if (++calls === 1) throw new Error("not now");
        return "{}";
      },
    }),
  );
  const ask = await listen(t, koa);
  const read = async () => (await ask("GET", "/api/openapi.json")).status;
  t.equal(await read(), 500);
  t.strictSame(await Promise.all([read(), read(), read()]), [200, 200, 200]);
  t.equal(calls, 2);
});

t.test("a document has an entity tag for each coding", async (t) => {
  const koa = new Koa();
  koa.use(exchange({ log: keptLog(), clock: { now: () => 0 }, page: () => null, headers: {} }));
  koa.use(documentation({ "/api/openapi.json": async () => JSON.stringify({ openapi: "3.1.0 ".repeat(300) }) }));
  const ask = await listen(t, koa);
  const tags: string[] = [];
  for (const encoding of ["identity", "gzip"]) {
    const { status, headers } = await ask("GET", "/api/openapi.json", undefined, { "accept-encoding": encoding });
    t.equal(status, 200);
    t.equal(headers.get("content-encoding"), encoding === "gzip" ? "gzip" : null);
    const tag = headers.get("etag")!;
    const known = { "accept-encoding": encoding, "if-none-match": tag };
    matchObject(t, await ask("GET", "/api/openapi.json", undefined, known), { status: 304, text: "" });
    tags.push(tag);
  }
  t.equal(new Set(tags).size, 2);
});
