import { type Row, row, text } from "./values.ts";

/*
 * Settings of AutoKuma, in labels and in files.
 */

/** What AutoKuma sends for a setting that is absent, where Uptime Kuma has another default (models/monitor.rs). */
const builtIn: Row = { timeout: 48, ping_count: 3, dns_resolve_server: "1.1.1.1" };

/** Names that AutoKuma takes beside those of Uptime Kuma. Others differ in camel and snake case only. */
const aliases: Readonly<Record<string, string>> = {
  max_retries: "maxretries",
  max_redirects: "maxredirects",
  security: "smtp_security",
};

const byItsNames = (settings: Row): Row =>
  Object.fromEntries(Object.entries(settings).map(([name, value]) => [aliases[name] ?? name, value]));

export interface Default {
  readonly type: string;
  readonly name: string;
  readonly value: string;
}

/** What AutoKuma's configuration says of labels. */
export interface AutoKumaConfig {
  readonly prefix: string;
  readonly snippets: ReadonlyMap<string, string>;
  readonly defaults: readonly Default[];
}

/** The settings of an entity by Uptime Kuma's names, with the defaults of its type. */
export const settingsOf = (defaults: readonly Default[], type: string, settings: Row): Row => ({
  ...builtIn,
  ...byItsNames(defaultsFor(defaults, type)),
  ...byItsNames(settings),
});

/** `default_settings` of AutoKuma's configuration: lines of `http.max_redirects: 10` and `*.max_retries: 3`. */
export const defaultsIn = (config: Row): Default[] =>
  text(config["default_settings"])
    .split("\n")
    .flatMap((line): Default[] => {
      const [, type, name, value] = /^\s*([\w*-]+)\.([\w.]+)\s*:(.*)$/.exec(line) ?? [];
      return type === undefined ? [] : [{ type, name: name!, value: value!.trim() }];
    });

const defaultsFor = (defaults: readonly Default[], wanted: string): Row =>
  Object.fromEntries(
    ["*", wanted].flatMap((of) => defaults.filter(({ type }) => type === of).map(({ name, value }) => [name, value])),
  );

/** Snippets, defaults and the prefix of labels of AutoKuma's configuration file. */
export const autoKumaConfig = (config: Row): AutoKumaConfig => ({
  prefix: text(row(config["docker"])["label_prefix"]) || "kuma",
  snippets: new Map(Object.entries(row(config["snippets"])).map(([name, value]) => [name, text(value)])),
  defaults: defaultsIn(config),
});
