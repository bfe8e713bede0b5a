import t from "tap";
import { validate } from "@statusmesh/shared/validate";
import { createTarget } from "../../monitoring/targets/service.ts";
import { TargetCreate } from "../../monitoring/targets/schema.ts";
import type { Ctx } from "../../platform/context.ts";
import { addIncident } from "../../testing/scene.ts";
import { serveWhole, signedIn } from "../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../testing/world.ts";
import { createWindow } from "../../alerting/maintenance/service.ts";
import { acknowledgeIncident } from "../../alerting/incidents/service.ts";

const newMonitor = async (ctx: Ctx, name: string, tags: string[] = []): Promise<string> => {
  const check = { type: "tcp", host: `${name.toLowerCase().replaceAll(/\W/g, "")}.example.org`, port: 1 };
  return (await createTarget(ctx, validate(TargetCreate, { name, tags, check }))).id;
};

t.test("the wall has what needs somebody first, and shows nothing of another organisation", async (t) => {
  const world = await openWorld(t);
  const [acme, other] = [await newOrg(world.system), await newOrg(world.system)];
  const app = await serveWhole(t, world);
  const read = async (path: string) => (await app("GET", path, undefined, await signedIn(acme))).text;
  t.match(await read("/wall"), /No monitors yet/);
  const started = world.clock.at - 420_000;
  const taken = await addIncident(acme, await newMonitor(acme, "Search <b>"), { started });
  await addIncident(acme, await newMonitor(acme, "Checkout", ["team/shop", "team/web"]), { started });
  await addIncident(other, await newMonitor(other, "Foreign", ["team/foreign"]), { started });
  await acknowledgeIncident(acme, taken);
  const live = await read("/wall?fragment=1");
  t.match(live, /<strong>1<\/strong>\s+needs\s+you/);
  t.match(live, /data-title="Checkout"/);
  t.equal(live.match(/data-alarm/g)?.length, 1, "an acknowledged one is no alarm");
  t.ok(live.indexOf("Checkout") < live.indexOf("Search &lt;b&gt;"), "and stands below");
  t.equal(live.match(/class="strip/g)?.length, 1, "what needs somebody shows its last checks");
  t.match(live, /<h3>shop<\/h3>.*<h3>web<\/h3>/s, "tiles of the tags below the most used prefix");
  t.notMatch(live, /foreign/i);
  t.notMatch(live, /Maintenance/);
  const window = { starts_at: new Date(started).toISOString(), ends_at: new Date(started + 900_000).toISOString() };
  for (const [ctx, title] of [
    [acme, "Database upgrade"],
    [other, "Foreign upgrade"],
  ] as const)
    await createWindow(ctx, { title, ...window, component_ids: [await newMonitor(ctx, `In ${title}`)] });
  t.match(
    await read("/wall?fragment=1"),
    /Maintenance<span>7 min<\/span>.*Database upgrade<\/h2>\s*<p>8 min left/s,
    "maintenance that runs now",
  );
  t.notMatch(live, "<!doctype", "the part that refreshes itself");
});
