import type Koa from "koa";
import t from "tap";
import type { Ctx } from "../context.ts";
import { loadAssets } from "../html/assets.ts";
import { mountPages } from "../html/pages.ts";
import { openViews } from "../html/views.ts";
import { createRegion, updateRegion } from "../regions/service.ts";
import { serve } from "../testing/app.ts";
import { newOrg, openWorld } from "../testing/world.ts";
import { targetRoutes } from "./api.ts";
import { targetsPages } from "./pages.ts";

const { system } = await openWorld(t);
await createRegion(system, { id: "ap", name: "Asia" });
const caller: Ctx = await newOrg(system);
const authenticators = { tenant: async () => caller, public: async () => system };
const pages = mountPages(targetsPages, authenticators, openViews({ assets: loadAssets() }));
const ask = await serve(t, system, targetRoutes, {
  tenant: () => caller,
  page: pages.routes() as unknown as Koa.Middleware,
});

const create = async (name: string): Promise<string> =>
  (await ask("POST", "/api/v1/targets", { name, check: { type: "tcp", host: "db.example.org", port: 5432 } })).body.id;

/** The region checkboxes of a form by id: whether each is checked, the words beside it. */
const regionBoxes = (html: string) =>
  [...html.matchAll(/<input type="checkbox" name="\/regions"[^>]* value="(\w+)"([^>]*)>(.*?)<\/label>/gs)]
    .map(([, id, rest, words]) => ({
      id,
      checked: /\schecked/.test(rest!),
      words: words!
        .replaceAll(/<[^>]+>|\s+/g, " ")
        .replaceAll(/ +/g, " ")
        .trim(),
    }))
    .sort((a, b) => a.id!.localeCompare(b.id!));

t.test("the form lists a disabled region of the monitor, so that saving the regions keeps it", async (t) => {
  const id = await create("Checkout");
  const other = await create("Search");
  await ask("PUT", `/api/v1/targets/${id}/regions`, { regions: ["eu", "us"] });
  await ask("PUT", `/api/v1/targets/${other}/regions`, { regions: ["eu"] });
  await updateRegion(system, "us", { enabled: false });

  const boxes = regionBoxes((await ask("GET", `/monitors/${id}/edit`)).text);
  t.match(boxes, [
    { id: "ap", checked: false },
    { id: "eu", checked: true },
    { id: "us", checked: true, words: /disabled by the operator$/ },
  ]);
  const regions = [...boxes.filter((box) => box.checked).map((box) => box.id), "ap"];
  t.match(await ask("PUT", `/api/v1/targets/${id}/regions`, { regions }), {
    status: 200,
    body: { regions: ["ap", "eu", "us"] },
  });
  t.same(
    regionBoxes((await ask("GET", `/monitors/${other}/edit`)).text).map((box) => box.id),
    ["ap", "eu"],
    "a disabled region of another monitor is no choice",
  );
});
