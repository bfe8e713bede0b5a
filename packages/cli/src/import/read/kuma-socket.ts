import { io, type Socket } from "socket.io-client";
import { Failure, type Progress } from "../../shell/output.ts";
import { ProxyError, proxyOf, tunnelsTo } from "../../shell/proxy.ts";
import { dateOf, type Day, dayOf } from "../history.ts";
import type { Change, KumaData } from "../kuma.ts";
import { flag, isRow, list, number, type Row, row, rows, text } from "@statusmesh/shared/foreign/values";
import { zoneName } from "@statusmesh/shared/zoned";
import { baseOf, Fetching, reasonOf } from "./fetching.ts";
import { byColumns, kumaLists, timeOf } from "./kuma.ts";

const answerMs = 15_000;
const mostTries = 3;
/** The lists follow the sign-in one by one. */
const listsMs = 60_000;
const lists = ["monitorList", "notificationList", "statusPageList", "maintenanceList", "proxyList"] as const;

interface Options {
  readonly history: boolean;
  readonly insecureHttp?: boolean;
}

/** Reads a running instance, as its browser does: the way in for MariaDB. Throws Failure. */
export async function readRunningKuma(address: string, options: Options, progress: Progress): Promise<KumaData> {
  const base = baseOf(address, options.insecureHttp === true);
  const [username = "", password = "", token = ""] = ["KUMA_USERNAME", "KUMA_PASSWORD", "KUMA_TOTP"].map(
    (name) => process.env[name] ?? "",
  );
  if (username === "" || password === "")
    throw new Failure("set KUMA_USERNAME and KUMA_PASSWORD, and KUMA_TOTP with two factors.");
  const proxy = proxyOf(base);
  const socket = io(base.origin, {
    path: `${base.pathname.replace(/\/$/, "")}/socket.io`,
    transports: ["websocket", "polling"],
    reconnection: false,
    timeout: answerMs,
    forceNew: true,
    // Their types are those of browsers, which have no agents.
    ...(proxy === null ? {} : { agent: tunnelsTo(base, proxy) as unknown as string }),
  });
  try {
    const got = new Map<string, unknown>();
    for (const name of lists) socket.on(name, (value: unknown) => got.set(name, value));
    await connected(socket, base.origin);
    const signedIn = await call(socket, "login", { username, password, token });
    if (!flag(signedIn["ok"])) {
      const needsToken = flag(signedIn["tokenRequired"]);
      throw new Failure(
        needsToken
          ? "the account has two factors: set KUMA_TOTP to the current code."
          : `Uptime Kuma refuses the sign-in (${text(signedIn["msg"]).slice(0, 200)}).`,
      );
    }
    await arrived(got, socket);
    return await collect(socket, base, got, options, progress);
  } finally {
    socket.disconnect();
  }
}

function connected(socket: Socket, origin: string): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once("connect", () => resolve());
    socket.once("connect_error", (error) => {
      const cause = causeOf(error);
      const message = cause instanceof ProxyError ? cause.message : null;
      reject(new Failure(message ?? `${origin} does not answer as Uptime Kuma (${reasonOf(cause)}).`));
    });
  });
}

/** The error behind that of a transport, which only says which transport it was. */
function causeOf(error: Error & { description?: unknown }): unknown {
  const { description } = error;
  return typeof description === "object" && description !== null && "error" in description ? description.error : error;
}

/** Asks, again where no answer comes: requests before the server's handlers are there are lost. */
async function call(socket: Socket, event: string, ...args: unknown[]): Promise<Row> {
  for (let tries = 1; ; tries++) {
    try {
      return row(await socket.timeout(tries === 1 && event === "login" ? 3000 : answerMs).emitWithAck(event, ...args));
    } catch (error) {
      if (tries >= mostTries || !socket.connected)
        throw new Failure(`Uptime Kuma does not answer ${event} (${reasonOf(error)}).`);
    }
  }
}

/** Waits for the lists; the last two are missing in old versions. */
async function arrived(got: ReadonlyMap<string, unknown>, socket: Socket): Promise<void> {
  const until = performance.now() + listsMs;
  while (!lists.every((name) => got.has(name)) && performance.now() < until) {
    if (!socket.connected) throw new Failure("Uptime Kuma closed the connection.");
    await new Promise((resolve) => setTimeout(resolve, 50));
    if (got.has("monitorList") && got.has("notificationList") && performance.now() > until - listsMs + 5000) return;
  }
  if (!got.has("monitorList")) throw new Failure("Uptime Kuma sent no list of monitors within 60 s.");
}

const valuesOf = (value: unknown): Row[] =>
  Array.isArray(value) ? rows(value) : Object.values(row(value)).filter(isRow);

async function collect(
  socket: Socket,
  base: URL,
  got: ReadonlyMap<string, unknown>,
  { history, insecureHttp = false }: Options,
  progress: Progress,
): Promise<KumaData> {
  // Ids ascend in the database too: the same file comes of both ways.
  const byId = (list: Row[]): Row[] => list.sort((a, b) => number(a["id"], 0) - number(b["id"], 0));
  const monitors = byId(valuesOf(got.get("monitorList")));
  const pages = byId(valuesOf(got.get("statusPageList")));
  const windows = byId(valuesOf(got.get("maintenanceList")));
  const site = new Fetching({ url: base.href, headers: {}, insecureHttp });
  const shown: { groups: Row[]; monitor_group: Row[]; incidents: Row[] } = {
    groups: [],
    monitor_group: [],
    incidents: [],
  };
  for (const page of pages) {
    if (!flag(page["published"])) continue;
    const body = row(await site.get(`/api/status-page/${encodeURIComponent(text(page["slug"]))}`));
    for (const group of rows(body["publicGroupList"])) {
      shown.groups.push({ ...group, public: true, status_page_id: page["id"] });
      for (const [weight, monitor] of rows(group["monitorList"]).entries())
        shown.monitor_group.push({ group_id: group["id"], monitor_id: monitor["id"], weight });
    }
    shown.incidents.push(...rows(body["incidents"]), ...rows([body["incident"]]));
  }
  const concerned: Row[] = [];
  for (const window of windows)
    for (const monitor of rows((await call(socket, "getMonitorMaintenance", window["id"]))["monitors"]))
      concerned.push({ maintenance_id: window["id"], monitor_id: monitor["id"] });
  const zone = text(row((await call(socket, "getSettings"))["data"])["serverTimezone"]);
  const past = history ? await pastOf(socket, monitors, progress) : { days: new Map(), changes: new Map() };
  return {
    ...kumaLists(monitors, byId(valuesOf(got.get("notificationList")))),
    status_pages: pages.map(byColumns),
    status_page_cname: pages.flatMap((page) =>
      list(page["domainNameList"]).map((domain) => ({ status_page_id: page["id"], domain })),
    ),
    ...shown,
    maintenance: windows.map(windowByColumns),
    monitor_maintenance: concerned,
    proxies: valuesOf(got.get("proxyList")),
    zone: zoneName(zone) !== null ? zone : "UTC",
    ...past,
  };
}

function windowByColumns(window: Row): Row {
  const [start, end] = list(window["dateRange"]);
  const [from, to] = list(window["timeRange"]);
  return {
    ...byColumns(window),
    start_date: start,
    end_date: end,
    start_time: from,
    end_time: to,
    timezone: window["timezoneOption"] ?? window["timezone"],
  };
}

/** Days since the first of 2.x; 1.23 has none, and the answer says so. */
async function pastOf(
  socket: Socket,
  monitors: readonly Row[],
  progress: Progress,
): Promise<Pick<KumaData, "days" | "changes">> {
  const days = new Map<number, Day[]>();
  const changes = new Map<number, Change[]>();
  for (const [done, monitor] of monitors.entries()) {
    progress.step("past", done, monitors.length);
    const id = number(monitor["id"], NaN);
    const chart = await call(socket, "getMonitorChartData", id, 400 * 24);
    days.set(id, rows(chart["data"]).flatMap(daysOf));
    const beats = rows((await call(socket, "monitorImportantHeartbeatListPaged", id, 0, 2100))["data"]);
    changes.set(id, beats.flatMap(changeOf).reverse());
  }
  return { days, changes };
}

function daysOf(sums: Row): Day[] {
  const [up, down, avgMs] = ["up", "down", "avgPing"].map((name) => number(sums[name], NaN));
  const day = dayOf(dateOf(number(sums["timestamp"], NaN)), { up: up!, down: down!, avgMs: avgMs! });
  return day === null ? [] : [day];
}

function changeOf(beat: Row): Change[] {
  const at = timeOf(beat["time"]);
  const status = number(beat["status"], -1);
  return at === null || status < 0 || status > 3 ? [] : [{ status, at }];
}
