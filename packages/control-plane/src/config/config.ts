import { existsSync, readFileSync } from "node:fs";
import { relative, resolve } from "node:path";
import { parse, TomlError } from "smol-toml";
import Type, { type Static, type TObject } from "typebox";
import { isLoopback, parseBind, addressList } from "@statusmesh/shared/net/address";
import { hostAndPort } from "@statusmesh/shared/url";
import { readSettings } from "./reader.ts";
import { mcp, mcpProblems, settleMcp } from "./mcp-keys.ts";
import { mirror, mirrorProblems } from "./mirror-keys.ts";
import * as service from "./service-keys.ts";
import * as tenancy from "./tenancy-keys.ts";
import { codeOrMessage, messageOf } from "@statusmesh/shared/thrown";
import { StartupError } from "./startup-error.ts";

/** Every key but those of `channels.endpoints`, with its default. */
const ConfigSchema = Type.Object({
  server: service.server,
  api: service.api,
  data: service.data,
  database: service.database,
  redis: service.redis,
  bootstrap: tenancy.bootstrap,
  security: service.security,
  scheduler: service.scheduler,
  declared: service.declared,
  abuse: service.abuse,
  alerts: tenancy.alerts,
  subscribers: tenancy.subscribers,
  channels: service.channels,
  checker: service.checker,
  heartbeats: service.heartbeats,
  auth: tenancy.auth,
  mcp,
  email: service.email,
  operator: tenancy.operator,
  retention: tenancy.retention,
  tenancy: tenancy.tenancy,
  public_status: tenancy.public_status,
  mirror,
  log: service.log,
});

/** Validated settings with defaults; `data.dir` is absolute, `server.public_url` has no trailing slash. */
export interface Config extends Static<typeof ConfigSchema> {
  /** One line per setting that has no effect; left out without any. */
  warnings?: readonly string[];
}

/** Former keys, and the keys that replace them. */
const replaced = { "alerts.digest_threshold": "alerts.round_secs" };

/**
 * Every key with its default: the keys of the file and the names of the environment variables are derived from it.
 * `endpointNames` are the keys of `channels.endpoints`, which the channel kinds declare.
 */
export function configSchema(endpointNames: readonly string[]): typeof ConfigSchema {
  const { channels } = ConfigSchema.properties;
  const endpoints = Type.Object(Object.fromEntries(endpointNames.map((name) => [name, service.channelEndpoint(name)])));
  return Type.Object({ ...ConfigSchema.properties, channels: Type.Object({ ...channels.properties, endpoints }) });
}

export interface ConfigSources {
  /** Value of `--config`. */
  path?: string | undefined;
  env: Record<string, string | undefined>;
  cwd: string;
  /** Keys of `channels.endpoints`. */
  endpointNames: readonly string[];
  /** True when the log goes to a terminal. */
  tty?: boolean;
}

/** SM_ variables of others: the agent, smctl, the tests, and the name of the file itself. */
const foreign = /^SM_(?:AGENT_|TEST_|(?:COMMAND|CONFIG|INSECURE_HTTP|ORG|TOKEN|TOKEN_FILE|URL)$)/;

/**
 * The configuration from `statusmesh.toml` (or the file that `--config` or SM_CONFIG names) and SM_ variables, which
 * win. Throws one StartupError with a line for every problem.
 */
export function loadConfig(sources: ConfigSources): Config {
  const { env, cwd } = sources;
  const { values, problems, warnings } = readSettings(
    withTerminal(configSchema(sources.endpointNames), sources.tty ?? false),
    {
      file: readBaseFile(sources),
      env,
      prefix: "SM_",
      foreign,
      readText: (path) => readFileSync(resolve(cwd, path), "utf8"),
      replaced,
    },
  );
  const config = values as Config;
  settleMethods(config);
  if (warnings.length > 0) config.warnings = warnings;
  problems.push(...contradictions(config));
  if (problems.length > 0) throw new StartupError(problems.join("\n"));

  config.data.dir = resolve(cwd, config.data.dir);
  for (const key of ["url_patterns_file", "domain_denylist_file"] as const)
    if (config.abuse[key] !== "") config.abuse[key] = resolve(cwd, config.abuse[key]);
  if (config.declared.path !== "") config.declared.path = resolve(cwd, config.declared.path);
  if (config.channels.ca_file !== "") config.channels.ca_file = resolve(cwd, config.channels.ca_file);
  config.mirror.targets = config.mirror.targets.map((target) => ({
    ...target,
    ...(target.directory === undefined ? {} : { directory: resolve(cwd, target.directory) }),
    ...(target.s3 === undefined
      ? {}
      : { s3: { ...target.s3, secret_access_key_file: resolve(cwd, target.s3.secret_access_key_file) } }),
  }));
  config.server.public_url = (config.server.public_url || publicUrlOf(parseBind(config.server.bind))).replace(
    /\/$/,
    "",
  );
  settleMcp(config);
  return config;
}

/**
 * The sign-in methods where the setting is absent: links by mail, and passwords and passkeys where neither mail nor an
 * identity provider is configured.
 */
function settleMethods({ auth, email }: Config): void {
  const bare =
    email.smtp_url === "" && [auth.github, auth.google, auth.oidc].every(({ client_id }) => client_id === "");
  auth.enabled_methods ??= bare ? ["password", "passkey", "magic_link"] : ["magic_link"];
}

/** One line per setting that is invalid by itself or contradicts another. */
function contradictions(config: Config): string[] {
  return [
    ...serverProblems(config),
    ...openAccessProblems(config),
    ...providerProblems(config),
    ...linkProblems(config),
    ...corsProblems(config.api.cors),
    ...(config.security.credentials_kek_previous_base64 !== "" && config.security.credentials_kek_base64 === ""
      ? ["security.credentials_kek_previous_base64 needs a key that follows it in security.credentials_kek_base64"]
      : []),
    ...subdomainProblems(config),
    ...pingHostProblems(config),
    ...mcpProblems(config),
    ...mirrorProblems(config.mirror.targets),
  ];
}

function serverProblems({ server }: Config): string[] {
  const problems = (["bind", "metrics_bind"] as const).flatMap((key) => {
    const { port } = parseBind(server[key]);
    return port > 65_535 ? [`server.${key} has port ${port}, and the largest is 65535`] : [];
  });
  if (!URL.canParse(server.public_url === "" ? "http://localhost" : server.public_url))
    problems.push(`server.public_url is not a URL: ${server.public_url}`);
  try {
    addressList(server.trusted_proxies);
  } catch (error) {
    problems.push(`server.trusted_proxies: ${messageOf(error)}; write 127.0.0.1, 10.0.0.0/8 or the like`);
  }
  return problems;
}

/** Without sign-in the service must not be reachable by others. */
function openAccessProblems({ auth, server, api }: Config): string[] {
  if (auth.required) return [];
  const problems: string[] = [];
  if (!auth.trusted_proxy && !isLoopback(parseBind(server.bind).host))
    problems.push(
      "auth.required is false, so everybody who can reach server.bind acts as the owner: bind to 127.0.0.1, " +
        "or set auth.trusted_proxy when a reverse proxy authenticates users",
    );
  if (api.cors.allow_any_origin)
    problems.push(
      "auth.required is false and api.cors.allow_any_origin is true, so every web page could act as the owner: " +
        "list the origins in api.cors.allowed_origins, or set auth.required",
    );
  return problems;
}

const corsProblems = ({ allow_any_origin, allowed_origins }: Config["api"]["cors"]): string[] =>
  allow_any_origin && allowed_origins.length > 0
    ? ["api.cors.allow_any_origin and api.cors.allowed_origins exclude each other: keep one of them"]
    : [];

function subdomainProblems({ tenancy: { subdomain_public_routes }, public_status: { base_domain } }: Config): string[] {
  if (!subdomain_public_routes || base_domain.includes(".")) return [];
  return [
    "tenancy.subdomain_public_routes needs public_status.base_domain, a domain with a dot like status.example.org" +
      (base_domain === "" ? "" : `, not ${base_domain}`),
  ];
}

/** The host of pings answers nothing else. */
function pingHostProblems({ heartbeats: { host }, server, auth, mcp }: Config): string[] {
  const others = {
    "server.public_url": server.public_url || publicUrlOf(parseBind(server.bind)),
    "auth.public_base_url": auth.public_base_url,
    "mcp.resource_uri": mcp.resource_uri,
  };
  return Object.entries(others).flatMap(([key, url]) =>
    host !== "" && URL.canParse(url) && new URL(url).hostname === host
      ? [`heartbeats.host is the host of ${key}, where pings would hide everything else: use a host name of its own`]
      : [],
  );
}

/** A central bot or number works only with all of its keys. */
function linkProblems({ channels: { telegram, whatsapp } }: Config): string[] {
  const { access_token, phone_number_id, app_secret, verify_token, number } = whatsapp;
  const groups = { telegram, whatsapp: { access_token, phone_number_id, app_secret, verify_token, number } };
  return Object.entries(groups).flatMap(([name, keys]) => {
    const missing = Object.entries(keys).flatMap(([key, value]) => (value === "" ? [key] : []));
    return missing.length === 0 || missing.length === Object.keys(keys).length
      ? []
      : [`channels.${name} needs all of its keys, and lacks ${missing.join(" and ")}`];
  });
}

/** An enabled provider needs its client id and secret, and TLS. */
function providerProblems({ auth }: Config): string[] {
  return (["github", "google", "oidc"] as const).flatMap((name) => {
    const { client_id, client_secret, issuer } = auth[name];
    const missing = [
      name === "oidc" && issuer === "" ? "auth.oidc.issuer" : "",
      client_id === "" ? `auth.${name}.client_id` : "",
      client_secret === ""
        ? `auth.${name}.client_secret (SM_AUTH__${name.toUpperCase()}__CLIENT_SECRET or …_FILE)`
        : "",
    ];
    const found = missing.filter((key) => key !== "");
    const problems =
      auth.enabled_methods.includes(name) && found.length > 0
        ? [`auth.enabled_methods has ${name}, which needs ${found.join(" and ")}`]
        : [];
    if (issuer === "") return problems;
    if (!URL.canParse(issuer)) return [...problems, `auth.${name}.issuer is not a URL: ${issuer}`];
    const { protocol, hostname } = new URL(issuer);
    if (protocol === "http:" && !isLoopback(hostname))
      problems.push(`auth.${name}.issuer must be https: an attacker on the network could sign in as anybody`);
    return problems;
  });
}

/** URL of a bound address on this machine; a browser cannot open a wildcard address. */
export function publicUrlOf({ host, port }: { host: string; port: number }): string {
  const reachable = host === "0.0.0.0" || host === "::" ? "localhost" : host;
  return `http://${hostAndPort(reachable, port)}`;
}

function withTerminal(schema: typeof ConfigSchema, tty: boolean): TObject {
  if (!tty) return schema;
  const { log } = schema.properties;
  return Type.Object({
    ...schema.properties,
    log: Type.Object({ ...log.properties, format: { ...log.properties.format, default: "pretty" } }),
  });
}

function readBaseFile({ path, env, cwd }: ConfigSources): { name: string; values: Record<string, unknown> } | null {
  const named = path ?? (env["SM_CONFIG"] || undefined);
  const file = resolve(cwd, named ?? "statusmesh.toml");
  if (named === undefined && !existsSync(file)) return null;
  const name = named ?? relative(cwd, file);
  let source: string;
  try {
    source = readFileSync(file, "utf8");
  } catch (error) {
    throw new StartupError(`The configuration file ${name} cannot be read (${codeOrMessage(error)}).`, {
      cause: error,
    });
  }
  try {
    return { name, values: parse(source) };
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const reason = error.message.split("\n", 1)[0]!.replace("Invalid TOML document: ", "");
    throw new StartupError(`${name}:${error.line}:${error.column} is not valid TOML: ${reason}`, { cause: error });
  }
}
