import type { Check } from "@statusmesh/shared/foreign/check";
import { Item } from "@statusmesh/shared/foreign/item";
import { checkOf } from "@statusmesh/shared/foreign/kuma-checks";
import { flag, jsonIn, number, type Row, rows, text, texts } from "@statusmesh/shared/foreign/values";
import { messageOf } from "@statusmesh/shared/thrown";
import { type AutoKumaConfig, settingsOf } from "@statusmesh/shared/foreign/autokuma";
import type { Findings, Found } from "./found.ts";
import { declaredOf, remarkOn } from "./foreign.ts";

/*
 * AutoKuma (README, Usage): `<prefix>.<id>.<type>.<setting>`, and snippets, `<prefix>.__<name>: <arguments>`. Of its
 * templates (Tera) those are filled in that name a variable; others are one line each.
 */

interface Entity {
  readonly id: string;
  readonly type: string;
  readonly found: Found;
  readonly settings: Row;
}

/** Types that are no monitors, and what becomes of them. */
const others: Readonly<Record<string, string>> = {
  notification: "channels are not declared by labels: its monitors notify the default channels",
  docker_host: "Docker hosts are not declared by labels",
  status_page: "status pages are not declared by labels",
};

/** Entities of all objects: groups and tags may stand at others than their monitors. */
export class AutoKuma {
  readonly #config: AutoKumaConfig;
  readonly #findings: Findings;
  readonly #entities = new Map<string, Entity>();

  constructor(config: AutoKumaConfig, findings: Findings) {
    this.#config = config;
    this.#findings = findings;
  }

  /** Reads the labels of an object; true where it has some. */
  read(found: Found): boolean {
    const { prefix, snippets } = this.#config;
    const settings = new Map<string, Record<string, string>>();
    let hasSome = false;
    const add = (label: string, value: string): void => {
      const [, id, type, name] = /^([^.]+)\.([^.]+)\.(.+)$/.exec(this.#filled(label, found)) ?? [];
      if (id === undefined)
        return this.#findings.refuse(found, null, `the label ${label} is not <id>.<type>.<setting>`);
      const at = `${id}.${type!}`;
      const group = settings.get(at) ?? (Object.create(null) as Record<string, string>);
      group[name!] = value;
      settings.set(at, group);
    };
    for (const [label, value] of Object.entries(found.labels)) {
      const own = label.startsWith(`${prefix}.`) ? label.slice(prefix.length + 1) : null;
      const isBare = own === null && snippets.has(`!${label}`);
      if (own === null && !isBare) continue;
      hasSome = true;
      try {
        if (isBare || own!.startsWith("__")) this.#expand(isBare ? `!${label}` : own!.slice(2), value, found, add);
        else add(own!, this.#filled(value, found));
      } catch (error) {
        this.#findings.refuse(found, null, `the label ${label}: ${messageOf(error)}`);
      }
    }
    for (const [at, values] of settings) {
      const [id = "", type = ""] = at.split(".");
      const known = this.#entities.get(id);
      if (known !== undefined && known.found !== found && known.found.name !== found.name) {
        this.#findings.ignore(found, `its id ${id} is that of ${known.found.words}`);
        continue;
      }
      this.#entities.set(id, { id, type, found, settings: settingsOf(this.#config.defaults, type, values) });
    }
    return hasSome;
  }

  /** Ids that the labels of an object name; those of snippets are not among them. */
  idsOf({ labels }: Found): string[] {
    const { prefix } = this.#config;
    const own = Object.keys(labels).filter((label) => label.startsWith(`${prefix}.`));
    return [...new Set(own.map((label) => label.slice(prefix.length + 1).split(".", 1)[0]!))];
  }

  /** Lines `<id>.<type>.<setting>: <value>` of a snippet with its arguments. */
  #expand(name: string, value: string, found: Found, add: (label: string, value: string) => void): void {
    const snippet = this.#config.snippets.get(name);
    if (snippet === undefined) throw new Error(`there is no snippet ${name} in the file of --autokuma-config`);
    const args = name.startsWith("!") ? [value] : (jsonIn(`[${value}]`) as unknown[] | undefined);
    if (args === undefined) throw new Error("its arguments are no JSON list");
    for (const line of this.#filled(snippet, found, args).split("\n")) {
      if (line.trim() === "") continue;
      const at = line.indexOf(": ");
      if (at < 0) throw new Error(`the line "${line.trim().slice(0, 100)}" of its snippet has no ": "`);
      add(line.slice(0, at).trim(), line.slice(at + 2));
    }
  }

  #filled(template: string, { texts: known }: Found, args: readonly unknown[] = []): string {
    const filled = template.replaceAll(
      /\{\{\s*(?:([a-z_]+)|args\[(\d{1,2})\])\s*\}\}/g,
      (all, name: string | undefined, at: string | undefined) => {
        const value = at === undefined ? (Object.hasOwn(known, name!) ? known[name!] : undefined) : args[Number(at)];
        return value === undefined || (typeof value === "object" && value !== null) ? all : String(value);
      },
    );
    const left = /\{[{%#][^}]{0,60}\}{0,2}/.exec(filled)?.[0];
    if (left !== undefined) throw new Error(`the template ${left} cannot be filled in`);
    return filled;
  }

  /** Adds the monitors of all objects that were read. */
  finish(): void {
    const keys = new Map([...this.#entities.keys()].map((id) => [id, this.#findings.keyOf(id)]));
    const members = new Map<string, string[]>();
    for (const entity of this.#entities.values())
      try {
        this.#addMonitor(entity, keys.get(entity.id)!, members);
      } catch (error) {
        this.#findings.refuse(entity.found, keys.get(entity.id)!, `${entity.id}: ${messageOf(error)}`);
      }
    this.#addGroups(keys, members);
  }

  #addMonitor({ id, type, found, settings }: Entity, key: string, members: Map<string, string[]>): void {
    if (type === "group" || type === "tag") return;
    if (Object.hasOwn(others, type)) {
      this.#findings.ignore(found, `${id}: ${others[type]!}`);
      return;
    }
    const item = new Item("monitor", id);
    const check = this.#checkOf(item, type, settings);
    if (!remarkOn(item, found, key, this.#findings) || check === null) return;
    const parent = text(settings["parent_name"]);
    if (parent !== "") members.set(parent, [...(members.get(parent) ?? []), key]);
    const interval = number(settings["interval"], 60);
    const retries = Math.max(0, number(settings["maxretries"], 0));
    this.#findings.add(found, key, {
      ...declaredOf(check, {
        name: text(settings["name"]) || id,
        intervalSecs: interval,
        tags: this.#tagsOf(settings),
        enabled: flag(settings["active"], !flag(settings["create_paused"])),
      }),
      ...(check.type === "heartbeat" || retries === 0 ? {} : { alert_confirmations: Math.min(retries + 1, 100) }),
    });
  }

  #checkOf(item: Item, type: string, settings: Row): Check | null {
    const given = texts(jsonIn(settings["notification_name_list"] ?? settings["notification_names"]));
    if (given.length > 0) item.note("its notifications are left out: it notifies the default channels");
    return checkOf(item, { ...settings, type })?.check ?? null;
  }

  #tagsOf(settings: Row): string[] {
    return rows(jsonIn(settings["tag_names"])).map((tag) => {
      const declared = this.#entities.get(text(tag["name"]));
      const name = declared?.type === "tag" ? text(declared.settings["name"]) : text(tag["name"]);
      return text(tag["value"]) === "" ? name : `${name}:${text(tag["value"])}`;
    });
  }

  /** A group of Kuma is down while any of its monitors is. */
  #addGroups(keys: ReadonlyMap<string, string>, members: ReadonlyMap<string, readonly string[]>): void {
    for (const { id, type, found, settings } of this.#entities.values()) {
      if (type !== "group") continue;
      const parent = text(settings["parent_name"]);
      const inside = [
        ...(members.get(id) ?? []),
        ...[...this.#entities.values()].flatMap((one) =>
          one.type === "group" && text(one.settings["parent_name"]) === id && one.id !== id ? [keys.get(one.id)!] : [],
        ),
      ].filter((key) => key !== keys.get(parent));
      if (inside.length === 0) {
        this.#findings.absent.add(keys.get(id)!);
        this.#findings.ignore(found, `${id}: a group without monitors`);
      } else
        this.#findings.add(found, keys.get(id)!, {
          name: text(settings["name"]) || id,
          check: { type: "group", members: inside.map((monitor) => ({ monitor })), rule: "all" },
        });
    }
    for (const [parent] of members)
      if (this.#entities.get(parent)?.type !== "group")
        for (const { found, settings } of this.#entities.values())
          if (text(settings["parent_name"]) === parent) this.#findings.ignore(found, `its group ${parent} is nowhere`);
  }
}
