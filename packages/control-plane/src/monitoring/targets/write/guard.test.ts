import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { checkKinds, checkTypes, type CheckType } from "@statusmesh/shared/checks";
import { openHub } from "../../../platform/db/notify.ts";
import { pipelineRoutes } from "../../pipeline/api.ts";
import { openIngest } from "../../pipeline/ingest.ts";
import { serve } from "../../../testing/app.ts";
import { allowPrivate, newOrg, openWorld } from "../../../testing/world.ts";
import { targetRoutes } from "../api.ts";
import { targetBulkRoutes } from "../bulk/api.ts";

/* The address guard for every kind and by every way in. A kind that is added does not compile until it is here. */

const { sql, log, system } = await openWorld(t);
const stop = new AbortController();
t.teardown(() => stop.abort());
const routes = [
  ...targetBulkRoutes,
  ...targetRoutes,
  ...pipelineRoutes(
    openHub(sql, log),
    openIngest(async () => {}),
    stop.signal,
  ),
];
const caller = await newOrg(system);
const ask = await serve(t, system, routes, { tenant: () => caller });
const open = await newOrg(allowPrivate(system));
const askOpen = await serve(t, allowPrivate(system), routes, { tenant: () => open });

const url = (host: string): string => `https://${host.includes(":") ? `[${host}]` : host}/`;
/** The fields that send a check to a host, and the pointer of the one that names it; or why there are none. */
const kinds: {
  readonly [T in CheckType]:
    | { good: object; to: (host: string) => object; pointer: string; names: boolean | "not as numbers" }
    | { never: string };
} = {
  http: { good: { url: "https://example.org/" }, to: (host) => ({ url: url(host) }), pointer: "/url", names: true },
  tcp: { good: { host: "db.example.org", port: 5432 }, to: (host) => ({ host }), pointer: "/host", names: true },
  grpc: {
    good: { host: "orders.example.org", port: 50_051 },
    to: (host) => ({ host, server_name: "www.example.org" }),
    pointer: "/host",
    names: true,
  },
  status_page: {
    good: { url: "https://status.example.org/" },
    to: (host) => ({ url: url(host) }),
    pointer: "/url",
    names: true,
  },
  websocket: {
    good: { url: "wss://example.org/" },
    to: (host) => ({ url: url(host).replace("https", "wss") }),
    pointer: "/url",
    names: true,
  },
  ping: { good: { host: "gw.example.org" }, to: (host) => ({ host }), pointer: "/host", names: true },
  tls_cert: {
    good: { host: "example.org" },
    to: (host) => ({ host, server_name: "www.example.org" }),
    pointer: "/host",
    names: true,
  },
  dns: {
    good: { domain: "example.org", resolver: "9.9.9.9" },
    to: (resolver) => ({ resolver }),
    pointer: "/resolver",
    names: "not as numbers",
  },
  domain_expiry: { never: "it asks registries, which their own public list chooses" },
  container: { never: "the agent's own setting decides what is connected to" },
  exec: { never: "the agent's own file decides what is connected to" },
  heartbeat: { never: "the job connects to the control plane" },
  group: { never: "nothing is connected to" },
};

const addresses: [string, string][] = [
  ["127.0.0.1", "127.0.0.0/8"],
  ["0.0.0.0", "0.0.0.0/8"],
  ["10.0.0.1", "10.0.0.0/8"],
  ["100.64.0.1", "100.64.0.0/10"],
  ["169.254.169.254", "169.254.0.0/16"],
  ["172.31.0.1", "172.16.0.0/12"],
  ["192.168.0.1", "192.168.0.0/16"],
  ["224.0.0.1", "224.0.0.0/4"],
  ["255.255.255.255", "240.0.0.0/4"],
  ["::1", "::1/128"],
  ["::ffff:127.0.0.1", "::ffff:0:0/96"],
  ["64:ff9b::a00:1", "64:ff9b::/96"],
  ["2002:a00:1::", "2002::/16"],
  ["fd00::1", "fc00::/7"],
  ["fe80::1", "fe80::/10"],
];
const written: [string, string][] = [
  ["localhost", "localhost"],
  ["a.LOCALHOST.", "localhost"],
  ["0x7f.1", "127.0.0.0/8"],
  ["2130706433", "127.0.0.0/8"],
  ["017700000001", "127.0.0.0/8"],
  ["１２７.0.0.1", "127.0.0.0/8"],
];

for (const type of checkTypes) {
  const kind = kinds[type];
  t.test(
    `${type}: ${"never" in kind ? `no address: ${kind.never}` : "refused by create, edit, bulk and test"}`,
    async (t) => {
      if ("never" in kind) {
        const { destination } = checkKinds[type] as { destination: (spec: object) => unknown };
        return t.equal(destination({ domain: "example.org" }), null);
      }
      const target = { name: "x", interval: 3600, check: { type, ...kind.good } };
      const made = await ask("POST", "/api/v1/targets", target);
      t.equal(made.status, 201);
      const one = `/api/v1/targets/${made.body.id}`;
      const refused = (range: string, base: string) => ({
        status: 400,
        body: { error: { code: "SSRF_BLOCKED", field: `${base}${kind.pointer}`, details: { range } } },
      });
      for (const [host, range] of [
        ...addresses,
        ...written.filter(([, range]) => kind.names === true || (kind.names && range === "localhost")),
      ]) {
        const check = { ...target.check, ...kind.to(host) };
        matchObject(
          t,
          await ask("POST", "/api/v1/targets", { ...target, check }),
          refused(range, "/check"),
          `create ${host}`,
        );
        matchObject(t, await ask("PATCH", one, { check: kind.to(host) }), refused(range, "/check"), `edit ${host}`);
        matchObject(
          t,
          await ask("POST", "/api/v1/targets/bulk", [target, { ...target, check }]),
          refused(range, "/1/check"),
          `bulk ${host}`,
        );
        matchObject(t, await ask("POST", "/api/v1/targets/test", check), refused(range, ""), `test ${host}`);
      }
      t.strictSame((await ask("GET", one)).body, made.body, "the target is as it was");
      t.equal(
        (await askOpen("POST", "/api/v1/targets", { ...target, check: { ...target.check, ...kind.to("10.0.0.1") } }))
          .status,
        201,
        "unless the instance allows it",
      );
    },
  );
}
