import Koa from "koa";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { newToken } from "../crypto/token.ts";
import { listen } from "../../testing/app.ts";
import { keptLog } from "../../testing/world.ts";
import { exchange } from "./exchange.ts";
import { baseHeaders } from "./reply/security-headers.ts";

t.test("codes of links are masked in the log", async (t) => {
  const log = keptLog();
  const koa = new Koa();
  koa.use(exchange({ log, clock: { now: () => 0 }, page: () => null, headers: {} }));
  koa.use((http) => {
    if (http.path.endsWith("/broken")) throw new Error("a defect");
    if (http.path.endsWith("/away")) throw new AppError("DEPENDENCY_DOWN", "The database does not answer.");
    http.body = "ok";
  });
  const ask = await listen(t, koa);
  const [code, id] = [newToken(""), newId()];
  for (const path of ["/sign-in/{}", "/Sign-In/{}/", "/invitations/{}/broken", "/m/{}/live", "/c/{}/away", "//{}"])
    await ask("GET", path.replace("{}", code));
  await ask("GET", `/monitors/${id}`);
  await ask("GET", `/api/v1/targets/${id.toUpperCase()}/results`);
  const said = JSON.stringify(log.lines);
  t.notMatch(said, code);
  t.match(said, "/sign-in/***");
  t.match(said, "/invitations/***/broken");
  t.match(said, `/monitors/${id}`, "ids are logged");
  matchObject(t, said, id.toUpperCase());
});

t.test("HSTS is set when the service uses https", async (t) => {
  for (const [url, expected] of [
    ["https://status.example.org", "max-age=31536000"],
    ["http://127.0.0.1:8080", null],
  ] as const) {
    const koa = new Koa();
    koa.use(exchange({ log: keptLog(), clock: { now: () => 0 }, page: () => null, headers: baseHeaders(url) }));
    const { headers } = await (await listen(t, koa))("GET", "/nothing");
    t.equal(headers.get("strict-transport-security"), expected);
    t.equal(headers.get("x-content-type-options"), "nosniff");
  }
});
