import { type ComponentInput, Draft, type Imported } from "./draft.ts";
import { addDomain, type KnownDomains } from "./expiry.ts";
import type { Day, Outage } from "./history.ts";
import { maxDepth } from "@statusmesh/shared/checks/group";
import { hostAndPort } from "@statusmesh/shared/url";
import { channelsOf } from "./kuma-channels.ts";
import { checkOf } from "@statusmesh/shared/foreign/kuma-checks";
import { windowsOf } from "./kuma-windows.ts";
import type { Item, Weight } from "@statusmesh/shared/foreign/item";
import { flag, jsonIn, number, type Row, row, text } from "@statusmesh/shared/foreign/values";

/** What was read of Uptime Kuma, by the names of its columns. Each table may be empty. */
export interface KumaData {
  readonly monitors: readonly Row[];
  readonly notifications: readonly Row[];
  readonly monitor_notification: readonly Row[];
  /** {monitor_id, name, value} */
  readonly tags: readonly Row[];
  readonly status_pages: readonly Row[];
  readonly status_page_cname: readonly Row[];
  readonly groups: readonly Row[];
  readonly monitor_group: readonly Row[];
  readonly incidents: readonly Row[];
  readonly maintenance: readonly Row[];
  readonly monitor_maintenance: readonly Row[];
  readonly proxies: readonly Row[];
  /** Zone of windows that have that of the server. */
  readonly zone: string;
  readonly days: ReadonlyMap<number, readonly Day[]>;
  /** Changes of the state, in the order of time. */
  readonly changes: ReadonlyMap<number, readonly Change[]>;
  /** What the reader could not use. */
  readonly refused?: readonly { kind: string; name: string; reason: string; weight: Weight }[];
}

/** 0 down, 1 up, 2 pending, 3 maintenance. */
export interface Change {
  readonly status: number;
  /** RFC 3339 */
  readonly at: string;
}

/** Uptime Kuma 1.23 and 2.x: its database, its backup, its Socket.IO interface, and files of AutoKuma. */
export function importKuma(data: KumaData, project: string, source = "Uptime Kuma"): Imported {
  const draft = new Draft(source, project);
  const kuma = new Kuma(data, draft);
  kuma.addChannels();
  kuma.addMonitors();
  kuma.addPages();
  kuma.addWindows();
  for (const incident of data.incidents)
    draft
      .item("page message", incident["title"])
      .refuse("messages of pages are not carried over: post an incident on the page where it still counts", "detail");
  for (const proxy of data.proxies)
    draft.item("proxy", `${text(proxy["host"])}:${text(proxy["port"])}`).refuse("checks use no proxy");
  for (const { kind, name, reason, weight } of data.refused ?? []) draft.item(kind, name).refuse(reason, weight);
  return draft.finish();
}

const idOf = (value: unknown): number => number(value, NaN);

class Kuma {
  readonly #data: KumaData;
  readonly #draft: Draft;
  readonly #channels = new Map<number, string[]>();
  readonly #monitors = new Map<number, string>();
  /** Monitors that are set manually, which are components without a monitor. */
  readonly #manual = new Map<number, { name: string; state: string; item: Item }>();
  readonly #byId: ReadonlyMap<number, Row>;
  /** Servers whose certificates are monitored. */
  readonly #certificates = new Set<string>();
  readonly #domains: KnownDomains = new Set();

  constructor(data: KumaData, draft: Draft) {
    this.#data = data;
    this.#draft = draft;
    this.#byId = new Map(data.monitors.map((monitor) => [idOf(monitor["id"]), monitor]));
  }

  addChannels(): void {
    for (const notification of this.#data.notifications) {
      const item = this.#draft.item("channel", notification["name"]);
      const config = row(jsonIn(notification["config"]));
      const configs = channelsOf(item, config);
      const enabled = flag(notification["active"], true);
      const keys = configs.flatMap((one) => {
        const name = configs.length > 1 ? `${item.name.slice(0, 60)} ${text(one["to"])}` : item.name;
        return (
          this.#draft.channel(item, { name, config: one, enabled, isDefault: flag(notification["is_default"]) }) ?? []
        );
      });
      this.#channels.set(idOf(notification["id"]), keys);
    }
  }

  addMonitors(): void {
    const tags = groupedBy(this.#data.tags, "monitor_id");
    const notifications = groupedBy(this.#data.monitor_notification, "monitor_id");
    const groups: FoundGroup[] = [];
    for (const monitor of this.#data.monitors) {
      const id = idOf(monitor["id"]);
      const item = this.#draft.item("monitor", monitor["name"]);
      const notified = notifications.get(id) ?? [];
      if (monitor["type"] === "group") {
        groups.push({ id, row: monitor, item, notified });
        continue;
      }
      if (monitor["type"] === "manual") {
        // 0 down, 1 up, 3 maintenance; 1.x has them in the last heartbeat only.
        const state = { 0: "major_outage", 3: "maintenance" }[number(monitor["manual_status"], 1)] ?? "operational";
        this.#manual.set(id, { name: item.name, state, item });
        continue;
      }
      const alerts = notified.flatMap((pair) => this.#channels.get(idOf(pair["notification_id"])) ?? []);
      const mapped = checkOf(item, monitor);
      if (mapped === null) continue;
      const interval = number(monitor["interval"], 60);
      const retries = Math.max(0, number(monitor["maxretries"], 0));
      if (retries > 0 && mapped.check.type !== "heartbeat")
        item.note(
          "its retries are confirmations: that many failing runs open an incident, and passing ones close it",
          "detail",
        );
      if (notified.length > 0 && alerts.length === 0)
        item.note("none of its channels is carried over: it notifies nobody", "silent");
      const key = this.#draft.monitor(item, {
        name: item.name,
        check: mapped.check,
        interval,
        enabled: mapped.paused !== true && this.#isActive(monitor),
        tags: [...this.#groupTags(monitor), ...(tags.get(id) ?? []).map(tagOf)],
        alerts,
        confirmations: retries + 1,
        renotify: Math.max(0, number(monitor["resend_interval"], 0)) * interval,
        addresses: mapped.addresses ?? [],
      });
      if (key === null) continue;
      this.#monitors.set(id, key);
      if (mapped.certificateOf !== undefined) this.#addCertificate(item, mapped.certificateOf, alerts);
      if (mapped.domainOf !== undefined)
        addDomain(this.#draft, item, { host: mapped.domainOf, known: this.#domains, alerts });
      this.#draft.past(key, outagesOf(this.#data.changes.get(id) ?? []), this.#data.days.get(id) ?? []);
    }
    this.#addGroups(groups);
  }

  /** A group of Kuma is down while any of its monitors is. Those of a group come before it. */
  #addGroups(groups: readonly FoundGroup[]): void {
    const members = groupedBy(this.#data.monitors, "parent");
    const heights = new Map<number, number>();
    const depthOf = ({ row }: FoundGroup): number => this.#ancestors(row).length;
    for (const { id, row, item, notified } of [...groups].sort((a, b) => depthOf(b) - depthOf(a))) {
      const children = (members.get(id) ?? []).map((child) => idOf(child["id"]));
      const keys = children.flatMap((child) => this.#monitors.get(child) ?? []);
      const height = 1 + Math.max(0, ...children.map((child) => heights.get(child) ?? 0));
      item.note(`its ${children.length} monitors also have the tag ${this.#groupTag(row)}`, "detail");
      if (keys.length === 0 || height > maxDepth) {
        item.note(keys.length === 0 ? "a group without monitors" : `a group above ${maxDepth} others`, "behaviour");
        continue;
      }
      const key = this.#draft.monitor(item, {
        name: item.name,
        check: { type: "group", members: keys.map((monitor) => ({ monitor })), rule: "all" },
        enabled: this.#isActive(row),
        alerts: notified.flatMap((pair) => this.#channels.get(idOf(pair["notification_id"])) ?? []),
      });
      if (key === null) continue;
      heights.set(id, height);
      this.#monitors.set(id, key);
    }
  }

  /** Kuma warns 21 and 7 days before a certificate ends: one monitor for each server. */
  #addCertificate(item: Item, server: { host: string; port: number }, alerts: readonly string[]): void {
    const name = hostAndPort(server.host, server.port);
    item.note("warned of its certificate too: that is a monitor of its own, once a day", "detail");
    if (this.#certificates.size === this.#certificates.add(name).size) return;
    this.#draft.monitor(item, {
      name: `${name} certificate`,
      check: { type: "tls_cert", ...server, warn_days: 21, critical_days: 7 },
      interval: 86_400,
      alerts,
      confirmations: 1,
    });
  }

  addPages(): void {
    const groups = groupedBy(
      this.#data.groups.filter((group) => flag(group["public"])),
      "status_page_id",
    );
    const members = groupedBy(this.#data.monitor_group, "group_id");
    const domains = groupedBy(this.#data.status_page_cname, "status_page_id");
    for (const page of this.#data.status_pages) {
      const item = this.#draft.item("status page", page["title"]);
      const id = idOf(page["id"]);
      const components = byWeight(groups.get(id) ?? []).flatMap((group) =>
        byWeight(members.get(idOf(group["id"])) ?? []).flatMap((pair): ComponentInput[] => {
          const manual = this.#manual.get(idOf(pair["monitor_id"]));
          if (manual !== undefined) {
            const { item: own, ...component } = manual;
            own.note(
              "set manually: a component of its pages without a monitor, whose state you set there",
              "behaviour",
            );
            return [{ ...component, group: text(group["name"]) }];
          }
          const monitor = this.#monitors.get(idOf(pair["monitor_id"]));
          if (monitor === undefined) {
            item.note("shows monitors that are not carried over: they are left out", "behaviour");
            return [];
          }
          return [{ monitor, group: text(group["name"]) }];
        }),
      );
      notePage(item, page, domains.get(id)?.length ?? 0);
      const theme = text(page["theme"]);
      this.#draft.page(item, {
        slug: text(page["slug"]),
        name: page["title"],
        enabled: flag(page["published"], true),
        about: page["description"],
        style: theme === "light" || theme === "dark" ? theme : "auto",
        components,
      });
    }
    for (const { item } of this.#manual.values())
      if (item.notes.length === 0)
        item.refuse("set manually, and on no page: add it to a page as a component without a monitor");
  }

  addWindows(): void {
    const monitors = groupedBy(this.#data.monitor_maintenance, "maintenance_id");
    for (const maintenance of this.#data.maintenance) {
      const item = this.#draft.item("maintenance", maintenance["title"]);
      const keys = (monitors.get(idOf(maintenance["id"])) ?? []).flatMap(
        (pair) => this.#monitors.get(idOf(pair["monitor_id"])) ?? [],
      );
      for (const window of windowsOf(item, maintenance, this.#data.zone))
        this.#draft.window(item, {
          title: maintenance["title"],
          description: maintenance["description"],
          monitors: keys,
          ...window,
        });
    }
  }

  /** A monitor is paused with any group that it is in. */
  #isActive(monitor: Row): boolean {
    return this.#ancestors(monitor).every(({ active }) => active === undefined || active === null || flag(active));
  }

  /** The monitor and the groups above it. Groups that contain each other end. */
  #ancestors(monitor: Row): Row[] {
    const found: Row[] = [];
    let next: Row | undefined = monitor;
    while (next !== undefined && !found.includes(next) && found.length < 20) {
      found.push(next);
      next = this.#byId.get(idOf(next["parent"]));
    }
    return found;
  }

  #groupTag(group: Row): string {
    const path = this.#ancestors(group).map((one) => text(one["name"]).replaceAll("/", "-"));
    return `group/${path.toReversed().join("/")}`.slice(0, 50).trim();
  }

  #groupTags(monitor: Row): string[] {
    const parent = this.#byId.get(idOf(monitor["parent"]));
    return parent === undefined || parent === monitor ? [] : [this.#groupTag(parent)];
  }
}

/** A group, whose members have keys once all monitors have. */
interface FoundGroup {
  readonly id: number;
  readonly row: Row;
  readonly item: Item;
  readonly notified: readonly Row[];
}

function groupedBy(list: readonly Row[], name: string): Map<number, Row[]> {
  const groups = new Map<number, Row[]>();
  for (const one of list) {
    const id = idOf(one[name]);
    groups.set(id, [...(groups.get(id) ?? []), one]);
  }
  return groups;
}

const byWeight = (list: readonly Row[]): Row[] =>
  [...list].sort((a, b) => number(a["weight"], 0) - number(b["weight"], 0) || number(a["id"], 0) - number(b["id"], 0));

const tagOf = (tag: Row): string =>
  text(tag["value"]) === "" ? text(tag["name"]) : `${text(tag["name"])}:${text(tag["value"])}`;

function notePage(item: Item, page: Row, domains: number): void {
  if (domains > 0) item.note("its domains are not taken over: set custom_domain once its DNS record can be changed");
  if (text(page["icon"]).includes("/upload/"))
    item.note("its logo is a file of Kuma's data folder: upload it", "detail");
  const dropped: Readonly<Record<string, string>> = {
    custom_css: "its own CSS is left out",
    footer_text: "its footer is left out",
    analytics_id: "its analytics are left out",
    google_analytics_tag_id: "its analytics are left out",
  };
  for (const [name, words] of Object.entries(dropped)) if (text(page[name]) !== "") item.note(words, "detail");
  if (flag(page["show_tags"])) item.note("tags are not shown on pages", "detail");
  if (text(page["password"]) !== "") item.note("it had a password: pages here are public", "silent");
}

/** Closed outages: from a change to down until the next one to up, or into maintenance. */
function outagesOf(changes: readonly Change[]): Outage[] {
  const found: Outage[] = [];
  let since: string | null = null;
  for (const { status, at } of changes) {
    if (status === 0) since ??= at;
    else if (since !== null && (status === 1 || status === 3)) {
      if (at > since) found.push({ started_at: since, ended_at: at, title: null });
      since = null;
    }
  }
  return found;
}
