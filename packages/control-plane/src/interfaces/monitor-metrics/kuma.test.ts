import t from "tap";
import { newTarget, setStatus } from "../../testing/scene.ts";
import { serveWhole, withToken } from "../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../testing/world.ts";

const world = await openWorld(t);
const ctx = await newOrg(world.system);
const app = await serveWhole(t, world);

t.test("Kuma's metrics take the token as the password of Basic without a user; nothing else does", async (t) => {
  await setStatus(world.system, await newTarget(ctx, "Shop"), "up");
  const bearer = await withToken(ctx, { scopes: ["targets:read"] });
  const token = bearer["authorization"]!.slice("Bearer ".length);
  const basic = (pair: string) => ({ authorization: `Basic ${Buffer.from(pair).toString("base64")}` });
  const read = async (path: string, headers: Record<string, string>) => await app("GET", path, undefined, headers);
  const found = await read("/kuma/metrics", basic(`:${token}`));
  t.equal(found.status, 200);
  t.match(found.headers.get("content-type"), /^text\/plain; version=0\.0\.4/);
  t.match(found.text, /^monitor_status\{monitor_id="\d+",monitor_name="Shop",.*\} 1$/m);
  t.equal((await read("/kuma/metrics", bearer)).status, 200);
  t.equal((await read("/api/v1/metrics", basic(`:${token}`))).status, 401);
  t.equal((await read("/api/v1/targets", basic(`:${token}`))).status, 401);
  for (const pair of [`user:${token}`, token, `:${token}x`, ":", ""])
    t.equal((await read("/kuma/metrics", basic(pair))).status, 401, pair.replace(token, "…"));
  const other = await withToken(ctx, { scopes: ["channels:read"] });
  const wrong = basic(`:${other["authorization"]!.slice("Bearer ".length)}`);
  t.match(await read("/kuma/metrics", wrong), { status: 403, body: { error: { code: "INSUFFICIENT_SCOPE" } } });
});
