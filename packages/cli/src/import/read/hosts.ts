import { Failure, type Progress } from "../../shell/output.ts";
import type { BetterStackData } from "../betterstack.ts";
import type { HealthchecksData } from "../healthchecks.ts";
import type { PingdomData } from "../pingdom.ts";
import type { StatuspageData } from "../statuspage.ts";
import type { UptimeRobotData } from "../uptimerobot.ts";
import { type Row, row, rows, text } from "@statusmesh/shared/foreign/values";
import { Fetching, keyOf } from "./fetching.ts";

/* What the APIs of other products list, page by page. */

interface Options {
  readonly apiUrl: string;
  readonly insecureHttp?: boolean;
}

const maxPages = 1000;
const maxItems = 100_000;

const open = ({ apiUrl, insecureHttp = false }: Options, headers: Record<string, string>): Fetching =>
  new Fetching({ url: apiUrl, headers, insecureHttp });

/** Every item of a list whose pages name the next one. A list that never ends is refused. */
async function listed(
  api: Fetching,
  first: string,
  pages: { items(body: Row): Row[]; next(body: Row): string; what: string; progress: Progress },
): Promise<Row[]> {
  const { items, next, what, progress } = pages;
  const found: Row[] = [];
  const seen = new Set<string>();
  for (let path = first; path !== "";) {
    if (seen.has(path) || seen.size >= maxPages || found.length > maxItems)
      throw new Failure(`the list of ${what} does not end. Nothing was written.`);
    seen.add(path);
    const body = row(await api.get(path));
    found.push(...items(body));
    progress.step(what, found.length, null);
    path = next(body);
  }
  progress.end();
  return found;
}

/** https://uptimerobot.com/api/v3/ */
export async function readUptimeRobot(options: Options, progress: Progress): Promise<UptimeRobotData> {
  const api = open(options, { authorization: `Bearer ${keyOf("UPTIMEROBOT_API_KEY")}` });
  const all = (path: string, what: string): Promise<Row[]> =>
    listed(api, path, { items: (body) => rows(body["data"]), next: (body) => text(body["nextLink"]), what, progress });
  return {
    monitors: await all("/monitors?limit=200", "monitors"),
    pages: await all("/psps", "status pages"),
    windows: await all("/maintenance-windows", "maintenance windows"),
  };
}

/** https://betterstack.com/docs/uptime/api/ */
export async function readBetterStack(options: Options, progress: Progress): Promise<BetterStackData> {
  const api = open(options, { authorization: `Bearer ${keyOf("BETTERSTACK_API_TOKEN")}` });
  const all = (path: string, what: string): Promise<Row[]> =>
    listed(api, path, {
      items: (body) => rows(body["data"]),
      next: (body) => text(row(body["pagination"])["next"]),
      what,
      progress,
    });
  const pages = await all("/api/v2/status-pages?per_page=50", "status pages");
  const resources = new Map<string, Row[]>();
  for (const page of pages) {
    const id = text(page["id"]);
    resources.set(id, await all(`/api/v2/status-pages/${encodeURIComponent(id)}/resources?per_page=250`, "components"));
  }
  return {
    monitors: await all("/api/v2/monitors?per_page=250", "monitors"),
    heartbeats: await all("/api/v2/heartbeats?per_page=250", "heartbeats"),
    groups: await all("/api/v2/monitor-groups?per_page=250", "groups"),
    pages,
    resources,
  };
}

/** https://docs.pingdom.com/api/: the list, and one request for the detail of each check. */
export async function readPingdom(options: Options, progress: Progress): Promise<PingdomData> {
  const api = open(options, { authorization: `Bearer ${keyOf("PINGDOM_API_TOKEN")}` });
  const list = rows(row(await api.get("/checks?include_tags=true&limit=25000"))["checks"]);
  const checks: Row[] = [];
  for (const one of list) {
    const detail = row(row(await api.get(`/checks/${encodeURIComponent(text(one["id"]))}`))["check"]);
    checks.push({ ...one, ...detail });
    progress.step("checks", checks.length, list.length);
  }
  progress.end();
  const maintenance = rows(row(await api.get("/maintenance"))["maintenance"]);
  return { checks, maintenance };
}

/** https://developer.statuspage.io/: pages of a hundred, until one has fewer. */
export async function readStatuspage(
  options: Options & { page: string },
  progress: Progress,
): Promise<Omit<StatuspageData, "history">> {
  const api = open(options, { authorization: `OAuth ${keyOf("STATUSPAGE_API_KEY")}` });
  const base = `/pages/${encodeURIComponent(options.page)}`;
  const all = async (name: string, size: string): Promise<Row[]> => {
    const found: Row[] = [];
    for (let number = 1; number <= maxPages; number++) {
      const items = rows(await api.get(`${base}/${name}?${size}=100&page=${number}`));
      found.push(...items);
      progress.step(name, found.length, null);
      if (items.length < 100) return found;
    }
    throw new Failure(`the list of ${name} does not end. Nothing was written.`);
  };
  return {
    page: row(await api.get(base)),
    components: await all("components", "per_page"),
    incidents: await all("incidents", "limit"),
    subscribers: await all("subscribers", "limit"),
  };
}

/** https://healthchecks.io/docs/api/ */
export async function readHealthchecks(options: Options): Promise<HealthchecksData> {
  const api = open(options, { "x-api-key": keyOf("HEALTHCHECKS_API_KEY") });
  const checks = rows(row(await api.get("/api/v3/checks/"))["checks"]);
  if (checks.some((check) => check["uuid"] === undefined && check["ping_url"] === undefined))
    throw new Failure("the key of HEALTHCHECKS_API_KEY is read-only and hides ping addresses: use a full one.");
  return { checks, channels: rows(row(await api.get("/api/v3/channels/"))["channels"]) };
}
