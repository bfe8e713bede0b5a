import { type CheckSpec, checkKinds, type CheckType, isCheckType, kindOf } from "@statusmesh/shared/checks";
import { checkDocument, checkOf } from "@statusmesh/shared/declared/check";
import { perSection, type Section, sections } from "@statusmesh/shared/declared/files";
import { blockedHost } from "@statusmesh/shared/net/address";
import { type Check, escaped, mapTexts, present, Secret } from "@statusmesh/shared/foreign/check";
import { dayMs } from "@statusmesh/shared/time";
import { insideName } from "@statusmesh/shared/net/inside-name";
import type { Json } from "@statusmesh/shared/json";
import type { Day, HistoryFile, Outage, Subscriber } from "./history.ts";
import { Item } from "@statusmesh/shared/foreign/item";
import { type Report, reportOf } from "./report.ts";
import { clamp, line, lines, slug } from "@statusmesh/shared/foreign/values";

/** Said of every address that the guard of a server refuses as it is installed. */
export const privateTarget =
  "its address is private: set security.allow_private_targets on the server before the apply, which is refused " +
  "otherwise";

/** What an importer makes of what was read. */
export interface Imported {
  readonly document: Json;
  /** Values of the variables in the document. */
  readonly env: ReadonlyMap<string, string>;
  readonly history: HistoryFile | null;
  readonly report: Report;
}

export interface MonitorInput {
  name: unknown;
  check: Check;
  /** Seconds; null for the default of the kind. */
  interval?: number | null;
  enabled?: boolean;
  tags?: readonly string[];
  /** Keys of channels; null for the default channels of the server. */
  alerts?: readonly string[] | null;
  confirmations?: number | null;
  /** Seconds between reminders; 0 for none; null for the default. */
  renotify?: number | null;
  notifyRecovery?: boolean;
  /** Addresses that jobs go on using. */
  addresses?: readonly { kind: string; value: Secret }[];
}

/** A component of a page: the key of a monitor, or the state of one without. */
export type ComponentInput = ({ monitor: string; name?: string | null } | { state: string; name: string }) & {
  description?: string | null;
  group?: string | null;
};

export interface WindowInput {
  title: unknown;
  description?: unknown;
  /** Unix ms. */
  startsAt: number;
  endsAt: number;
  recurrence: { rule: string; time_zone: string } | null;
  monitors: readonly string[];
}

const longestWindowMs = 30 * dayMs;
const longestIntervalSecs = 31 * 86_400;

/** Components of a page, by the quota of a server as it is installed. */
const mostComponents = 1000;
/** Longest history that the server takes of one monitor. */
const maxDays = 400;
const maxOutages = 1000;

/**
 * A file of configuration in the making. Every thing of the other product becomes an {@link Item}; what the rules of
 * the API refuse is listed with their words, so that the file is always valid.
 */
export class Draft {
  readonly #source: string;
  readonly #project: string;
  readonly #items: Item[] = [];
  readonly #objects = perSection(() => new Map<string, Json>());
  readonly #env = new Map<string, string>();
  readonly #names = new Set<string>();
  readonly #slugs = new Set<string>();
  readonly #history = new Map<string, { incidents: readonly Outage[]; days: readonly Day[] }>();
  readonly #subscribers = new Map<string, readonly Subscriber[]>();

  constructor(source: string, project: string) {
    this.#source = source;
    this.#project = project;
  }

  /** Lists a thing of the other product. */
  item(kind: string, name: unknown): Item {
    const item = new Item(kind, line(name, 200) || "(without a name)");
    this.#items.push(item);
    return item;
  }

  /** Adds a monitor and returns its key; null where the item is refused. */
  monitor(item: Item, input: MonitorInput): string | null {
    const { check, addresses = [] } = input;
    if (item.isRefused) return null;
    if (hasUnstorable(check))
      return item.refuse("a text of it has a character that cannot be stored (NUL or half a character)");
    const name = line(input.name, 200) || item.name;
    const key = this.#newKey("monitors", name);
    const { spec, problem } = judged(check, key);
    if (spec === null && item.key !== null) {
      item.note(`the monitor ${name} is left out: ${problem}`, "silent");
      return null;
    }
    if (spec === null) return item.refuse(problem);
    this.#notePrivate(item, spec);
    const kind = kindOf(spec);
    const tags = [...new Set((input.tags ?? []).map((tag) => line(tag, 50)).filter((tag) => tag !== ""))];
    if (tags.length > 50) item.note("has more than 50 tags: the first 50", "detail");
    const body: Json = {
      name,
      check: this.#withVariables(check, "monitors", key),
      interval: kind.reported === true ? undefined : this.#interval(item, input.interval, spec.type),
      enabled: input.enabled === false ? false : undefined,
      tags: tags.length === 0 ? undefined : tags.slice(0, 50).map(escaped),
      alerts: input.alerts == null ? undefined : [...new Set(input.alerts)].slice(0, 100),
      alert_confirmations:
        input.confirmations == null || kind.reported === true ? undefined : clamp(input.confirmations, 1, 100),
      renotify_interval_secs:
        input.renotify == null ? undefined : input.renotify <= 0 ? 0 : clamp(input.renotify, 60, 2_678_400),
      notify_recovery: input.notifyRecovery === false ? false : undefined,
      heartbeat_addresses:
        addresses.length === 0
          ? undefined
          : addresses.map(({ kind: of, value }) => ({
              kind: of,
              value: this.#variable(value.value, "monitors", key, `/${of}`),
            })),
    };
    return this.#add("monitors", item, key, body);
  }

  /** Adds a channel and returns its key. The config must fit the rules of its kind. */
  channel(item: Item, input: { name?: string; config: Json; enabled?: boolean; isDefault?: boolean }): string | null {
    if (hasUnstorable(input.config))
      return item.refuse("a text of it has a character that cannot be stored (NUL or half a character)");
    const name = this.#channelName(input.name ?? item.name);
    const key = this.#newKey("channels", name);
    return this.#add("channels", item, key, {
      name,
      config: this.#withVariables(input.config, "channels", key),
      enabled: input.enabled === false ? false : undefined,
      is_default: input.isDefault || undefined,
    });
  }

  /** Adds a status page and returns its key. */
  page(
    item: Item,
    input: {
      slug: string;
      name: unknown;
      enabled?: boolean;
      about?: unknown;
      style?: "light" | "dark" | "auto";
      components: readonly ComponentInput[];
    },
  ): string {
    const address = this.#pageSlug(input.slug, item.name);
    if (address !== input.slug)
      item.note("its address is another one: 1 to 60 of a-z, 0-9 and - between them, each once");
    const about = lines(input.about, 500);
    const branding = present({
      about: about === "" ? undefined : escaped(about),
      style: input.style === "auto" ? undefined : input.style,
    });
    const seen = new Set<string>();
    const components = input.components.flatMap((component): Json[] => {
      const texts = {
        ...nonEmpty("public_name", line(component.name ?? "", 200)),
        ...nonEmpty("public_description", line(component.description ?? "", 500)),
        ...nonEmpty("public_group", line(component.group ?? "", 80)),
      };
      if ("state" in component)
        return [{ manual: true, public_name: "Component", ...texts, ...nonEmpty("state", component.state) }];
      if (seen.size === seen.add(component.monitor).size) {
        item.note("shows a monitor twice: it is on the page once", "detail");
        return [];
      }
      return [{ monitor: component.monitor, ...texts }];
    });
    if (components.length > mostComponents)
      item.note(`has ${components.length} components: the first ${mostComponents}`, "behaviour");
    const key = this.#newKey("status_pages", address);
    return this.#add("status_pages", item, key, {
      slug: address,
      name: line(input.name, 80) || address,
      enabled: input.enabled === false ? false : undefined,
      branding: Object.keys(branding).length === 0 ? undefined : branding,
      components: components.slice(0, mostComponents),
    });
  }

  /** Adds a maintenance window. */
  window(item: Item, input: WindowInput): void {
    const { startsAt, endsAt, recurrence } = input;
    if (!(endsAt > startsAt)) return void item.refuse("it ends before it begins");
    if (endsAt - startsAt > longestWindowMs) return void item.refuse("it is longer than 30 days");
    if (input.monitors.length === 0) return void item.refuse("none of its monitors is carried over");
    const description = lines(input.description ?? "", 5000);
    this.#add("maintenance", item, this.#newKey("maintenance", item.name), {
      title: escaped(line(input.title, 200) || "Maintenance"),
      description: description === "" ? undefined : escaped(description),
      starts_at: new Date(startsAt).toISOString(),
      ends_at: new Date(endsAt).toISOString(),
      recurrence: recurrence ?? undefined,
      monitors: [...new Set(input.monitors)],
    });
  }

  /** Past of a monitor: closed outages and sums of UTC days, of which the newest are kept. */
  past(key: string, incidents: readonly Outage[], days: readonly Day[]): void {
    if (incidents.length + days.length === 0) return;
    const newest = [...days].sort((a, b) => (a.date < b.date ? -1 : 1)).slice(-maxDays);
    const ended = [...incidents].sort((a, b) => (a.started_at < b.started_at ? -1 : 1)).slice(-maxOutages);
    this.#history.set(key, { incidents: ended, days: newest });
  }

  /** Confirmed subscribers of a page. */
  subscribers(page: string, items: readonly Subscriber[]): void {
    if (items.length > 0) this.#subscribers.set(page, items);
  }

  finish(): Imported {
    const document: Json = { version: 1, project: this.#project };
    for (const section of sections)
      if (this.#objects[section].size > 0) document[section] = Object.fromEntries(this.#objects[section]);
    const history = [...this.#history].map(([monitor, past]) => ({ monitor, ...past }));
    const subscribers = [...this.#subscribers].map(([page, items]) => ({ page, source: this.#source, items }));
    return {
      document,
      env: this.#env,
      history:
        history.length + subscribers.length === 0
          ? null
          : {
              version: 1,
              project: this.#project,
              items: history,
              ...(subscribers.length === 0 ? {} : { subscribers }),
            },
      report: reportOf(this.#source, this.#project, this.#items),
    };
  }

  #add(section: Section, item: Item, key: string, body: Json): string {
    const { name } = body;
    this.#objects[section].set(key, present(typeof name === "string" ? { ...body, name: escaped(name) } : body));
    item.key ??= key;
    return key;
  }

  #newKey(section: Section, name: string): string {
    const start = slug(name).slice(0, 100) || section.replace(/s$/, "").replaceAll("_", "-");
    let key = start;
    for (let count = 2; this.#objects[section].has(key); count++) key = `${start}-${count}`;
    return key;
  }

  /** Names of channels are unique in an organisation. */
  #channelName(wanted: string): string {
    const start = line(wanted, 90) || "Channel";
    let name = start;
    for (let count = 2; this.#names.has(`channel ${name}`); count++) name = `${start} ${count}`;
    this.#names.add(`channel ${name}`);
    return name;
  }

  #pageSlug(wanted: string, title: string): string {
    const fits = /^[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?$/;
    const start = fits.test(wanted)
      ? wanted
      : slug(slug(wanted).slice(0, 60)) || slug(slug(title).slice(0, 60)) || "status";
    let found = start;
    for (let count = 2; this.#slugs.has(found); count++) found = `${slug(start.slice(0, 54))}-${count}`;
    this.#slugs.add(found);
    return found;
  }

  #interval(item: Item, wanted: number | null | undefined, type: CheckType): number {
    const { minIntervalSecs: least, defaultIntervalSecs } = checkKinds[type];
    if (wanted == null) return defaultIntervalSecs;
    const secs = clamp(wanted, least, longestIntervalSecs);
    if (secs !== Math.round(wanted)) item.note(`checked every ${secs} s: ${type} checks take ${least} s to 31 days`);
    return secs;
  }

  /** Names of the inside are refused by the server or its agents unless the operator allows them. */
  #notePrivate(item: Item, spec: CheckSpec): void {
    const host = kindOf(spec).destination(spec)?.host;
    if (host === undefined || (blockedHost(host) === null && (host.includes(":") || isPublicName(host)))) return;
    item.note(privateTarget, "silent");
  }

  #withVariables(value: unknown, section: Section, key: string): unknown {
    return mapTexts(value, (text, pointer) =>
      text instanceof Secret ? this.#variable(text.value, section, key, pointer) : escaped(text),
    );
  }

  /** A variable in place of a secret. Its name begins with the project: no foreign text sets LD_PRELOAD. */
  #variable(value: string, section: Section, key: string, pointer: string): string {
    if (value === "") return "";
    const words = `${this.#project}_${section === "monitors" ? "" : `${section}_`}${key}${pointer}`;
    const start = words
      .toUpperCase()
      .replaceAll(/[^A-Z0-9]+/g, "_")
      .slice(0, 200);
    const safe = /^(?![0-9]|SM_)/.test(start) ? start : `V_${start}`;
    let name = safe;
    for (let count = 2; this.#env.has(name); count++) name = `${safe}_${count}`;
    this.#env.set(name, value);
    return `\${${name}}`;
  }
}

const nonEmpty = (name: string, value: string): Json => (value === "" ? {} : { [name]: escaped(value) });

const isPublicName = (host: string): boolean => /^\d+(\.\d+){3}$/.test(host) || insideName(host.toLowerCase()) === null;

/** Stands for members of a group, which have been judged before it. */
const judgedMember = { name: "x", check: { type: "heartbeat", period: 60_000 } };

const memberKeys = ({ members }: Check): string[] =>
  Array.isArray(members) ? (members as { monitor: string }[]).map(({ monitor }) => monitor) : [];

/** The check with its defaults, by the rules of its kind; or what they say against it, without its secrets. */
function judged(check: Check, key: string): { spec: CheckSpec | null; problem: string } {
  if (!isCheckType(check.type)) return { spec: null, problem: `there is no check ${String(check.type)}` };
  const secrets: string[] = [];
  const plain = mapTexts(check, (text) => {
    if (!(text instanceof Secret)) return escaped(text);
    secrets.push(text.value);
    return escaped(text.value);
  });
  const others = Object.fromEntries(memberKeys(check).map((member) => [member, judgedMember]));
  const document: Json = { version: 1, project: "import", monitors: { ...others, [key]: { name: "x", check: plain } } };
  const [fault] = checkDocument(document);
  if (fault === undefined) {
    const { schema } = checkKinds[check.type];
    const defaults = Object.fromEntries(
      Object.entries(schema.properties as Record<string, { default?: unknown }>).flatMap(([name, node]) =>
        node.default === undefined ? [] : [[name, node.default]],
      ),
    );
    return { spec: { ...defaults, ...checkOf(document, key) } as unknown as CheckSpec, problem: "" };
  }
  const message = secrets
    .filter((secret) => secret.length >= 4)
    .reduce((words, secret) => words.replaceAll(secret, "***"), fault.message);
  return { spec: null, problem: line(message, 300) };
}

/** PostgreSQL takes neither NUL nor lone surrogates, and an environment takes no NUL. */
function hasUnstorable(value: unknown): boolean {
  if (value instanceof Secret) return hasUnstorable(value.value);
  if (typeof value === "string") return value.includes("\0") || /\p{Cs}/u.test(value);
  if (Array.isArray(value)) return value.some(hasUnstorable);
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(([name, one]) => hasUnstorable(name) || hasUnstorable(one));
}
