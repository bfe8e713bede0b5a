import * as fs from "node:fs";
import { basename, extname, join } from "node:path";
import { parse } from "smol-toml";
import { type Default, defaultsIn, settingsOf } from "@statusmesh/shared/foreign/autokuma";
import { messageOf } from "@statusmesh/shared/thrown";
import { Failure } from "../../shell/output.ts";
import type { KumaData } from "../kuma.ts";
import { flag, isRow, jsonIn, list, type Row, row, rows, text, texts } from "@statusmesh/shared/foreign/values";
import { readText, readYaml } from "./foreign-yaml.ts";
import { emptyKuma, kumaLists } from "./kuma.ts";

/*
 * Static monitors of AutoKuma (autokuma/src/sources/file_source.rs): TOML or JSON files, one entity or a list of them.
 * The id of an entity is the path of its file without the extension, with [n] in a list.
 */

const maxFiles = 10_000;

interface Entity {
  readonly id: string;
  readonly type: string;
  readonly value: Row;
}

type Refused = NonNullable<KumaData["refused"]>[number];

/** Reads a folder of static monitors; `configPath` is AutoKuma's configuration, for its default_settings. */
export function readAutoKuma(folder: string, configPath: string | undefined): KumaData {
  const refused: Refused[] = [];
  const defaults = configPath === undefined ? [] : defaultsIn(configIn(configPath));
  const entities = filesIn(folder).flatMap((file) => entitiesIn(file, defaults));
  const usable = entities.filter(({ id, type, value }) => {
    const reason = refusalOf(type, value);
    if (reason !== null) refused.push({ kind: kinds[type] ?? "monitor", name: id, reason, weight: "silent" });
    return reason === null;
  });
  const notifications = usable.filter(({ type }) => type === "notification");
  const tags = new Map(usable.filter(({ type }) => type === "tag").map(({ id, value }) => [id, text(value["name"])]));
  const monitors = usable.filter(({ type }) => !Object.hasOwn(kinds, type));
  const channelIds = numbered(notifications);
  const monitorIds = numbered(monitors);
  const refuseLink = (id: string, reason: string): void =>
    void refused.push({ kind: "link of a monitor", name: id, reason, weight: "silent" });

  const monitorRows = monitors.map(({ id, value }): Row => {
    const parent = text(value["parent_name"]);
    if (parent !== "" && !monitorIds.has(parent))
      refuseLink(id, `its group ${parent} is in no file, or not carried over`);
    const channels = notificationsOf(value).filter((name) => {
      if (!channelIds.has(name)) refuseLink(id, `its notification ${name} is in no file, or not carried over`);
      return channelIds.has(name);
    });
    const given = row(jsonIn(value["notificationIDList"] ?? value["notification_id_list"]));
    if (Object.keys(given).length > 0)
      refuseLink(id, "its notifications by numbers of Uptime Kuma's database are left out: name files");
    return {
      ...value,
      id: monitorIds.get(id),
      name: text(value["name"]) || id,
      parent: monitorIds.get(parent) ?? null,
      active: value["active"] ?? !flag(value["create_paused"]),
      notificationIDList: Object.fromEntries(channels.map((name) => [String(channelIds.get(name)), true])),
      tags: rows(jsonIn(value["tag_names"])).map((tag) => ({
        name: tags.get(text(tag["name"])) ?? text(tag["name"]),
        value: text(tag["value"]),
      })),
    };
  });
  const channelRows = notifications.map(({ id, value }): Row => ({
    ...value,
    id: channelIds.get(id),
    name: text(value["name"]) || id,
  }));
  return { ...kumaLists(monitorRows, channelRows), ...emptyKuma, refused };
}

/** Entities that are no monitors, by their words in the report. */
const kinds: Readonly<Record<string, string>> = {
  notification: "channel",
  tag: "tag",
  docker_host: "docker host",
  status_page: "status page",
};

function refusalOf(type: string, value: Row): string | null {
  if (type === "") return "it has no type";
  if (type === "docker_host") return "Docker hosts are not carried over: start an agent there with --docker";
  if (type === "status_page") return "status pages of AutoKuma are not carried over: add the page";
  const template = templateIn(value);
  return template === null ? null : `its template ${template} cannot be resolved: write the value into the file`;
}

const numbered = (entities: readonly Entity[]): ReadonlyMap<string, number> =>
  new Map(entities.map(({ id }, at) => [id, at + 1]));

/** Ids of files. Older versions call the list `notification_names`. */
const notificationsOf = (monitor: Row): string[] => [
  ...new Set(["notification_name_list", "notification_names"].flatMap((name) => texts(jsonIn(monitor[name])))),
];

function filesIn(folder: string): { id: string; path: string }[] {
  const found: { id: string; path: string }[] = [];
  const visit = (at: string, prefix: string, depth: number): void => {
    if (depth > 16) throw new Failure(`${at}: more than 16 folders are nested here.`);
    for (const name of fs.readdirSync(at).sort()) {
      const path = join(at, name);
      const stat = name.startsWith(".") ? undefined : fs.statSync(path, { throwIfNoEntry: false });
      if (stat?.isDirectory()) visit(path, `${prefix}${name}/`, depth + 1);
      else if (stat?.isFile() && /\.(?:json|toml)$/.test(name))
        found.push({ id: `${prefix}${basename(name, extname(name))}`, path });
      if (found.length > maxFiles) throw new Failure(`${folder} has more than ${maxFiles} files.`);
    }
  };
  if (!fs.statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw new Failure(`${folder} is no folder: name that of AUTOKUMA__STATIC_MONITORS.`);
  visit(folder, "", 0);
  if (found.length === 0) throw new Failure(`${folder} has no TOML or JSON file.`);
  return found;
}

function entitiesIn({ id, path }: { id: string; path: string }, defaults: readonly Default[]): Entity[] {
  const value = parsedFile(path);
  const entity = (name: string, one: unknown, index: number | null): Entity => {
    if (!isRow(one)) throw new Failure(`${path} cannot be read: a monitor in it is no map.`);
    const type = text(one["type"]);
    return { id: name, type, value: row(resolved(settingsOf(defaults, type, one), index)) };
  };
  return Array.isArray(value)
    ? list(value).map((one, index) => entity(`${id}[${index}]`, one, index))
    : [entity(id, value, null)];
}

function parsedFile(path: string): unknown {
  const content = readText(path).replace(/^\ufeff/, "");
  try {
    return path.endsWith(".toml") ? parse(content) : (JSON.parse(content) as unknown);
  } catch (error) {
    throw new Failure(`${path} cannot be read: ${messageOf(error).split("\n")[0]!.slice(0, 300)}`);
  }
}

/** Templates of Tera that do not depend on a container: `file_index`, and variables that AutoKuma lets files read. */
const known = /\{\{\s*(?:get_env\(\s*name\s*=\s*(["'`])(AUTOKUMA__ENV__\w{1,200})\1\s*\)|file_index)\s*\}\}/g;

function resolved(value: unknown, index: number | null): unknown {
  if (typeof value === "string")
    return value.replaceAll(known, (template, _quote, name?: string) =>
      name === undefined ? String(index ?? template) : (process.env[name] ?? template),
    );
  if (Array.isArray(value)) return value.map((one) => resolved(one, index));
  return isRow(value)
    ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, resolved(one, index)]))
    : value;
}

/** The first template in the texts of a value; null for none. */
function templateIn(value: unknown): string | null {
  if (typeof value === "string") return /\{[{%#][^}]{0,100}\}{0,2}/.exec(value)?.[0] ?? null;
  const parts = Array.isArray(value) ? list(value) : Object.values(row(value));
  for (const part of parts) {
    const found = templateIn(part);
    if (found !== null) return found;
  }
  return null;
}

const configIn = (path: string): Row => (/\.ya?ml$/.test(path) ? readYaml(path) : row(parsedFile(path)));
