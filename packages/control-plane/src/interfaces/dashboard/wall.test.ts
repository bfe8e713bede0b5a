import t from "tap";
import { addIncident, newTarget } from "../../testing/scene.ts";
import { serveWhole, signedIn } from "../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../testing/world.ts";
import { acknowledgeIncident } from "../../alerting/incidents/service.ts";

t.test("the wall has what needs somebody first, and shows nothing of another organisation", async (t) => {
  const world = await openWorld(t);
  const [acme, other] = [await newOrg(world.system), await newOrg(world.system)];
  const app = await serveWhole(t, world);
  const read = async (path: string) => (await app("GET", path, undefined, await signedIn(acme))).text;
  t.match(await read("/wall"), /Nothing is checked/);
  const started = world.clock.at - 420_000;
  const taken = await addIncident(acme, await newTarget(acme, "Search <b>"), { started });
  await addIncident(acme, await newTarget(acme, "Checkout"), { started });
  await addIncident(other, await newTarget(other, "Foreign"), { started });
  await acknowledgeIncident(acme, taken);
  const live = await read("/wall?fragment=1");
  t.match(live, /<strong>1<\/strong>\s+needs\s+you/);
  t.match(live, /data-title="Checkout"/);
  t.equal(live.match(/data-alarm/g)?.length, 1, "an acknowledged one is no alarm");
  t.ok(live.indexOf("Checkout") < live.indexOf("Search &lt;b&gt;"), "and stands below");
  t.notMatch(live, "Foreign");
  t.notMatch(live, "<!doctype", "the part that refreshes itself");
});
